/*
 * Alternate signal stacks of the program, which edgeprof's handler shares: it has SA_ONSTACK, because a goroutine's
 * stack of 2 KiB has no room for it. A tick needs the kernel's frame and the handler's stack.
 *
 *   tight   a handler of the program and a tick inside of it may not both fit. Handlers with SA_ONSTACK then keep
 *           edgeprof's signals blocked: a tick waits until they return (EP_LOSS_SMALL_STACK)
 *   tiny    not even a tick alone fits: the thread has no timer while it has that stack. A mask would not do: the
 *           program restores older ones, by siglongjmp() or the system call, and passes its own on by exec
 *
 * Stacks are seen when the program sets one, and, of threads whose calls of sigaltstack() nobody sees, with a tick.
 */
#include "own_signal.h"
#include "sampler.h"
#include "thread_table.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/auxv.h>
#ifdef __x86_64__
#include <cpuid.h>
#endif

#include <edgeprof/edgeprof.h>

#define SIGNALS 65
/* BOARD_STACK_MAX, and room for the first call of a function that the loader still has to find. */
#define HANDLER_BYTES 4096u
/* The bytes that the program's own handler may use. */
#define PROGRAM_BYTES 8192u
/* Threads with a tiny stack. The signals of those that find no place are blocked instead. */
#define TINY_THREADS 64u
/* CPUID: sizes of the states that are saved. */
#define STATES_LEAF 0xd
#define TILE_DATA   18
#ifndef AT_MINSIGSTKSZ
#define AT_MINSIGSTKSZ 51
#endif
#ifndef SS_AUTODISARM
#define SS_AUTODISARM (1u << 31)
#endif

static atomic_bool tight_seen;
static atomic_bool disarms; /* a tight one has SS_AUTODISARM: there is none while its handler runs */
static atomic_uint tiny[TINY_THREADS], tiny_most;
static atomic_bool guarded; /* the handlers that were installed before have been changed */

/* The registers of AMX, which a process has only after it has asked the kernel for them. */
static size_t tiles_bytes(void)
{
#ifdef __x86_64__
    unsigned bytes = 0, b, c, d;

    return __get_cpuid_count(STATES_LEAF, TILE_DATA, &bytes, &b, &c, &d) ? bytes : 0;
#else
    return 0;
#endif
}

/* The kernel's frame: all registers, up to 11 KiB on x86-64 with AMX. The handler only reads it, since the C library's
 * MINSIGSTKSZ is a call. */
static atomic_size_t frame, tiles;

static size_t frame_bytes(void)
{
    return atomic_load_explicit(&frame, memory_order_relaxed);
}

static void frame_measure(void)
{
    size_t bytes = (size_t)getauxval(AT_MINSIGSTKSZ);

    if (frame_bytes())
        return;
    atomic_store_explicit(&tiles, tiles_bytes(), memory_order_relaxed);
    atomic_store_explicit(&frame, bytes ? bytes : (size_t)MINSIGSTKSZ, memory_order_relaxed);
}

/* The kernel gives those to no process with a stack that is smaller than a frame with them, and refuses such a stack
 * later: on a smaller one frames have none. */
static size_t frame_on(size_t size)
{
    const size_t bytes = frame_bytes();

    return size < bytes ? bytes - atomic_load_explicit(&tiles, memory_order_relaxed) : bytes;
}

bool ep_linux_stack_is_tight(size_t size)
{
    return size != 0 && size < 2 * frame_on(size) + HANDLER_BYTES + PROGRAM_BYTES;
}

static bool is_tiny(size_t size)
{
    return size != 0 && size < frame_on(size) + HANDLER_BYTES;
}

bool ep_linux_stacks_tight(void)
{
    return atomic_load_explicit(&tight_seen, memory_order_relaxed);
}

void ep_linux_stack_seen(size_t size)
{
    if (!ep_linux_stacks_tight() && ep_linux_stack_is_tight(size))
        atomic_store_explicit(&tight_seen, true, memory_order_relaxed);
}

/* Installs each handler again: ep_linux_sigaction() adds the mask. A handler that the program changes at this very
 * moment may be replaced by the one before. */
void ep_linux_stacks_guard(void)
{
    struct sigaction action;

    if (!ep_linux_stacks_tight() || !ep_linux_signals_ours() || atomic_exchange(&guarded, true))
        return;
    for (int signal = 1; signal < SIGNALS; signal++)
        if (!(ep_linux_signals_handled() >> (signal - 1) & 1) && sigaction(signal, NULL, &action) == 0 &&
            ep_linux_is_on_stack(&action))
            (void)sigaction(signal, &action, NULL);
}

