/*
 * pthread_create() as redirected by the linker; see thread_start.c.
 */
#include "thread_start.h"

ep_linux_create __real_pthread_create;
ep_linux_create __wrap_pthread_create;
extern ep_linux_create *const ep_linux_wrapped;
ep_linux_create *const ep_linux_wrapped = __real_pthread_create; /* tells wrapped.c that this file is linked */

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*fn)(void *), void *argument)
{
    return ep_linux_thread_create(__real_pthread_create, thread, attributes, fn, argument);
}
