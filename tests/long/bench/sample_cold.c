/*
 * What a sample costs in the handler alone, with warm caches and with cold ones, as between two samples of a busy
 * program: the handler is called for the same place some 30 frames deep, in code with frame pointers as .NET compiles
 * it. Before a cold sample the program's code, data and stack are flushed from all caches and the processor forgets
 * where its pages are. What the kernel has just written when it calls a handler is read again then. Medians count.
 */

#include "../../program.h"

#include <edgeprof/edgeprof.h>
#include "port/linux/own_signal.h"

#define SAMPLES 501
#define PAGES   512 /* a change of so many makes the kernel forget all translations */
#define LINE    64

static uint8_t memory[EP_MEMORY_DEFAULT];
static _Alignas(4096) uint8_t pages[PAGES * 4096];
static uint8_t *stack_end;
extern uint8_t __executable_start[], _end[]; /* the linker's */
static double took[SAMPLES];
static volatile unsigned sink;
static double *result;
static bool cold;

static void read_all(const volatile uint8_t *at, size_t size)
{
    for (size_t i = 0; i < size; i += LINE)
        sink += at[i];
}

static void flush(const uint8_t *at, const uint8_t *end)
{
    for (; at < end; at += LINE)
        __asm__ volatile("clflush %0" : : "m"(*at) : "memory");
}

static void flush_all(void)
{
    uint8_t here;

    for (int i = 0; i < 2; i++)
        (void)mprotect(pages, sizeof pages, i ? PROT_READ | PROT_WRITE : PROT_READ);
    flush(__executable_start, pages);
    flush(pages + sizeof pages, _end);
    flush(&here, stack_end);
    flush((const uint8_t *)__builtin_thread_pointer() - 512, (const uint8_t *)__builtin_thread_pointer() + LINE);
    __asm__ volatile("mfence" : : : "memory");
}

static void on_signal(int signal, siginfo_t *info, void *ucontext)
{
    siginfo_t tick = *info;

    tick.si_code = SI_TIMER;
    tick.si_overrun = 0;
    tick.si_value.sival_ptr = (void *)ep_linux_tick_value(0, 1); /* slot 0: the main thread, found first */
    if (cold)
        flush_all();
    read_all((const uint8_t *)&tick, sizeof tick);
    read_all(ucontext, sizeof(ucontext_t));
    double empty = (double)clock_ns(CLOCK_MONOTONIC), start = (double)clock_ns(CLOCK_MONOTONIC);
    ep_linux_on_signal(signal, &tick, ucontext);
    *result = (double)clock_ns(CLOCK_MONOTONIC) - start - (start - empty);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static __attribute__((noinline)) double measure(bool is_cold)
{
    cold = is_cold;
    for (int i = 0; i < SAMPLES; i++) {
        result = &took[i];
        (void)raise(SIGUSR2);
        (void)ep_collect();
    }
    qsort(took, SAMPLES, sizeof took[0], by_value);
    return took[SAMPLES / 2];
}

static double figure[2];

static __attribute__((noinline, noipa)) void deepest(void)
{
    (void)measure(false);
    figure[0] = measure(false);
    figure[1] = measure(true);
}

/* Functions of their own, far from each other, with frames of some size. */
#define LEVEL(name, next)                                                                                              \
    static __attribute__((noinline, noipa, aligned(256))) void name(void)                                              \
    {                                                                                                                  \
        volatile uint8_t local[128] = {1};                                                                             \
        next();                                                                                                        \
        sink += local[0]; /* no tail call */                                                                           \
    }
#define LEVELS(name, next)                                                                                             \
    LEVEL(name##4, next) LEVEL(name##3, name##4) LEVEL(name##2, name##3) LEVEL(name##1, name##2) LEVEL(name, name##1)
LEVELS(fifth, deepest)
LEVELS(fourth, fifth)
LEVELS(third, fourth)
LEVELS(second, third)
LEVELS(first, second)

int main(void)
{
    struct ep_config config = {
        .memory = memory, .memory_size = sizeof memory, .service = "sample_cold", .rate_hz = 1, .flags = EP_MANUAL};
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO};
    struct ep_stats stats;

    memset(pages, 1, sizeof pages);
    stack_end = (uint8_t *)__builtin_frame_address(0);
    (void)sigaction(SIGUSR2, &action, NULL);
    if (ep_start(&config) != 0) {
        fprintf(stderr, "sample_cold: %s\n", ep_start_error());
        return 1;
    }
    first();
    (void)ep_stop(0);
    (void)ep_stats_get(&stats);
    if (stats.samples < 3 * SAMPLES || stats.cut) {
        fprintf(stderr, "sample_cold: %llu of %d signals became samples, %llu without a root\n",
                (unsigned long long)stats.samples, 3 * SAMPLES, (unsigned long long)stats.cut);
        return 1;
    }
    fprintf(stderr, "%.1f frames a stack\n", (double)(stats.rule_hits + stats.rule_misses) / (double)stats.samples);
    printf("figure sample_warm_ns %.0f ns\nfigure sample_cold_ns %.0f ns\n", figure[0], figure[1]);
    return 0;
}
