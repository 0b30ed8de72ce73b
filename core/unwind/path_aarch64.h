/*
 * Private to core/unwind: the rule for aarch64 code without tables, from the code itself.
 */
#ifndef EP_UNWIND_PATH_AARCH64_H
#define EP_UNWIND_PATH_AARCH64_H

#include "core/unwind/walk.h"

/* Code that a path stays in: a function whose table says where it is, or a module's code without tables. */
struct ep_aarch64_code {
    uintptr_t start, end;
    bool function;
};

/* Follows the code from pc to a return; false when that is not certain to be this function's own. interrupted: pc is
 * where execution stands, not a return address. Context: signal. */
bool ep_aarch64_path(const struct ep_module *module, struct ep_aarch64_code code, uintptr_t pc, bool interrupted,
                     struct ep_rule *rule);

#endif
