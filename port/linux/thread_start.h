/*
 * Starting threads that announce themselves, for linker redirection and interposition.
 */
#ifndef EP_LINUX_THREAD_START_H
#define EP_LINUX_THREAD_START_H

#include <pthread.h>
#include <threads.h>

#include "linux.h"

typedef int ep_linux_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*fn)(void *), void *argument);

/* pthread_create(); `create` is the real one. Context: any thread. */
int ep_linux_thread_create(ep_linux_create *create, pthread_t *thread, const pthread_attr_t *attributes,
                           void *(*fn)(void *), void *argument);

typedef int ep_linux_create_c11(thrd_t *thread, thrd_start_t fn, void *argument);

/* thrd_create(); `create` is the real one. Context: any thread. */
int ep_linux_thread_create_c11(ep_linux_create_c11 *create, thrd_t *thread, thrd_start_t fn, void *argument);

/* Announces the calling thread, which the C library made for a notification (SIGEV_THREAD). Such a thread blocks all
 * signals; edgeprof's own is unblocked. Context: any thread. */
void ep_linux_thread_adopt(void);

/* To be called before pthread_exit() and thrd_exit(). Makes the process end with the program's last thread even if this
 * is the main thread, as without edgeprof. Context: any thread. */
void ep_linux_thread_exits(void);
/* For a forked child, which has one thread. Context: init. */
void ep_linux_threads_forked(void);

/* Reads what is the same for all threads; called once, before the first of them starts. Context: any thread. */
void ep_linux_stack_prepare(void);

/* The bounds of the calling thread's stack; `here` is its first frame. start: the caller's memory, 0: the C
 * library's; then size is the size given at creation. Context: any thread. */
struct ep_linux_bounds ep_linux_stack_bounds(uintptr_t start, size_t size, uintptr_t here);

/* An announced thread ends that may be the last of the program: then the process ends (last_thread.c).
 * Context: any thread. */
void ep_linux_thread_ended(void);

/* Ends the process if none of the program's threads is left. Context: collect. */
void ep_linux_process_look(void);

/* Returns true if the process has no thread but the calling one and edgeprof's. Context: any thread. */
bool ep_linux_process_is_alone(void);

#endif
