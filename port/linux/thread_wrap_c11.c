/*
 * thrd_create() and thrd_exit() as redirected by the linker; see thread_start.c. Only a program that calls one of them
 * contains this.
 */
#include "thread_start.h"

ep_linux_create_c11 __real_thrd_create;
ep_linux_create_c11 __wrap_thrd_create;
void __real_thrd_exit(int value) __attribute__((noreturn));
void __wrap_thrd_exit(int value) __attribute__((noreturn));

int __wrap_thrd_create(thrd_t *thread, thrd_start_t fn, void *argument)
{
    return ep_linux_thread_create_c11(__real_thrd_create, thread, fn, argument);
}

void __wrap_thrd_exit(int value)
{
    ep_linux_thread_exits();
    __real_thrd_exit(value);
}
