/*
 * Private to core/unwind: x86-64 instructions, as far as they move the stack pointer, save or set the frame pointer or
 * lead elsewhere.
 */
#ifndef EP_UNWIND_CODE_X86_64_H
#define EP_UNWIND_CODE_X86_64_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ep_x86_kind {
    EP_X86_OTHER,   /* nothing that matters here */
    EP_X86_PUSH,    /* reg; EP_X86_NO_REG: something else */
    EP_X86_POP,     /* reg */
    EP_X86_MOVE_SP, /* by amount */
    EP_X86_FROM_FP, /* sp = rbp + amount */
    EP_X86_LEAVE,   /* sp = rbp, pop of rbp */
    EP_X86_SET_FP,  /* rbp = sp + amount */
    EP_X86_LOAD_FP, /* rbp from memory at sp + amount */
    EP_X86_CALL,
    EP_X86_FORK,    /* a conditional jump to target */
    EP_X86_JUMP,    /* to target; 0: computed */
    EP_X86_RETURN,  /* or, reg EP_X86_NO_REG, a jump through a pointer in memory that no index chooses (.plt, virtual
                       functions): to another function */
    EP_X86_UNKNOWN, /* sets sp in a way that is not followed, or does not return, or is no instruction */
};

#define EP_X86_NO_REG 255u

struct ep_x86_effect {
    uint8_t kind; /* enum ep_x86_kind */
    uint8_t size; /* bytes, 0 when the instruction is not known */
    uint8_t reg;
    int32_t amount;
    uintptr_t target;
};

/* The instruction at `at`, of which at most the bytes before `end` are read. Lengths and opcodes: Intel SDM, volume 2,
 * chapter 2 and appendix A. Context: signal. */
struct ep_x86_effect ep_x86_decode(const uint8_t *at, const uint8_t *end);

/* Whether a mov, from memory or a register other than rbp, set sp in the EP_X86_SP_NEAR bytes before pc: where another
 * stack begins. last: it is the instruction before pc. Reads bytes from `start` to pc, inclusive. Context: signal. */
#define EP_X86_SP_NEAR 16u
bool ep_x86_set_sp(uintptr_t start, uintptr_t pc, bool last);

#endif
