/*
 * Stacks of threads that nobody announced: created inside shared libraries, by std::thread of libstdc++.so, by foreign
 * runtimes. The first sample of such a thread leaves its sp here and is cut; the collect thread looks up the mapping.
 *
 *   ep_linux_stack_found    asks, or takes the answer
 *   ep_port_stacks_find     answers from /proc/self/maps
 *
 * An entry's thread alone changes it from free to asked and from answered to free. The collect thread answers, and
 * frees entries of ended threads.
 */
#include "linux.h"
#include "own_signal.h"

#include <errno.h>
#include <signal.h>

#define ASKED_MOST 16u
#define NOWHERE    1u          /* start and end of a stack that no mapping contains */
#define STACK_MOST (64u << 20) /* beyond it a mapping is a heap that contains stacks */

static struct asked {
    atomic_uint tid; /* 0: free */
    _Atomic uintptr_t sp;
    uintptr_t start;
    _Atomic uintptr_t end; /* 0: not answered */
} asked[ASKED_MOST];
static atomic_uint waiting; /* asked and not answered */

/* The handler itself may run on the alternate stack, so the kernel's SS_ONSTACK does not tell. */
static bool is_on_own_stack(uintptr_t sp)
{
    stack_t alternate;

    return sigaltstack(NULL, &alternate) == 0 &&
           (alternate.ss_flags & SS_DISABLE || sp - (uintptr_t)alternate.ss_sp >= alternate.ss_size);
}

static void release(struct asked *at)
{
    atomic_store(&at->end, 0);
    atomic_store(&at->sp, 0);
    atomic_store(&at->tid, 0);
}

static void ask(uint32_t tid, uintptr_t sp)
{
    for (struct asked *at = asked; at < asked + ASKED_MOST; at++) {
        unsigned free = 0;
        if (!atomic_compare_exchange_strong(&at->tid, &free, tid))
            continue;
        atomic_store(&at->sp, sp);
        (void)atomic_fetch_add(&waiting, 1);
        return;
    }
}

bool ep_linux_stack_found(uint32_t tid, uintptr_t sp, struct ep_linux_bounds *bounds)
{
    int kept = errno;

    for (struct asked *at = asked; at < asked + ASKED_MOST; at++) {
        if (atomic_load(&at->tid) != tid)
            continue;
        uintptr_t end = atomic_load(&at->end), start = at->start;
        if (end == 0)
            return false;
        release(at);
        *bounds = (struct ep_linux_bounds){.start = start, .end = end};
        if (sp - start < end - start || start == NOWHERE)
            return true;
        break; /* the answer for an ended thread that had the same id */
    }
    if (is_on_own_stack(sp))
        ask(tid, sp);
    errno = kept;
    return false;
}

static void answer(struct asked *at, uintptr_t start, uintptr_t end)
{
    at->start = start;
    atomic_store(&at->end, end);
    (void)atomic_fetch_sub(&waiting, 1);
}

static bool is_open(struct asked *at)
{
    return atomic_load(&at->tid) != 0 && atomic_load(&at->sp) != 0 && atomic_load(&at->end) == 0;
}

static bool mapping_seen(const struct ep_linux_mapping *mapping, void *unused)
{
    const uintptr_t start = mapping->start, end = mapping->end;

    (void)unused;
    for (struct asked *at = asked; at < asked + ASKED_MOST; at++) {
        uintptr_t sp = atomic_load(&at->sp);
        if (sp - start < end - start && mapping->access[0] == 'r' && mapping->access[1] == 'w' && is_open(at))
            answer(at, start, end - sp > STACK_MOST ? sp + STACK_MOST : end);
    }
    return true;
}

/* Without an answer the thread would ask with each sample: bounds that contain nothing end that. Not for what was asked
 * meanwhile: its mapping may have been passed already. */
void ep_port_stacks_find(void)
{
    uintptr_t before[ASKED_MOST];

    ep_linux_stacks_guard();
    if (atomic_load_explicit(&waiting, memory_order_relaxed) == 0)
        return;
    for (unsigned i = 0; i < ASKED_MOST; i++)
        before[i] = atomic_load(&asked[i].sp);
    (void)ep_linux_maps_each(mapping_seen, NULL);
    for (unsigned i = 0; i < ASKED_MOST; i++)
        if (is_open(&asked[i]) && atomic_load(&asked[i].sp) == before[i])
            answer(&asked[i], NOWHERE, NOWHERE);
}

void ep_linux_stacks_forget(void)
{
    for (struct asked *at = asked; at < asked + ASKED_MOST; at++) {
        unsigned tid = atomic_load(&at->tid);
        if (tid && atomic_load(&at->end) && ep_linux_cpu_ns(tid) == 0)
            release(at);
    }
}
