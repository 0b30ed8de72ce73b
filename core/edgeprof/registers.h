/*
 * Where a walk starts: registers, and where the stack may be read. A port fills it in.
 */
#ifndef EP_REGISTERS_H
#define EP_REGISTERS_H

#include <stdbool.h>
#include <stdint.h>

#define EP_LR_CALLED (~(uintptr_t)1)

/* An interrupted thread's lr, which may hold anything, for ep_registers: never EP_LR_CALLED, and the same address. */
static inline uintptr_t ep_lr_of(uintptr_t lr)
{
    return sizeof lr == 4 ? lr | 1 : lr & (((uintptr_t)1 << 24 << 24) - 1);
}

/* Registers of an interrupted thread, and where its stack may be read: [stack_start, stack_end), and, when the
 * thread has an alternate signal stack, [alt_start, alt_end). Zero: unknown, then only the top frame is taken.
 * stack_root: frames at or above it only start the thread; 0: unknown. */
struct ep_registers {
    uintptr_t pc, sp, fp;
    uintptr_t lr;   /* ep_lr_of(); EP_LR_CALLED: pc is where a call returns to, not what is executed next */
    uintptr_t base; /* one more register that is followed: rbx on x86-64, x19 on aarch64, r7 on arm */
    uintptr_t stack_start, stack_end, stack_root;
    uintptr_t alt_start, alt_end;
    uintptr_t moved; /* the stack's bytes stand that far above their addresses: a copy; 0: they are the stack */
};

/* A frame on the stack [start, end): pc is where its callee returns to. */
struct ep_caller {
    uintptr_t pc, sp, fp, base;
    uintptr_t lr, start, end;
    bool exact;      /* pc is the next instruction instead, and lr known: the innermost frame, which was interrupted */
    unsigned misses; /* of the rule cache, so far */
};

#endif
