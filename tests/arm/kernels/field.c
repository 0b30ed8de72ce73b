/*
 * A program that profiles itself while the machine changes under it; for the kernels of tests/arm/kernels.
 *
 *   field CASE RATE_HZ file:///PATH
 *
 *   plain     nothing changes
 *   calls     one thread does nothing but enter calls that wait, and counts those that end with EINTR; another one
 *             ends the reads
 *   hotplug   CPU 1 goes offline and online; one thread is bound to it
 *   clock     the wall clock jumps a day forward, then two days back, then a day forward
 *   idle      suspend to idle: all processes are frozen for some seconds, the real-time clock ends it
 *   suspend   the kernel's test of hibernation: the clocks and one CPU stop, too; it ends by itself after 5 s
 *
 * One thread uses CPU time all the time, two more work by turns with pauses, of which one is bound
 * to CPU 1; not so in the cases plain and calls. MS of the monotonic clock. One line of JSON has what getrusage says
 * and what the profiler says. Exit code: 0 when it ran and the case took place.
 */
#include "../../program.h"

#include <linux/futex.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>

#include <edgeprof/edgeprof.h>

#define MS    3000u
#define DAY   86400
#define SLEEP 5 /* s */

static uint8_t memory[EP_MEMORY_DEFAULT];
static bool stop;

static double clock_s(clockid_t clock)
{
    struct timespec now;

    (void)clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void sleep_ms(unsigned ms)
{
    struct timespec left = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};

    while (nanosleep(&left, &left) != 0) {
    }
}

static double process_s(void)
{
    struct rusage used;

    (void)getrusage(RUSAGE_SELF, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

/* ---- work ---- */

static void burn(double seconds)
{
    double end = clock_s(CLOCK_THREAD_CPUTIME_ID) + seconds;

    while (clock_s(CLOCK_THREAD_CPUTIME_ID) < end)
        for (volatile int i = 0; i < 2000; i++) {
        }
}

static void *steady(void *unused)
{
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED))
        burn(0.02);
    return unused;
}

static void *by_turns(void *unused)
{
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        burn(0.005);
        sleep_ms(5);
    }
    return unused;
}

static void *bound(void *unused)
{
    cpu_set_t second;

    CPU_ZERO(&second);
    CPU_SET(1, &second);
    (void)sched_setaffinity(0, sizeof second, &second); /* with one CPU only it stays where it is */
    return by_turns(unused);
}

/* ---- calls that wait ---- */

static struct {
    int pipe[2], socket[2], epoll;
    int word;
    unsigned long long calls, ended; /* ended: with EINTR */
    bool failed;
} waits;

static void count(long result, int usual)
{
    waits.calls++;
    if (result >= 0 || errno == usual)
        return;
    waits.ended += errno == EINTR;
    if (errno != EINTR)
        perror("field: a call that waits");
    waits.failed |= errno != EINTR;
}

/* Each waits for a moment; those that can wait for less than 1 ms are more. */
#define SHORT 16

static void *enter_calls(void *unused)
{
    const struct timespec moment = {.tv_nsec = 1000};
    const long futex_moment[2] = {0, 1000}; /* the kernel's struct */
    struct epoll_event event;
    char byte;

    (void)prctl(PR_SET_TIMERSLACK, 1);
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        for (unsigned i = 0; i < SHORT; i++) {
            count(nanosleep(&moment, NULL), 0);
            count(ppoll(NULL, 0, &moment, NULL), 0);
            count(syscall(SYS_futex, &waits.word, FUTEX_WAIT, 0, futex_moment, NULL, 0), ETIMEDOUT);
        }
        count(epoll_wait(waits.epoll, &event, 1, 1), 0);
        count(read(waits.pipe[0], &byte, 1), 0);
        count(recv(waits.socket[0], &byte, 1, 0), 0);
    }
    return unused;
}

static void feed(int from, int to)
{
    int queued = 0;

    if (ioctl(from, FIONREAD, &queued) != 0 || (queued == 0 && write(to, "", 1) != 1))
        perror("field: feed");
}

static void *end_reads(void *unused)
{
    const struct timespec moment = {.tv_nsec = 200000};

    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        feed(waits.pipe[0], waits.pipe[1]);
        feed(waits.socket[0], waits.socket[1]);
        (void)nanosleep(&moment, NULL);
    }
    (void)close(waits.pipe[1]); /* the reads end, too */
    (void)close(waits.socket[1]);
    return unused;
}

static int waits_open(void)
{
    waits.epoll = epoll_create1(EPOLL_CLOEXEC);
    return waits.epoll < 0 || pipe(waits.pipe) != 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, waits.socket) != 0;
}

/* ---- cases ---- */

static int put(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY);
    ssize_t done = fd >= 0 ? write(fd, text, strlen(text)) : -1;

    if (done < 0)
        perror(path);
    if (fd >= 0)
        (void)close(fd);
    return done < 0 ? -1 : 0;
}

static int hotplug(void)
{
    int failed = 0;

    for (unsigned i = 0; i < 6; i++) {
        sleep_ms(MS / 12);
        failed |= put("/sys/devices/system/cpu/cpu1/online", "0\n");
        sleep_ms(MS / 12);
        failed |= put("/sys/devices/system/cpu/cpu1/online", "1\n");
    }
    return failed;
}

static int jump(time_t seconds)
{
    struct timespec now;

    sleep_ms(MS / 4);
    (void)clock_gettime(CLOCK_REALTIME, &now);
    now.tv_sec += seconds;
    if (clock_settime(CLOCK_REALTIME, &now) == 0)
        return 0;
    perror("clock_settime");
    return -1;
}

