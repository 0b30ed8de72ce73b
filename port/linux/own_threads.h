/*
 * Private to edgeprof's own threads: creates a kernel thread for a parked C library thread.
 */
#ifndef EP_LINUX_OWN_THREADS_H
#define EP_LINUX_OWN_THREADS_H

#include <stdint.h>

/* The system call clone. The child runs body(argument) on the stack that ends at `stack`, with `tls` as its thread
 * pointer. body must not return. The kernel stores the child's id at *tid, and 0 when the child has ended. One
 * implementation per architecture. Returns the child's id or a negative errno value. Context: signal. */
long ep_linux_clone(unsigned long flags, uintptr_t stack, int *tid, uintptr_t tls, void (*body)(uintptr_t),
                    uintptr_t argument);

#endif
