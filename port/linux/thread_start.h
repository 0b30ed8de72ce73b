/* Starting threads that announce themselves, whichever way the call was caught. */
#ifndef EP_LINUX_THREAD_START_H
#define EP_LINUX_THREAD_START_H

#include <pthread.h>

#include "linux.h"

typedef int ep_linux_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*fn)(void *), void *argument);

/* pthread_create, with `create` as the real one. Context: any thread. */
int ep_linux_thread_create(ep_linux_create *create, pthread_t *thread, const pthread_attr_t *attributes,
                           void *(*fn)(void *), void *argument);

#endif
