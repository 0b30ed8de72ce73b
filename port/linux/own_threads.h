/*
 * Private to edgeprof's own threads: creates a kernel thread for a parked C library thread.
 */
#ifndef EP_LINUX_OWN_THREADS_H
#define EP_LINUX_OWN_THREADS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <edgeprof/port_calls.h>

/* Beyond the core's roles: the thread that pins modules (pin.c). */
#define EP_LINUX_ROLE_PIN ((enum ep_role)EP_ROLES)
#define EP_LINUX_ROLES    (EP_ROLES + 1)

/* Returns true on edgeprof's thread of that role. Context: any thread. */
bool ep_linux_here_is(enum ep_role role);
/* True if this role's thread runs. Context: any thread. */
bool ep_linux_role_is_alive(enum ep_role role);

/* The calling thread of that role is no longer edgeprof's. Context: any thread. */
void ep_linux_thread_ends_own(enum ep_role role);

/* The system call clone. The child runs body(argument) on the stack that ends at `stack`, with `tls` as its thread
 * pointer. body must not return. The kernel stores the child's id at *tid, and 0 when the child has ended. One
 * implementation per architecture. Returns the child's id or a negative errno value. Context: signal. */
long ep_linux_clone(unsigned long flags, uintptr_t stack, int *tid, uintptr_t tls, void (*body)(uintptr_t),
                    uintptr_t argument);

/* Parks the thread EP_ROLE_START, on this memory, for the program's lifetime. In a forked child a tick resumes it
 * (ep_linux_fork_arm()); it runs fn there. Returns 0 or a negative errno value. Context: init. */
int ep_linux_start_park(void *stack, size_t size, void (*fn)(void));

/* True if the thread is parked and its stack is free. Context: any thread. */
bool ep_linux_thread_settled(enum ep_role role);

/* For a forked child, which has none of edgeprof's threads. Context: init. */
void ep_linux_threads_lost(void);

#endif
