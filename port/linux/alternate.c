/*
 * Alternate signal stacks of the program, which edgeprof's handler shares: it has SA_ONSTACK, because a goroutine's
 * stack of 2 KiB has no room for it. A tick needs the kernel's frame and the handler's stack.
 *
 *   tight   a handler of the program and a tick inside of it may not both fit. Handlers with SA_ONSTACK then keep
 *           edgeprof's signals blocked: a tick waits until they return (EP_LOSS_SMALL_STACK)
 *   tiny    not even a tick alone fits: the thread keeps them blocked while it has that stack
 *
 * Stacks are seen when the program sets one, and, of threads whose calls of sigaltstack() nobody sees, with a tick.
 */
#include "own_signal.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/auxv.h>

#define SIGNALS 65
/* BOARD_STACK_MAX, and room for the first call of a function that the loader still has to find. */
#define HANDLER_BYTES 4096u
/* The bytes that the program's own handler may use. */
#define PROGRAM_BYTES 8192u
#ifndef AT_MINSIGSTKSZ
#define AT_MINSIGSTKSZ 51
#endif

static atomic_bool tight_seen;
static atomic_bool guarded; /* the handlers that were installed before have been changed */

/* The kernel's frame: all registers, up to 11 KiB on x86-64 with AMX. The handler only reads it, since the C library's
 * MINSIGSTKSZ is a call. */
static atomic_size_t frame;

static void frame_measure(void)
{
    size_t bytes = (size_t)getauxval(AT_MINSIGSTKSZ);

    atomic_store_explicit(&frame, bytes ? bytes : (size_t)MINSIGSTKSZ, memory_order_relaxed);
}

static size_t frame_bytes(void)
{
    return atomic_load_explicit(&frame, memory_order_relaxed);
}

bool ep_linux_stack_is_tight(size_t size)
{
    return size != 0 && size < 2 * frame_bytes() + HANDLER_BYTES + PROGRAM_BYTES;
}

static bool is_tiny(size_t size)
{
    return size != 0 && size < frame_bytes() + HANDLER_BYTES;
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

int ep_linux_sigaltstack(ep_linux_alternate_call *real, const stack_t *wanted, stack_t *old)
{
    const size_t size = wanted && !(wanted->ss_flags & SS_DISABLE) ? wanted->ss_size : 0;

    if (wanted) {
        frame_measure();
        ep_linux_stack_seen(size);
        ep_linux_stacks_guard();
    }
    if (is_tiny(size))
        (void)ep_linux_mask_raw(SIG_BLOCK, ep_linux_signals_ours());
    const int error = real(wanted, old);
    const int kept = errno;
    if (wanted && (error ? is_tiny(size) : !is_tiny(size)))
        (void)ep_linux_mask_raw(SIG_UNBLOCK, ep_linux_signals_ours());
    errno = kept;
    return error;
}
