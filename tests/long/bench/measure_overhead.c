/*
 * Direct accounting of what the profiler costs a program, linked in front of it (tests/long/bench/overhead.targets).
 * Nothing of the product is built differently: its handler and its hooks are timed where others call them
 * (-Wl,--wrap).
 *
 *   handler   by the thread's CPU clock, two reads around it; what two reads cost is subtracted
 *   hooks     by the time stamp counter, likewise; of two that nest the outer one counts. One that took longer than
 *             PREEMPTED was put off the processor inside, and counts as much as the others do on average. The
 * allocation hook stands between the runtime's callers and its function: both its names lead here in a copy of the
 *             archive (bench.mk), and the time of the runtime's own part is taken out. Hooks of kinds and those that
 * tell whose work is done (work) are kept apart
 *
 *   signal    what the kernel takes for one: now and then, when a thread takes up other work (a tag, a request), it
 *             queues one to itself whose handler is empty, by the time stamp counter; the mean without the longest
 * tenth
 *
 * SIGUSR2 takes a snapshot of all figures and of the process' CPU time. At exit the difference of the last two goes to
 * the file that EDGEPROF_MEASURE names, as lines of a name and a number, for overhead.py.
 */
#include "../../program.h"

#include <x86intrin.h>

#include <edgeprof/edgeprof.h>
#undef ep_wait_end
#include <edgeprof/hooks.h>

#define PREEMPTED   100000u /* cycles: tens of microseconds */
#define PROBE       (SIGRTMAX - 3)
#define PROBE_EACH  64u /* changes of a thread's work */
#define PROBES_MOST 8192u

/* clang-format off */
#define HOOKS(X) \
    X(void, ep_wait_open, (uintptr_t sp_and_wait, uintptr_t pc, uintptr_t fp, uintptr_t base), (sp_and_wait, pc, fp, base)) \
    X(void, ep_wait_end, (void), ()) \
    X(void, ep_linux_thread_ends, (void), ())
/* clang-format on */

enum {
    SIGNALS,
    HANDLER_NS,
    KIND_CALLS,
    KIND_CYCLES,
    WORK_CALLS,
    WORK_CYCLES,
    HOOK_PREEMPTED,
    EVENTS,
    EVENT_CYCLES,
    TSC,
    CLOCK_NS,
    PROCESS_NS,
    COLLECT_NS,
    DELIVER_NS,
    SAMPLES,
    WAKEUPS,
    FIGURES
};

static const char *const names[FIGURES] = {"signals",      "handler_ns",  "kind_calls",     "kind_cycles",
                                           "work_calls",   "work_cycles", "hook_preempted", "events",
                                           "event_cycles", "tsc",         "clock_ns",       "process_ns",
                                           "collect_ns",   "deliver_ns",  "samples",        "wakeups"};

static _Atomic uint64_t figure[FIGURES];
static uint64_t snapshot[2][FIGURES]; /* the last but one, the last */
static _Thread_local unsigned depth;
static bool measuring;
static struct probes {
    atomic_uint count;
    uint64_t cycles[PROBES_MOST];
} probed, checked;

static void add(unsigned which, uint64_t amount)
{
    (void)atomic_fetch_add_explicit(&figure[which], amount, memory_order_relaxed);
}

/* ---- the handler ---- */

void __real_ep_linux_on_signal(int signal, siginfo_t *info, void *context);
void __wrap_ep_linux_on_signal(int signal, siginfo_t *info, void *context);

void __wrap_ep_linux_on_signal(int signal, siginfo_t *info, void *context)
{
    uint64_t empty = clock_ns(CLOCK_THREAD_CPUTIME_ID), start = clock_ns(CLOCK_THREAD_CPUTIME_ID);

    depth++;
    __real_ep_linux_on_signal(signal, info, context);
    depth--;
    uint64_t took = clock_ns(CLOCK_THREAD_CPUTIME_ID) - start, clock = start - empty;
    add(SIGNALS, 1);
    add(HANDLER_NS, took > clock ? took - clock : 0);
}

/* ---- hooks ---- */

static void spent(uint64_t clock, uint64_t start, unsigned calls, unsigned cycles)
{
    uint64_t took = __rdtsc() - start;

    if (took > PREEMPTED) {
        add(HOOK_PREEMPTED, calls != EVENTS);
        return;
    }
    add(calls, 1);
    add(cycles, took > clock ? took - clock : 0);
}

#define HOOK(result, name, parameters, arguments)                                                                      \
    result __real_##name parameters;                                                                                   \
    result __wrap_##name parameters;                                                                                   \
    result __wrap_##name parameters                                                                                    \
    {                                                                                                                  \
        if (depth++ == 0) {                                                                                            \
            uint64_t empty = __rdtsc(), start = __rdtsc();                                                             \
            __real_##name arguments;                                                                                   \
            spent(start - empty, start, KIND_CALLS, KIND_CYCLES);                                                      \
        } else {                                                                                                       \
            __real_##name arguments;                                                                                   \
        }                                                                                                              \
        depth--;                                                                                                       \
    }
HOOKS(HOOK)

static void nothing(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)info, (void)context;
}

static void note(struct probes *probes, uint64_t cycles)
{
    unsigned place = atomic_fetch_add(&probes->count, 1);

    if (place < PROBES_MOST)
        probes->cycles[place] = cycles;
}

