/*
 * unshare() and setns() as redirected by the linker, in programs linked with link.opt; see alone.c.
 */
#include <sys/syscall.h>

#include "alone.h"

ep_linux_alone_call __real_syscall;
int __wrap_unshare(int flags);
int __wrap_setns(int fd, int type);

int __wrap_unshare(int flags)
{
    return ep_linux_alone(__real_syscall, SYS_unshare, flags, 0);
}

int __wrap_setns(int fd, int type)
{
    return ep_linux_alone(__real_syscall, SYS_setns, fd, type);
}
