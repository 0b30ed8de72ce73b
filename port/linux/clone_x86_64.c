/*
 * Creates a kernel thread that continues a parked C library thread; see own_threads.c.
 */
#include "own_threads.h"

#include <sys/syscall.h>

/* clone(flags, stack, parent_tid, child_tid, tls). The child's registers are the parent's, except rax and rsp. */
long ep_linux_clone(unsigned long flags, uintptr_t stack, int *tid, uintptr_t tls, void (*body)(uintptr_t),
                    uintptr_t argument)
{
    register long number __asm__("rax") = SYS_clone;
    register unsigned long a __asm__("rdi") = flags;
    register uintptr_t b __asm__("rsi") = stack;
    register int *c __asm__("rdx") = tid;
    register int *d __asm__("r10") = tid;
    register uintptr_t e __asm__("r8") = tls;
    register void (*to)(uintptr_t) __asm__("r12") = body;
    register uintptr_t with __asm__("r13") = argument;

    __asm__ volatile(
        "syscall\n\ttest %%rax, %%rax\n\tjnz 1f\n\txor %%ebp, %%ebp\n\tmov %%r13, %%rdi\n\tcall *%%r12\n\thlt\n1:"
        : "+r"(number)
        : "r"(a), "r"(b), "r"(c), "r"(d), "r"(e), "r"(to), "r"(with)
        : "rcx", "r11", "memory", "cc");
    return number;
}
