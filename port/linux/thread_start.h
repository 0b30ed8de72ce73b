/* Starting threads that announce themselves, whichever way the call was caught. */
#ifndef EP_LINUX_THREAD_START_H
#define EP_LINUX_THREAD_START_H

#include <pthread.h>

#include "linux.h"

typedef int ep_linux_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*fn)(void *), void *argument);

/* pthread_create, with `create` as the real one. Context: any thread. */
int ep_linux_thread_create(ep_linux_create *create, pthread_t *thread, const pthread_attr_t *attributes,
                           void *(*fn)(void *), void *argument);

/* The calling thread is about to call pthread_exit(). When it is the main thread, the process is to end with the
 * program's last thread, as without edgeprof. Context: any thread. */
void ep_linux_thread_exits(void);
/* Learns what is the same for all threads; once, before the first of them starts. Context: any thread. */
void ep_linux_stack_prepare(void);

/* Where the calling thread's stack lies, whose first frame is `here`. start: of the caller's memory, 0: the C
 * library's, then size is what the thread was created with. Context: any thread. */
struct ep_linux_bounds ep_linux_stack_bounds(uintptr_t start, size_t size, uintptr_t here);

#endif
