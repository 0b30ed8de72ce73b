/*
 * Which module holds an address. Modules are appended by core/collect/modules.c, and a published one does not change.
 *
 * Linear addresses: every executable stretch gets the next free piece of a 32-bit space, so that a frame is 4 bytes
 * whatever the size of an address, and frames of one module lie close together.
 */
#include "core/unwind/unwind.h"

static const struct ep_module *find(const struct ep_modules *modules, uintptr_t address)
{
    unsigned count = atomic_load_explicit(&modules->count, memory_order_acquire);

    for (unsigned i = 0; i < count; i++)
        if (address - modules->slot[i].start < modules->slot[i].end - modules->slot[i].start)
            return &modules->slot[i];
    return NULL;
}

__attribute__((hot)) const struct ep_module *ep_module_find(const struct ep_modules *modules, uintptr_t pc)
{
    const struct ep_module *module = find(modules, pc);

    return module && !module->data ? module : NULL;
}

uint32_t ep_module_linear_elsewhere(const struct ep_modules *modules, uintptr_t pc, unsigned *hint)
{
    if (pc < EP_FRAME_SPECIALS && pc != EP_FRAME_NONE)
        return (uint32_t)pc;
    const struct ep_module *module = find(modules, pc);
    if (!module)
        return EP_FRAME_UNKNOWN;
    *hint = (unsigned)(module - modules->slot);
    return module->base + (uint32_t)(pc - module->start);
}

struct ep_module *ep_module_of_linear(struct ep_modules *modules, uint32_t address)
{
    unsigned count = atomic_load_explicit(&modules->count, memory_order_relaxed);

    for (unsigned i = 0; i < count; i++) {
        struct ep_module *module = &modules->slot[i];
        if (address >= module->base && address - module->base < module->end - module->start)
            return module;
    }
    return NULL;
}
