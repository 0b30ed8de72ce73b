/* What 32-bit ARM instructions do to the stack: shared by unwind_arm.c (policy) and code_arm.c (decoding). */
#ifndef EP_CODE_ARM_H
#define EP_CODE_ARM_H

#include <string.h>

#include "internal.h"

#define EP_ARM_FP   11
#define EP_ARM_BASE 7

/* Rules from an interrupted pc whose next instructions take the frame down and return. row: NULL without tables.
 * Context: signal. */
bool ep_arm_epilogue(const struct ep_module *module, uintptr_t pc, bool thumb, const struct ep_cfi_row *row,
                     struct ep_cfi_rules *rules);

/* Rules at an interrupted pc before which the function has not yet pushed all that its row says. False when it has, or
 * the code is not understood. Context: signal. */
bool ep_arm_prologue(const struct ep_cfi_row *row, uintptr_t pc, bool thumb, struct ep_cfi_rules *rules);

/* Whether the instruction before pc is a call: else pc is no return address. Context: signal. */
bool ep_arm_follows_call(const struct ep_module *module, uintptr_t pc);

#endif
