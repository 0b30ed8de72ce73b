/*
 * A service for faults.py: answers requests one after the other and measures how long each takes. Profiled to ENDPOINT
 * as NAME; another thread hums all the time, so that every interval has something.
 *
 *   service off      without the profiler
 *   service on       with it, as in production: it has threads of its own
 *   service inline   with it, wrongly: the loop of requests delivers profiles itself
 *
 * Commands are lines of standard input, each is answered by one line:
 *   run MS    answers requests for so long: their number, 50, 90, 99 and 100 per cent of their times in ns
 *   memory    kB of data segments, kB of memory that is the process' own, allocations since the profiler's start
 *   end       stops; print_account()
 */

#include "../../program.h"
#include "account.h"

#define MS       UINT64_C(1000000)
#define REQUESTS 65536u

static uint8_t memory[EP_MEMORY_DEFAULT];
static uint32_t times[REQUESTS]; /* of a run, ns */
static uint8_t body[1 << 15];
static atomic_bool ending;
static atomic_ulong allocations;
static bool with_delivery;

/* ---- allocations ---- */

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);

void *malloc(size_t size)
{
    atomic_fetch_add(&allocations, 1);
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    atomic_fetch_add(&allocations, 1);
    return __libc_calloc(count, size);
}

void *realloc(void *old, size_t size)
{
    atomic_fetch_add(&allocations, 1);
    return __libc_realloc(old, size);
}

/* ---- requests ---- */

/* Some 50 us of reading and counting. */
static void answer_request(unsigned number)
{
    static __thread volatile uint32_t sink;
    uint32_t sum = number;

    for (size_t i = 0; i < sizeof body; i++)
        sum = (sum ^ body[i]) * 16777619u;
    sink = sink + sum;
}

/* In place: qsort() may allocate. */
static void sort(uint32_t *values, uint32_t count)
{
    for (uint32_t gap = count / 2; gap > 0; gap = gap * 5 / 11)
        for (uint32_t i = gap; i < count; i++) {
            uint32_t value = values[i], at = i;
            for (; at >= gap && values[at - gap] > value; at -= gap)
                values[at] = values[at - gap];
            values[at] = value;
        }
}

static void run(uint64_t ns)
{
    uint64_t end = now_ns() + ns;
    uint32_t count = 0;

    for (uint64_t before = now_ns(), after; before < end && count < REQUESTS; before = after) {
        answer_request(count);
        if (with_delivery && (ep_collect() != 0 || count % 50 == 0))
            (void)ep_deliver(1000);
        after = now_ns();
        times[count++] = (uint32_t)(after - before < UINT32_MAX ? after - before : UINT32_MAX);
    }
    sort(times, count);
    printf("%u %u %u %u %u\n", count, times[count / 2], times[count * 9 / 10], times[count * 99 / 100],
           times[count - 1]);
}

/* A millisecond of work in twenty. */
static void *hum(void *unused)
{
    struct timespec pause = {.tv_nsec = 19000000};

    while (!atomic_load(&ending)) {
        for (uint64_t end = now_ns() + MS; now_ns() < end;)
            answer_request(1);
        nanosleep(&pause, NULL);
    }
    return unused;
}

/* ---- memory ---- */

/* The number behind name in a file of /proc; without stdio, which would allocate. */
static unsigned long proc_kb(const char *path, const char *name)
{
    static char text[8192];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);

    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = '\0';
    const char *at = strstr(text, name);
    return at ? strtoul(at + strlen(name), NULL, 10) : 0;
}

static void print_memory(void)
{
    printf("%lu %lu %lu\n", proc_kb("/proc/self/status", "VmData:"), proc_kb("/proc/self/smaps_rollup", "Anonymous:"),
           atomic_load(&allocations));
}

/* ---- the program ---- */

static int start(const char *mode, const char *endpoint, const char *name)
{
    struct ep_config config = {.memory = memory,
                               .memory_size = sizeof memory,
                               .service = name,
                               .level = EP_LEVEL_MEDIUM,
                               .interval_ms = 300,
                               .endpoint = endpoint,
                               .flags = with_delivery ? EP_MANUAL : 0};

    memset(memory, 1, sizeof memory); /* so that it is there from the start */
    if (strcmp(mode, "off") == 0)
        return 0;
    return ep_start(&config);
}

static void commands(void)
{
    char line[64];

    while (fgets(line, sizeof line, stdin) && strncmp(line, "end", 3) != 0) {
        if (strncmp(line, "run ", 4) == 0)
            run(strtoul(line + 4, NULL, 10) * MS);
        else
            print_memory();
        fflush(stdout);
    }
}

int main(int argc, char **argv)
{
    static char in[256], out[4096];
    pthread_t thread;

    setvbuf(stdin, in, _IOFBF, sizeof in);
    setvbuf(stdout, out, _IOFBF, sizeof out);
    for (size_t i = 0; i < sizeof body; i++)
        body[i] = (uint8_t)(i * 31);
    with_delivery = argc > 1 && strcmp(argv[1], "inline") == 0;
    if (argc != 4 || start(argv[1], argv[2], argv[3]) != 0 || pthread_create(&thread, NULL, hum, NULL) != 0) {
        fprintf(stderr, "service: %s\n", argc == 4 ? ep_start_error() : "usage: service off|on|inline ENDPOINT NAME");
        return 2;
    }
    atomic_store(&allocations, 0);
    commands();
    atomic_store(&ending, true);
    (void)pthread_join(thread, NULL);
    print_account(ep_stop(30000));
    return 0;
}
