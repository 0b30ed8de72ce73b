/*
 * Creates a kernel thread that continues a parked C library thread; see own_threads.c.
 */
#include "own_threads.h"

#include <sys/syscall.h>

/* clone(flags, stack, parent_tid, tls, child_tid). The child's registers are the parent's, except x0 and sp. */
long ep_linux_clone(unsigned long flags, uintptr_t stack, int *tid, uintptr_t tls, void (*body)(uintptr_t),
                    uintptr_t argument)
{
    register long number __asm__("x8") = SYS_clone;
    register uintptr_t a __asm__("x0") = flags;
    register uintptr_t b __asm__("x1") = stack;
    register int *c __asm__("x2") = tid;
    register uintptr_t d __asm__("x3") = tls;
    register int *e __asm__("x4") = tid;
    register void (*to)(uintptr_t) __asm__("x9") = body;
    register uintptr_t with __asm__("x10") = argument;

    __asm__ volatile("svc #0\n\tcbnz x0, 1f\n\tmov x29, xzr\n\tmov x30, xzr\n\tmov x0, x10\n\tblr x9\n\tbrk #0\n1:"
                     : "+r"(a)
                     : "r"(number), "r"(b), "r"(c), "r"(d), "r"(e), "r"(to), "r"(with)
                     : "memory", "cc");
    return (long)a;
}
