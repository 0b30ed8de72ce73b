/*
 * prctl() and syscall() as redirected by the linker, in programs linked with link.opt; see filter.c. Libraries that
 * such a program loads, as libseccomp, call the C library directly.
 */
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "alone.h"
#include "filter.h"
#include "own_signal.h"

int __real_prctl(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d);
int __wrap_prctl(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d);

int __wrap_prctl(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d)
{
    if (option == PR_SET_SECCOMP || option == PR_SET_TSC)
        ep_linux_filter_prctl(option, a, (const void *)b);
    return __real_prctl(option, a, b, c, d);
}

int __wrap_sigaltstack(const stack_t *wanted, stack_t *old);
ep_linux_alone_call __real_syscall;
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f);

/* The call at the end is a jump, so that a new thread may come back on another stack. */
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f)
{
    if (number == SYS_seccomp)
        ep_linux_filter_syscall((unsigned long)a, (unsigned long)b, (const void *)c);
    else if (number == SYS_prctl)
        ep_linux_filter_prctl((int)a, (unsigned long)b, (const void *)c);
    else if (number == SYS_sigaltstack)
        return __wrap_sigaltstack((const stack_t *)a, (stack_t *)b);
    else if (number == SYS_unshare || number == SYS_setns)
        return ep_linux_alone(__real_syscall, number, a, b);
    return __real_syscall(number, a, b, c, d, e, f);
}
