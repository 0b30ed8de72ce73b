/* What 32-bit ARM instructions do to the stack: shared by unwind_arm.c (policy) and code_arm.c (decoding). */
#ifndef EP_CODE_ARM_H
#define EP_CODE_ARM_H

#include <string.h>

#include "core/unwind/cfi.h"

/* Numbers of registers, and the largest frame. */
#define EP_ARM_BASE       7
#define EP_ARM_FP         11
#define EP_ARM_SP         13
#define EP_ARM_LR         14
#define EP_ARM_PC         15
#define EP_ARM_FRAME_MOST (1 << 24)

enum ep_arm_kind {
    EP_ARM_OTHER,
    EP_ARM_PUSH,      /* mask */
    EP_ARM_POP,       /* mask */
    EP_ARM_MOVE_SP,   /* sp += amount */
    EP_ARM_LOSE_SP,   /* sp += a register: alloca */
    EP_ARM_FROM_FP,   /* sp = r11 + amount */
    EP_ARM_FROM_BASE, /* sp = r7 + amount */
    EP_ARM_ADD_BASE,  /* r7 += amount */
    EP_ARM_SET_FP,    /* r11 = sp + amount */
    EP_ARM_SET_BASE,  /* r7 = sp + amount */
    EP_ARM_RETURN,    /* to lr, or on to another function, by way of .plt */
    EP_ARM_BRANCH,    /* to target, 0: unknown */
    EP_ARM_COMPUTED,  /* pc from a sum or a register: a jump into what follows, as a rule */
    EP_ARM_FORK,      /* to target, or on */
    EP_ARM_CALL,
    EP_ARM_UNKNOWN, /* sp changes by we do not know what */
    EP_ARM_END,     /* execution does not get further */
};

/* What one instruction does. */
struct ep_arm_effect {
    uint8_t kind, size;
    bool conditional; /* this alone: only if a condition holds */
    bool to_arm;      /* a jump from Thumb to ARM code, as linkers make it */
    bool spoils_lr;   /* it may write lr, to no purpose that is known */
    uint16_t mask;
    int32_t amount;
    uintptr_t target;
};

/* The instruction at `at`; size 0 when it does not end before `end`. Context: signal. */
struct ep_arm_effect ep_arm_decode(uintptr_t at, uintptr_t end, bool thumb);

/* Rules for code without tables, from where its instructions lead to: path_arm.c. interrupted: else pc is a return
 * address. False when no way to a return is found. Context: signal. */
bool ep_arm_path(const struct ep_module *module, uintptr_t pc, bool thumb, bool interrupted,
                 struct ep_cfi_rules *rules);

/* Rules from an interrupted pc whose next instructions take the frame down and return. row: NULL without tables.
 * Context: signal. */
bool ep_arm_epilogue(const struct ep_module *module, uintptr_t pc, bool thumb, const struct ep_cfi_row *row,
                     struct ep_cfi_rules *rules);

/* Rules at an interrupted pc before which the function has not yet pushed all that its row says. 0; -ENOENT when it
 * has, or the code is not understood; -EINVAL when that may be so on some ways to pc only: parts of the function have
 * no frame, or not all of it. Context: signal. */
int ep_arm_prologue(const struct ep_cfi_row *row, uintptr_t pc, bool thumb, struct ep_cfi_rules *rules);

/* Returns true if execution comes from pc straight to a call: then the frame is complete. Context: signal. */
bool ep_arm_will_call(const struct ep_module *module, uintptr_t pc, bool thumb);

/* Returns true if nothing called the code at a return address without tables: a C library's _start, which begins by
 * clearing fp and lr, or its clone(), where the call of a thread's function is followed by exit. Context: signal. */
bool ep_arm_is_start(const struct ep_module *module, uintptr_t pc, bool thumb);

/* Returns true if the instruction before pc is a call: else pc is no return address. thumb: which state it is in.
 * Context: signal. */
bool ep_arm_follows_call(const struct ep_module *module, uintptr_t pc, bool *thumb);

#endif
