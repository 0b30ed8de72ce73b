/*
 * Waits by syscall(): the futexes of Rust's and C++'s standard libraries, io_uring_enter() and epoll_pwait2(). Only on
 * x86-64; preload_filter.c has syscall().
 */
#include <linux/futex.h>
#include <sys/syscall.h>

#include "preload_waits.h"

#ifdef __x86_64__
#define NO_WAIT      EP_WAITS
#define EPOLL_PWAIT2 441 /* epoll_pwait2, which older headers lack */

/* syscall() itself. Context: any thread. */
long ep_preload_call(long number, long a, long b, long c, long d, long e, long f) __attribute__((visibility("hidden")));
/* syscall() of a call that may wait. Context: any thread. */
long ep_preload_call_waits(long number, long a, long b, long c, long d, long e, long f)
    __attribute__((visibility("hidden"), used));

/* The kernel does not know what a futex is for. Mutexes expect 2 (contended) or 3 as Zig's does, Rust's RwLock one of
 * its two uppermost bits. A thread that parks expects -1, and most condition variables small or odd numbers. */
static unsigned futex_wait(long operation, unsigned expected)
{
    switch (operation & FUTEX_CMD_MASK) {
    case FUTEX_LOCK_PI:
        return EP_WAIT_LOCK;
    case FUTEX_WAIT:
    case FUTEX_WAIT_BITSET:
    case FUTEX_WAIT_REQUEUE_PI:
        return expected == 2 || expected == 3 || (expected >> 30 && expected != UINT32_MAX) ? EP_WAIT_LOCK
                                                                                            : EP_WAIT_OTHER;
    default:
        return NO_WAIT;
    }
}

static unsigned wait_of_call(long number, long second, long third)
{
    if (number == SYS_futex)
        return futex_wait(second, (unsigned)third);
    return number == EPOLL_PWAIT2 ? EP_WAIT_IDLE : EP_WAIT_OTHER;
}

long ep_preload_call_waits(long number, long a, long b, long c, long d, long e, long f)
{
    const unsigned wait = is_wanted(LOCKS) ? wait_of_call(number, b, c) : NO_WAIT;

    if (wait == NO_WAIT)
        return ep_preload_call(number, a, b, c, d, e, f);
    wait_begin((enum ep_wait)wait);
    long value = ep_preload_call(number, a, b, c, d, e, f);
    ep_wait_end();
    return value;
}
#endif
