/*
 * The registers and stack bounds at which a walk starts. A port fills them in.
 */
#ifndef EP_REGISTERS_H
#define EP_REGISTERS_H

#include <stdbool.h>
#include <stdint.h>

#define EP_LR_CALLED (~(uintptr_t)1)

/* Prepares an interrupted thread's lr, which may hold anything, for ep_registers: the result is the same address and
 * never EP_LR_CALLED. Context: signal. */
static inline uintptr_t ep_lr_of(uintptr_t lr)
{
    return sizeof lr == 4 ? lr | 1 : lr & (((uintptr_t)1 << 24 << 24) - 1);
}

/* The registers of an interrupted thread, and the bounds within which its stack may be read: [stack_start, stack_end)
 * and, when the thread has an alternate signal stack, [alt_start, alt_end). On any other stack, such as a
 * coroutine's, the walk reads what ep_port_readable() permits. Frames at or above stack_root only start the thread; 0:
 * unknown. */
struct ep_registers {
    uintptr_t pc, sp, fp;
    uintptr_t lr;   /* ep_lr_of(); EP_LR_CALLED: pc is where a call returns to, not what is executed next */
    uintptr_t base; /* one more register that is followed: rbx on x86-64, x19 on aarch64, r7 on arm */
    /* An interrupted thread's x1 or r1: at the first instructions of .NET's RhpThrowHwEx it holds the address of the
     * instruction that faulted. On x86-64 the address of all its registers, r8 to r15, rdi, rsi, rbp, rbx, rdx, rax,
     * rcx, rsp, in memory that stays until the walk has ended. 0: unknown. */
    uintptr_t argument;
    uintptr_t stack_start, stack_end, stack_root;
    uintptr_t alt_start, alt_end;
    uintptr_t moved; /* the stack's bytes stand that far above their addresses: a copy; 0: they are the stack */
};

/* A frame on the stack [start, end). Its callee returns to pc. */
struct ep_caller {
    uintptr_t pc, sp, fp, base;
    uintptr_t lr, start, end;
    bool exact;      /* pc is the next instruction instead, and lr known: the innermost frame, which was interrupted */
    unsigned misses; /* of the rule cache, so far */
};

#endif