void ep_linux_stacks_guard_again(void)
{
    frame_measure();
    atomic_store(&guarded, false);
    ep_linux_stacks_guard();
}

/* ---- threads with a tiny stack ---- */

static atomic_uint *tiny_find(uint32_t tid)
{
    const unsigned most = atomic_load_explicit(&tiny_most, memory_order_acquire);

    for (unsigned i = 0; i < most; i++)
        if (atomic_load(&tiny[i]) == tid)
            return &tiny[i];
    return NULL;
}

bool ep_linux_stack_is_tiny(uint32_t tid)
{
    return tiny_find(tid) != NULL;
}

void ep_linux_stack_tiny_ends(uint32_t tid)
{
    atomic_uint *place = tiny_find(tid);

    if (place)
        atomic_store(place, 0);
}

/* Returns false if there is no place. */
static bool tiny_begins(uint32_t tid)
{
    for (unsigned i = 0; i < TINY_THREADS && !tiny_find(tid); i++) {
        unsigned none = 0, most = i;
        (void)atomic_compare_exchange_strong(&tiny_most, &most, i + 1);
        (void)atomic_compare_exchange_strong(&tiny[i], &none, tid);
    }
    return tiny_find(tid) != NULL;
}

void ep_linux_stacks_tiny_forget(void)
{
    const unsigned most = atomic_load(&tiny_most);

    for (unsigned i = 0; i < most; i++) {
        unsigned tid = atomic_load(&tiny[i]);
        if (tid && ep_linux_cpu_ns(tid) == 0)
            (void)atomic_compare_exchange_strong(&tiny[i], &tid, 0);
    }
}

static void now_is(stack_t *stack)
{
    if (sigaltstack(NULL, stack) != 0)
        stack->ss_flags = SS_DISABLE;
}

void ep_linux_stacks_forked(void)
{
    stack_t stack;

    if (atomic_exchange(&tiny_most, 0) == 0)
        return;
    for (unsigned i = 0; i < TINY_THREADS; i++)
        atomic_store(&tiny[i], 0);
    now_is(&stack);
    if (!(stack.ss_flags & SS_DISABLE) && is_tiny(stack.ss_size))
        (void)tiny_begins(ep_linux_tid());
}

/* A tick that is on its way comes before this returns. */
static void timer_remove(uint32_t tid)
{
    if (!ep_hold())
        return;
    struct ep_linux_slot *slot = ep_linux_samples() ? ep_linux_slot_of(tid) : NULL;
    if (slot)
        ep_linux_disarm(slot, EP_LINUX_USED_NOW);
    ep_release();
}

int ep_linux_sigaltstack(ep_linux_alternate_call *real, const stack_t *wanted, stack_t *old)
{
    const size_t size = wanted && !(wanted->ss_flags & SS_DISABLE) ? wanted->ss_size : 0;
    const int before = errno;

    if (wanted) {
        frame_measure();
        ep_linux_stack_seen(size);
        if (ep_linux_stack_is_tight(size) && (unsigned)wanted->ss_flags & SS_AUTODISARM)
            atomic_store(&disarms, true);
        ep_linux_stacks_guard();
    }
    const uint32_t tid = is_tiny(size) || atomic_load(&tiny_most) ? ep_linux_tid() : 0;
    const bool had = tid && ep_linux_stack_is_tiny(tid), blocks = is_tiny(size) && !tiny_begins(tid);
    if (is_tiny(size))
        timer_remove(tid);
    if (blocks)
        (void)ep_linux_mask_raw(SIG_BLOCK, ep_linux_signals_ours());
    errno = before;
    const int error = real(wanted, old);
    const int kept = errno;
    if (wanted && !had && error)
        ep_linux_stack_tiny_ends(tid);
    if (wanted && !error && !is_tiny(size)) {
        ep_linux_stack_tiny_ends(tid);
        if (!ep_linux_stack_holds())
            (void)ep_linux_mask_raw(SIG_UNBLOCK, ep_linux_signals_ours());
    }
    errno = kept;
    return error;
}

uint64_t ep_linux_stack_holds(void)
{
    const int kept = errno;
    stack_t now;

    if (!ep_linux_stacks_tight())
        return 0;
    now_is(&now);
    const bool there = now.ss_flags & SS_DISABLE ? atomic_load(&disarms)
                                                 : now.ss_flags & SS_ONSTACK && ep_linux_stack_is_tight(now.ss_size);
    const uint64_t held = there ? ep_linux_mask_raw(SIG_BLOCK, 0) & ep_linux_signals_ours() : 0;
    errno = kept;
    return held;
}
