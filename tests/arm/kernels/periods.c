/*
 * The library's own system calls with a time in them: on 32-bit ARM the C library's time_t may have 32 or 64 bits and
 * the kernel's call has its own type. A wrong struct makes a wait return at once or never, and a timer tick at a wrong
 * rate. So this counts: waits that must take as long as asked, and ticks of a thread's timer.
 *
 *   periods [no-32-bit-times]     with the word a filter refuses the calls with 32-bit times, as kernels without
 *                                 CONFIG_COMPAT_32BIT_TIME do; futexes without a timeout stay, for glibc's locks
 *
 * Compiled with _TIME_BITS=32 and 64, linked with a library of the same. Exit code 1: a figure is wrong.
 */
#include "../../program.h"

#include <linux/filter.h>
#include <linux/seccomp.h>

#include <edgeprof/edgeprof.h>
#include <edgeprof/port.h>

#define MS 1000000u

static uint8_t memory[EP_MEMORY_DEFAULT];
static int failed;

static void report(const char *what, double value, double least, double most)
{
    bool good = value >= least && value <= most;

    printf("periods: time_t of %zu bits: %s: %.2f, %.2f to %.2f expected%s\n", 8 * sizeof(time_t), what, value, least,
           most, good ? "" : ": WRONG");
    failed |= !good;
}

#if defined SYS_futex_time64
static void refuse_32_bit_times(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_timer_settime, 6, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clock_gettime, 5, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clock_nanosleep, 4, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_futex, 0, 2),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[3])), /* the timeout */
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
    };
    const struct sock_fprog program = {.len = sizeof code / sizeof code[0], .filter = code};

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        perror("seccomp");
        failed = 1;
    }
}
#else
static void refuse_32_bit_times(void) {}
#endif

/* Waits that nobody ends: with more than a second, and with a part of one. Not longer than a slow machine needs. */
static void waits(void)
{
    struct ep_event never = {0};
    uint64_t start = clock_ns(CLOCK_MONOTONIC);

    for (unsigned i = 0; i < 20; i++)
        ep_port_wait(&never, 0, 50 * MS);
    report("20 waits of 0.05 s, in s", (double)(clock_ns(CLOCK_MONOTONIC) - start) / 1e9, 1, 3);
    start = clock_ns(CLOCK_MONOTONIC);
    ep_port_wait(&never, 0, 1250 * MS);
    report("a wait of 1.25 s, in s", (double)(clock_ns(CLOCK_MONOTONIC) - start) / 1e9, 1.25, 2.25);
}

static void *wake(void *event)
{
    struct ep_event pause = {0};

    ep_port_wait(&pause, 0, 100 * MS);
    ep_port_wake(event);
    return NULL;
}

static void wakes(void)
{
    static struct ep_event event;
    pthread_t thread;
    uint64_t start = clock_ns(CLOCK_MONOTONIC);

    if (pthread_create(&thread, NULL, wake, &event) != 0)
        failed = 1;
    while (ep_port_uptime_ns() && event.value == 0 && clock_ns(CLOCK_MONOTONIC) - start < 20000u * (uint64_t)MS)
        ep_port_wait(&event, 0, 30000u * (uint64_t)MS);
    (void)pthread_join(thread, NULL);
    report("a wait of 30 s that ends after 0.1 s, in s", (double)(clock_ns(CLOCK_MONOTONIC) - start) / 1e9, 0.1, 3);
}

/* 50 periods of 20 ms of CPU time: also with overruns their weight is the CPU time. */
static void ticks(void)
{
    const struct ep_config config = {.memory = memory, .memory_size = sizeof memory, .rate_hz = 50, .interval_ms = 500};
    struct ep_stats stats;

    if (ep_start(&config) != 0) {
        printf("periods: %s\n", ep_start_error());
        failed = 1;
        return;
    }
    uint64_t start = clock_ns(CLOCK_THREAD_CPUTIME_ID), from = clock_ns(CLOCK_MONOTONIC);
    while (clock_ns(CLOCK_THREAD_CPUTIME_ID) - start < 1000u * (uint64_t)MS)
        for (volatile int i = 0; i < 2000; i++) {
        }
    double wall = (double)(clock_ns(CLOCK_MONOTONIC) - from) / 1e9;
    (void)ep_stop(1000);
    (void)ep_stats_get(&stats);
    report("CPU time of samples in 1 s, in s", (double)stats.weight_ns / 1e9, 0.96, 1.04);
    report("samples in 1 s", (double)stats.samples, 20, 52);
    report("wakeups of edgeprof's threads a second", (double)stats.wakeups / wall, 1, 40);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "no-32-bit-times") == 0)
        refuse_32_bit_times();
    waits();
    wakes();
    ticks();
    return failed;
}
