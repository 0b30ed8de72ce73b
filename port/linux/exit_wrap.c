/* pthread_exit as the linker redirects it; see thread_start.c. */
#include "thread_start.h"

#include <sys/syscall.h>
#include <unistd.h>

void __real_pthread_exit(void *value) __attribute__((noreturn));
void __wrap_pthread_exit(void *value) __attribute__((noreturn));

void __wrap_pthread_exit(void *value)
{
    if ((pid_t)syscall(SYS_gettid) == getpid())
        ep_linux_main_exits();
    __real_pthread_exit(value);
}
