/*
 * The whole cost of profiling by a switchback experiment: one process with two busy threads, labels and spans on. The
 * profiler is off and on in pairs of random order; the measure is CPU time of the process for each unit of work. So
 * what a figure of the profiler's own does not see (caches, branches, signals, hooks that take no sample) counts, and
 * what drifts (clock rates, neighbours) falls out.
 *
 *   switchback LEVEL WORKLOAD MOST_SECONDS WANTED    WORKLOAD: cache, call, wait. Ends when the half width of the 95 %
 *                                                    interval is WANTED percent, or after MOST_SECONDS.
 *
 * Prints a line `figure`, and one with the half width, how long WANTED takes on this machine, and what the profiler
 * accounts to itself in the same time. A change of the level begins an interval; SETTLE_MS after it are not measured,
 * so the encoding of intervals is not in the figure.
 */
#include "../../program.h"

#include <math.h>

#include <edgeprof/edgeprof.h>

/* A pair of slots of 100 ms differs a fifth more than one of 250 ms, but takes less than half as long: in the same time
 * the interval is a third narrower (two busy virtual processors; pinned threads, orders like ABBA, and other means made
 * no difference). Nothing of a level's change is left after a few ms. */
#define SLOT_MS   100
#define SETTLE_MS 20
#define PAIRS     50000u
#define TABLE     (1u << 20) /* words: 8 MiB, larger than most second-level caches */

static uint8_t memory[EP_MEMORY_DEFAULT];
static uint64_t table[TABLE];
static struct worker {
    _Alignas(64) _Atomic uint64_t units;
    uint64_t dice, sum;
    int pair[2];
} worker[2];
static atomic_bool stopping;

static uint64_t next(uint64_t *dice)
{
    *dice ^= *dice << 13;
    *dice ^= *dice >> 7;
    return *dice ^= *dice << 17;
}

static double clock_of(clockid_t clock)
{
    struct timespec now;

    (void)clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void sleep_ms(unsigned ms)
{
    struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};

    while (nanosleep(&left, &left) != 0) {
    }
}

/* Stacks of 8 to 30 frames, as services have them; the work is at the leaf. */
static __attribute__((noinline)) uint64_t descend(struct worker *me, unsigned depth, uint64_t (*leaf)(struct worker *))
{
    uint64_t sum = depth ? descend(me, depth - 1, leaf) : leaf(me);

    return sum + depth;
}

static uint64_t walk_cache(struct worker *me)
{
    uint64_t at = next(&me->dice), sum = 0;

    for (unsigned i = 0; i < 400; i++)
        sum += at = table[(at + i) % TABLE];
    return sum;
}

static uint64_t call_often(struct worker *me)
{
    uint64_t sum = 0;
    char text[32];

    for (unsigned i = 0; i < 40; i++)
        sum += (uint64_t)snprintf(text, sizeof text, "%llx", (unsigned long long)next(&me->dice));
    return sum;
}

/* Calls that could wait, but do not, as a server's under load. */
static uint64_t wait_often(struct worker *me)
{
    char byte = 1;

    for (unsigned i = 0; i < 10; i++) {
        ep_wait_begin(EP_WAIT_NETWORK);
        if (write(me->pair[0], &byte, 1) != 1)
            abort();
        ep_wait_end();
        ep_wait_begin(EP_WAIT_NETWORK);
        if (read(me->pair[1], &byte, 1) != 1)
            abort();
        ep_wait_end();
    }
    return (uint64_t)byte;
}

static uint64_t (*leaf)(struct worker *);

static void *work(void *argument)
{
    struct worker *me = argument;

    for (uint64_t i = 0; !atomic_load_explicit(&stopping, memory_order_relaxed); i++) {
        if (i % 64 == 0) { /* a request */
            ep_tag_pop();
            (void)ep_tag_push("endpoint", i / 64 % 3 ? "/read" : "/write");
            ep_span_set(next(&me->dice), 1, i);
        }
        me->sum += descend(me, 8 + (unsigned)(next(&me->dice) % 23), leaf);
        atomic_fetch_add_explicit(&me->units, 1, memory_order_relaxed);
    }
    return NULL;
}

