/*
 * Private to core/unwind: the rule for x86-64 code without tables, from the code itself.
 */
#ifndef EP_UNWIND_PATH_X86_64_H
#define EP_UNWIND_PATH_X86_64_H

#include "core/unwind/walk.h"

/* Follows the code from pc to a return; false when that is not certain to be this function's own. interrupted: pc is
 * where execution stands, not a return address. Context: signal. */
bool ep_x86_path(const struct ep_module *module, uintptr_t pc, bool interrupted, struct ep_rule *rule);

#endif