/* In turn the signal and signal 0, which is no signal: the call does all but to queue it. */
static void probe(unsigned turn)
{
    static _Thread_local siginfo_t info;
    int kept = errno, which = turn % 2 ? PROBE : 0;

    info.si_signo = which;
    info.si_code = SI_TIMER;
    long process = getpid(), thread = syscall(SYS_gettid);
    uint64_t start = __rdtsc();
    (void)syscall(SYS_rt_tgsigqueueinfo, process, thread, which, &info);
    note(which ? &probed : &checked, __rdtsc() - start);
    errno = kept;
}

void __real_ep_work_set(uint32_t tags, uint64_t span, uint64_t high, uint64_t low);
void __wrap_ep_work_set(uint32_t tags, uint64_t span, uint64_t high, uint64_t low);

void __wrap_ep_work_set(uint32_t tags, uint64_t span, uint64_t high, uint64_t low)
{
    static _Thread_local unsigned changes;
    uint64_t empty = __rdtsc(), start = __rdtsc();

    __real_ep_work_set(tags, span, high, low);
    spent(start - empty, start, WORK_CALLS, WORK_CYCLES);
    if (measuring && ++changes % PROBE_EACH == 0)
        probe(changes / PROBE_EACH);
}

/* ---- the allocation hook ---- */

static _Thread_local uint64_t inside;

void *__real_RhpGcAlloc(const void *type, uint32_t flags, uintptr_t elements, const uintptr_t *frame);
void *timed_RhpGcAlloc(const void *type, uint32_t flags, uintptr_t elements, const uintptr_t *frame);
void *hooked_RhpGcAlloc(const void *type, uint32_t flags, uintptr_t elements, const uintptr_t *frame);
void *__wrap_RhpGcAlloc(const void *type, uint32_t flags, uintptr_t elements, const uintptr_t *frame);

void *timed_RhpGcAlloc(const void *type, uint32_t flags, uintptr_t elements, const uintptr_t *frame)
{
    uint64_t empty = __rdtsc(), start = __rdtsc();
    void *object = __real_RhpGcAlloc(type, flags, elements, frame);

    inside = __rdtsc() - start + 2 * (start - empty); /* three reads of the counter: the outer ones are a half each */
    return object;
}

void *__wrap_RhpGcAlloc(const void *type, uint32_t flags, uintptr_t elements, const uintptr_t *frame)
{
    uint64_t empty = __rdtsc(), start = __rdtsc();

    depth++;
    void *object = hooked_RhpGcAlloc(type, flags, elements, frame);
    depth--;
    spent(start - empty, start + inside, KIND_CALLS, KIND_CYCLES);
    return object;
}

/* An event is a hook's rarer part: counted within the hook that tells it, or alone. */
int __real_ep_hook_event(const struct ep_hook_event *event);
int __wrap_ep_hook_event(const struct ep_hook_event *event);

int __wrap_ep_hook_event(const struct ep_hook_event *event)
{
    uint64_t empty = __rdtsc(), start = __rdtsc();
    int result = __real_ep_hook_event(event);

    spent(start - empty, start, EVENTS, EVENT_CYCLES);
    if (depth == 0)
        spent(start - empty, start, KIND_CALLS, KIND_CYCLES);
    return result;
}

/* ---- telling ---- */

static void snap(int signal)
{
    struct ep_stats stats;

    (void)signal;
    for (unsigned i = 0; i < FIGURES; i++)
        snapshot[0][i] = snapshot[1][i];
    if (ep_stats_get(&stats) == 0) {
        figure[COLLECT_NS] = stats.collect_cpu_ns;
        figure[DELIVER_NS] = stats.deliver_cpu_ns;
        figure[SAMPLES] = stats.samples;
        figure[WAKEUPS] = stats.wakeups;
    }
    figure[TSC] = __rdtsc();
    figure[CLOCK_NS] = clock_ns(CLOCK_MONOTONIC);
    figure[PROCESS_NS] = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    for (unsigned i = 0; i < FIGURES; i++)
        snapshot[1][i] = figure[i];
}

__attribute__((constructor)) static void begin(void)
{
    struct sigaction take = {.sa_handler = snap, .sa_flags = SA_RESTART};
    struct sigaction empty = {.sa_sigaction = nothing, .sa_flags = SA_SIGINFO | SA_RESTART};

    measuring = getenv("EDGEPROF_MEASURE") != NULL;
    if (!measuring)
        return;
    (void)sigaction(SIGUSR2, &take, NULL);
    (void)sigaction(PROBE, &empty, NULL);
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Mean without the longest tenth: those were put off the processor. */
static void tell_usual(FILE *file, const char *name, struct probes *probes)
{
    unsigned count = probes->count < PROBES_MOST ? probes->count : PROBES_MOST, kept = count - count / 10;
    uint64_t sum = 0;

    qsort(probes->cycles, count, sizeof probes->cycles[0], by_value);
    for (unsigned i = 0; i < kept; i++)
        sum += probes->cycles[i];
    (void)fprintf(file, "%ss %u\n%s_cycles %llu\n", name, count, name, (unsigned long long)(kept ? sum / kept : 0));
}

__attribute__((destructor)) static void tell(void)
{
    const char *path = getenv("EDGEPROF_MEASURE");
    FILE *file = path ? fopen(path, "w") : NULL;

    if (!file)
        return;
    tell_usual(file, "probe", &probed);
    tell_usual(file, "check", &checked);
    for (unsigned i = 0; i < FIGURES; i++)
        (void)fprintf(file, "%s %llu\n", names[i], (unsigned long long)(snapshot[1][i] - snapshot[0][i]));
    (void)fclose(file);
}
