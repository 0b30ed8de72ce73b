/*
 * syscall() in code that a stack walk gets through: on 32-bit ARM glibc has no tables. Compiled with
 * -Dsyscall=own_syscall together with the program that is to use it.
 */

#ifdef __arm__
__asm__(".text\n.syntax unified\n.thumb\n.thumb_func\n.globl own_syscall\n.type own_syscall, %function\n"
        "own_syscall:\n.fnstart\npush {r4, r7, lr}\n.save {r4, r7, lr}\n"
        "mov r7, r0\nmov r0, r1\nmov r1, r2\nmov r2, r3\nldr r3, [sp, #12]\nldr r4, [sp, #16]\nsvc 0\n"
        "pop {r4, r7, pc}\n.fnend\n"); /* up to five arguments */
#else
long own_syscall(long number, long a, long b, long c, long d, long e);

long own_syscall(long number, long a, long b, long c, long d, long e)
{
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;

    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4) : "memory");
    return x0;
}
#endif
