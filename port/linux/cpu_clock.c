/*
 * Timers of samples: POSIX timers on a thread's CPU clock, by raw system calls.
 */
#include "cpu_clock.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <edgeprof/edgeprof.h>
#include "linux.h"

#ifndef sigev_notify_thread_id /* glibc has this member without a name */
#define sigev_notify_thread_id _sigev_un._tid
#endif
#ifndef SYS_timer_settime /* musl has another name where time_t has 64 bits and long has 32 */
#define SYS_timer_settime SYS_timer_settime32
#endif

#define NS 1000000000u

int ep_linux_timer_make(uint32_t tid, uintptr_t value, int *timer)
{
    struct sigevent event = {
        .sigev_signo = ep_linux_signal(), .sigev_value.sival_ptr = (void *)value, .sigev_notify = SIGEV_THREAD_ID};

    event.sigev_notify_thread_id = (pid_t)tid;
    return syscall(SYS_timer_create, ep_linux_cpu_clock(tid), &event, timer) == 0 ? 0 : -errno;
}

static uint64_t random_phase(uint32_t period)
{
    uint32_t dice;

    ep_port_random(&dice, sizeof dice);
    return 1 + (uint64_t)dice * period / UINT32_MAX;
}

/* The time until the timer expires, 0: never, and its period, in ns. */
static int timer_set(int timer, uint64_t first, uint32_t period)
{
    /* the kernel's struct, independent of this C library's time_t */
    const long spec[4] = {(long)(period / NS), (long)(period % NS), (long)(first / NS), (long)(first % NS)};
    long error = syscall(SYS_timer_settime, timer, 0, spec, NULL);

#ifdef SYS_timer_settime64 /* 32-bit kernels without CONFIG_COMPAT_32BIT_TIME have only this call */
    if (error != 0 && errno == ENOSYS) {
        const int64_t wide[4] = {spec[0], spec[1], spec[2], spec[3]};
        error = syscall(SYS_timer_settime64, timer, 0, wide, NULL);
    }
#endif
    return error == 0 ? 0 : -errno;
}

int ep_linux_timer_first(int timer, uint32_t first, uint32_t period)
{
    return timer_set(timer, first, period);
}

int ep_linux_timer_run(int timer, uint32_t period)
{
    return timer_set(timer, random_phase(period), period);
}

static atomic_uint kernel_tick_ns;

uint32_t ep_linux_kernel_tick_ns(void)
{
    return atomic_load_explicit(&kernel_tick_ns, memory_order_relaxed);
}

/* CPU timers are checked on ticks, which also move this clock. */
static uint32_t kernel_tick_find(void)
{
    struct timespec tick;

    if (clock_getres(CLOCK_MONOTONIC_COARSE, &tick) == 0)
        atomic_store(&kernel_tick_ns, (unsigned)tick.tv_nsec);
    return ep_linux_kernel_tick_ns();
}

static atomic_uint ticks_most;

void ep_linux_clock_choose(uint32_t clock)
{
    (void)kernel_tick_find();
    atomic_store(&ticks_most, clock == EP_CLOCK_TIMERS ? 0 : clock == EP_CLOCK_TICKS ? UINT_MAX : EP_LINUX_TICKS_MOST);
}

bool ep_linux_is_by_tick(uint32_t period)
{
    return period <= (uint64_t)atomic_load_explicit(&ticks_most, memory_order_relaxed) * ep_linux_kernel_tick_ns();
}

uint32_t ep_port_tick_hz(void)
{
    uint32_t ns = kernel_tick_find();

    return ns ? NS / ns : 0;
}

void ep_linux_timer_delete(int timer)
{
    if (syscall(SYS_timer_delete, timer) != 0) /* a filter of system calls refuses it */
        (void)timer_set(timer, 0, 0);
}
