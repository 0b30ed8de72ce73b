/*
 * Tells whether a thread has left its processor: restartable sequences (rseq(2), since Linux 4.18). When the kernel
 * takes a thread off its processor, or delivers a signal to it, outside of the sequence that its rseq area names, it
 * sets the area's rseq_cs to 0. So a thread that names a sequence of data, in which nothing runs, learns of a switch by
 * one store and one load. glibc registers an area for each thread and says where it is (since 2.35).
 *
 * Whether the kernel does so is tried once, mostly while the starting thread waits for another one of edgeprof's.
 * Without an answer every thread may have been switched.
 */
#include "linux.h"

#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define TRIALS 8u
/* A shorter sleep may end before the thread has left its processor. */
#define SLEEP_NS 200000
/* Offsets in the kernel's struct rseq. */
#define CPU_ID 4
#define CS     8
#define LEAST  16u

/* glibc's; absent in other C libraries and versions. */
extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned __rseq_size __attribute__((weak));

/* The kernel reads the sequence and the signature in front of its abort handler. */
static struct {
    uint32_t version, flags;
    uint64_t start, length, abort;
} sequence __attribute__((aligned(32)));
static struct {
    uint32_t start, signature, abort;
} nothing_runs_here;

static _Atomic ptrdiff_t area_at; /* from the thread pointer; 0: not in use */
static atomic_bool tried, noticed;

static inline uint8_t *area_here(ptrdiff_t at)
{
    return (uint8_t *)__builtin_thread_pointer() + at;
}

static inline _Atomic uint64_t *named(uint8_t *area)
{
    return (_Atomic uint64_t *)(void *)(area + CS);
}

void ep_port_stay_begin(void)
{
    ptrdiff_t at = atomic_load_explicit(&area_at, memory_order_relaxed);

    if (at)
        atomic_store_explicit(named(area_here(at)), (uintptr_t)&sequence, memory_order_relaxed);
}

bool ep_port_stayed(void)
{
    ptrdiff_t at = atomic_load_explicit(&area_at, memory_order_relaxed);

    if (!at)
        return false;
    _Atomic uint64_t *name = named(area_here(at));
    bool is_named = atomic_load_explicit(name, memory_order_relaxed) == (uintptr_t)&sequence;
    atomic_store_explicit(name, 0, memory_order_relaxed);
    return is_named;
}

static bool notices_sleep(void)
{
    const struct timespec time = {.tv_nsec = SLEEP_NS};

    ep_port_stay_begin();
    bool slept = nanosleep(&time, NULL) == 0;
    return !ep_port_stayed() && slept;
}

/* Interrupts can take the processor away meanwhile, but not each time. */
static bool notices_rest(void)
{
    bool stayed = false;

    for (unsigned i = 0; i < TRIALS && !stayed; i++) {
        ep_port_stay_begin();
        (void)syscall(SYS_getppid);
        stayed = ep_port_stayed();
    }
    return stayed;
}

static bool has_area(void)
{
    return &__rseq_offset && &__rseq_size && __rseq_size >= LEAST &&
           (int32_t)atomic_load((atomic_uint *)(void *)(area_here(__rseq_offset) + CPU_ID)) >= 0;
}

/* What the kernel reads must be there before a thread names it. */
static void prepare(void)
{
    nothing_runs_here.signature = ep_linux_rseq_signature;
    sequence.start = (uintptr_t)&nothing_runs_here.start;
    sequence.length = sizeof nothing_runs_here.start;
    sequence.abort = (uintptr_t)&nothing_runs_here.abort;
}

bool ep_linux_switches_watch(void)
{
    if (atomic_load(&tried) || !has_area())
        return false;
    prepare();
    atomic_store(named(area_here(__rseq_offset)), (uintptr_t)&sequence);
    return true;
}

void ep_linux_switches_watched(void)
{
    if (atomic_exchange(named(area_here(__rseq_offset)), 0) == 0)
        atomic_store(&noticed, true);
}

void ep_linux_switches_find(void)
{
    if (!has_area() || atomic_exchange(&tried, true))
        return;
    prepare();
    atomic_store(&area_at, __rseq_offset);
    if (!(atomic_load(&noticed) || notices_sleep()) || !notices_rest())
        atomic_store(&area_at, 0);
}