/* CPU time for a unit of work in one slot. */
static double measure(bool on, enum ep_level level)
{
    if (on ? ep_level_set(level) : ep_kinds_set(0))
        abort();
    sleep_ms(SETTLE_MS);
    double cpu = clock_of(CLOCK_PROCESS_CPUTIME_ID);
    uint64_t units = atomic_load(&worker[0].units) + atomic_load(&worker[1].units);
    sleep_ms(SLOT_MS);
    units = atomic_load(&worker[0].units) + atomic_load(&worker[1].units) - units;
    return (clock_of(CLOCK_PROCESS_CPUTIME_ID) - cpu) / (double)units;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static int start(const char *workload)
{
    struct ep_config config = {.memory = memory,
                               .memory_size = sizeof memory,
                               .service = "switchback",
                               .flags = EP_THREAD_LABELS,
                               .endpoint = getenv("EDGEPROF_ENDPOINT")};
    const struct {
        const char *name;
        uint64_t (*leaf)(struct worker *);
    } known[] = {{"cache", walk_cache}, {"call", call_often}, {"wait", wait_often}};

    for (unsigned i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(known[i].name, workload) == 0)
            leaf = known[i].leaf;
    for (unsigned i = 0; i < TABLE; i++)
        table[i] = i * UINT64_C(0x9e3779b97f4a7c15) >> 20;
    return leaf ? ep_start(&config) : -1;
}

static enum ep_level level_of(const char *name)
{
    return strcmp(name, "low") == 0 ? EP_LEVEL_LOW : strcmp(name, "medium") == 0 ? EP_LEVEL_MEDIUM : EP_LEVEL_HIGH;
}

/* The mean of the middle four fifths, and the half width of its 95 % interval, in percent: a neighbour's burst within
 * a slot must not decide. */
static void summarize(double *sorted, unsigned count, double *mean, double *half)
{
    unsigned cut = count / 10, kept = count - 2 * cut;
    double sum = 0, squares = 0;

    qsort(sorted, count, sizeof *sorted, by_value);
    for (unsigned i = cut; i < count - cut; i++)
        sum += sorted[i];
    *mean = sum / kept;
    for (unsigned i = 0; i < count; i++) { /* winsorized */
        double value = sorted[i < cut ? cut : i >= count - cut ? count - cut - 1 : i] - *mean;
        squares += value * value;
    }
    *half = 196 * sqrt(squares / (count - 1)) / (0.8 * sqrt(count));
    *mean *= 100;
}

int main(int argc, char **argv)
{
    static double difference[PAIRS], sorted[PAIRS];
    double mean = 0, half = 100, seconds = argc == 5 ? atof(argv[3]) : 0, wanted = argc == 5 ? atof(argv[4]) : 0;
    pthread_t thread[2];
    struct ep_stats stats;
    unsigned pairs = 0;

    if (argc != 5 || start(argv[2]) != 0) {
        fprintf(stderr,
                "usage: switchback low|medium|high cache|call|wait SECONDS PERCENT; EDGEPROF_ENDPOINT: file:///...\n");
        return 2;
    }
    for (unsigned i = 0; i < 2; i++) {
        worker[i].dice = i + 1;
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, worker[i].pair) != 0 ||
            pthread_create(&thread[i], NULL, work, &worker[i]) != 0)
            return 1;
    }
    uint64_t dice = (uint64_t)time(NULL) | 1;
    double end = clock_of(CLOCK_MONOTONIC) + seconds;
    while (clock_of(CLOCK_MONOTONIC) < end && pairs < PAIRS && (pairs < 40 || half > wanted)) {
        bool first = next(&dice) >> 20 & 1;
        double one = measure(first, level_of(argv[1])), other = measure(!first, level_of(argv[1]));
        difference[pairs++] = log(first ? one / other : other / one);
        memcpy(sorted, difference, pairs * sizeof *sorted);
        if (pairs >= 40)
            summarize(sorted, pairs, &mean, &half);
    }
    atomic_store(&stopping, true);
    for (unsigned i = 0; i < 2; i++)
        (void)pthread_join(thread[i], NULL);
    if (ep_stats_get(&stats) != 0)
        return 1;
    double on = clock_of(CLOCK_PROCESS_CPUTIME_ID) / 2;
    printf("figure overhead_%s_switchback_%s_pct %.2f %%\n", argv[1], argv[2], mean);
    printf("%s %s: +- %.2f, %u pairs; accounted by the profiler %.2f %%, changes of level included; +- %.2f takes "
           "about %.0f minutes\n",
           argv[1], argv[2], half, pairs,
           (double)(stats.handler_ns + stats.collect_cpu_ns + stats.deliver_cpu_ns) / 1e7 / on, wanted,
           pairs * (half / wanted) * (half / wanted) * 2 * (SLOT_MS + SETTLE_MS) / 60000);
    return ep_stop(2000) == -ETIMEDOUT;
}
