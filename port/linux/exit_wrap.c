/*
 * pthread_exit() as redirected by the linker; see thread_start.c.
 */
#include "thread_start.h"

void __real_pthread_exit(void *value) __attribute__((noreturn));
void __wrap_pthread_exit(void *value) __attribute__((noreturn));

void __wrap_pthread_exit(void *value)
{
    ep_linux_thread_exits();
    __real_pthread_exit(value);
}