static int clock_jumps(void)
{
    const struct timespec plausible = {.tv_sec = 1800000000};
    int failed = clock_s(CLOCK_REALTIME) > 1700000000 ? 0 : clock_settime(CLOCK_REALTIME, &plausible);

    failed |= jump(DAY) | jump(-2 * DAY) | jump(DAY);

    sleep_ms(MS / 4);
    return failed;
}

/* An alarm of 0 removes an old one. */
static int sleep_idle(void)
{
    double before = clock_s(CLOCK_BOOTTIME);

    if (put("/sys/class/rtc/rtc0/wakealarm", "0\n") != 0 || put("/sys/class/rtc/rtc0/wakealarm", "+5\n") != 0 ||
        put("/sys/power/state", "freeze\n") != 0)
        return -1;
    return clock_s(CLOCK_BOOTTIME) - before > SLEEP - 2 ? 0 : -1;
}

/* While the machine sleeps the monotonic clock stops and the boot clock does not. */
static int sleep_stopped(void)
{
    double before = clock_s(CLOCK_BOOTTIME) - clock_s(CLOCK_MONOTONIC);

    if (put("/sys/power/pm_test", "core\n") != 0 || put("/sys/power/state", "disk\n") != 0)
        return -1;
    double slept = clock_s(CLOCK_BOOTTIME) - clock_s(CLOCK_MONOTONIC) - before;
    fprintf(stderr, "field: the clock stopped for %.2f s\n", slept);
    return slept > SLEEP - 2 ? 0 : -1;
}

static int sleep_between(int (*sleep_somehow)(void))
{
    sleep_ms(MS / 2);
    int failed = sleep_somehow();
    sleep_ms(MS / 2);
    return failed;
}

static int run_case(const char *name)
{
    if (strcmp(name, "hotplug") == 0)
        return hotplug();
    if (strcmp(name, "clock") == 0)
        return clock_jumps();
    if (strcmp(name, "idle") == 0)
        return sleep_between(sleep_idle);
    if (strcmp(name, "suspend") == 0)
        return sleep_between(sleep_stopped);
    sleep_ms(MS);
    return strcmp(name, "plain") != 0 && strcmp(name, "calls") != 0;
}

static void print_waits(const struct ep_stats *stats)
{
    if (waits.calls)
        printf("\"calls\":%llu,\"eintr\":%llu,\"eintr_per_million_signals\":%.0f,", waits.calls, waits.ended,
               stats->samples ? 1e6 * (double)waits.ended / (double)stats->samples : 0);
}

static void print_truth(const char *name, unsigned asked, double used, double wall, const struct ep_stats *stats)
{
    struct rusage all;
    unsigned long long lost = 0;

    (void)getrusage(RUSAGE_SELF, &all);
    for (unsigned i = 0; i < EP_LOSS_REASONS; i++)
        lost += stats->lost_count[i];
    printf("{");
    print_waits(stats);
    printf("\"case\":\"%s\",\"asked\":%u,\"used\":%.6f,\"wall\":%.3f,\"samples\":%llu,\"weight\":%.6f,", name, asked,
           used, wall, (unsigned long long)stats->samples, (double)stats->weight_ns / 1e9);
    printf("\"ends\":%.6f,\"lost\":%llu,\"messages\":%llu,\"delivered\":%llu,\"failures\":%llu,\"own\":%.6f,"
           "\"wakeups\":%llu,\"rss_kib\":%ld,\"block_kib\":%u}\n",
           (double)stats->thread_exit_ns / 1e9, lost, (unsigned long long)stats->messages,
           (unsigned long long)stats->delivered, (unsigned long long)stats->delivery_failures,
           (double)(stats->collect_cpu_ns + stats->deliver_cpu_ns) / 1e9, (unsigned long long)stats->wakeups,
           all.ru_maxrss, stats->memory_used / 1024);
}

int main(int argc, char **argv)
{
    static void *(*const changes[])(void *) = {steady, by_turns, bound};
    static void *(*const calls[])(void *) = {enter_calls, end_reads};
    pthread_t thread[3];
    struct ep_stats stats;

    if (argc != 4)
        return 2;
    const struct ep_config config = {.memory = memory,
                                     .memory_size = sizeof memory,
                                     .service = "field",
                                     .rate_hz = (uint32_t)atoi(argv[2]),
                                     .interval_ms = 1000,
                                     .endpoint = argv[3]};
    double start = clock_s(CLOCK_BOOTTIME), before = process_s();
    if (ep_start(&config) != 0) {
        fprintf(stderr, "field: %s\n", ep_start_error());
        return 1;
    }
    bool entering = strcmp(argv[1], "calls") == 0;
    void *(*const *work)(void *) = entering ? calls : changes;
    unsigned threads = entering ? 2 : strcmp(argv[1], "plain") == 0 ? 1 : 3;
    if (entering && waits_open() != 0)
        return 1;
    for (unsigned i = 0; i < threads; i++)
        if (pthread_create(&thread[i], NULL, work[i], NULL) != 0)
            return 1;
    int failed = run_case(argv[1]);
    __atomic_store_n(&stop, true, __ATOMIC_RELAXED);
    for (unsigned i = 0; i < threads; i++)
        (void)pthread_join(thread[i], NULL);
    int stopped = ep_stop(5000);
    double used = process_s() - before;
    (void)ep_stats_get(&stats);
    print_truth(argv[1], config.rate_hz, used - (double)(stats.collect_cpu_ns + stats.deliver_cpu_ns) / 1e9,
                clock_s(CLOCK_BOOTTIME) - start, &stats);
    return failed || stopped != 0 || waits.failed;
}
