/*
 * Creates a kernel thread that continues a parked C library thread; see own_threads.c.
 */
#include "own_threads.h"

#include <sys/syscall.h>

/* clone(flags, stack, parent_tid, tls, child_tid). The child's registers are the parent's, except r0 and sp. r7 may
 * be the frame pointer, so r8 saves it. */
long ep_linux_clone(unsigned long flags, uintptr_t stack, int *tid, uintptr_t tls, void (*body)(uintptr_t),
                    uintptr_t argument)
{
    register uintptr_t a __asm__("r0") = flags;
    register uintptr_t b __asm__("r1") = stack;
    register int *c __asm__("r2") = tid;
    register uintptr_t d __asm__("r3") = tls;
    register int *e __asm__("r4") = tid;
    register void (*to)(uintptr_t) __asm__("r5") = body;
    register uintptr_t with __asm__("r6") = argument;

    __asm__ volatile(
        "mov r8, r7\n\tmov r7, %[number]\n\tsvc #0\n\tmov r7, r8\n\tcmp r0, #0\n\tbne 1f\n\tmov r0, r6\n\tblx r5\n\t"
        "udf #0\n1:"
        : "+r"(a)
        : [number] "I"(SYS_clone), "r"(b), "r"(c), "r"(d), "r"(e), "r"(to), "r"(with)
        : "r8", "memory", "cc");
    return (long)a;
}
