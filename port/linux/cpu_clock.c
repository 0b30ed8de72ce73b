/*
 * Timers of samples: POSIX timers on a thread's CPU clock, by raw system calls.
 */
#include "cpu_clock.h"

#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

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

void ep_linux_timer_run(int timer, uint32_t period)
{
    uint64_t first = random_phase(period);
    /* the kernel's struct, independent of this C library's time_t */
    const long spec[4] = {(long)(period / NS), (long)(period % NS), (long)(first / NS), (long)(first % NS)};

    (void)syscall(SYS_timer_settime, timer, 0, spec, NULL);
}

void ep_linux_timer_delete(int timer)
{
    (void)syscall(SYS_timer_delete, timer);
}
