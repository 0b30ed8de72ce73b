/*
 * The module table: the address ranges of loaded code, and their places in the segment's linear address space.
 *
 * Slots are only appended, and published by the count, so a handler reads only complete slots. The port guarantees that
 * a reported module is never unmapped (port.h), so pointers into it stay valid.
 *
 * Linear addresses: each executable range gets the next free piece of a 32-bit space. So a frame has 4 bytes for any
 * size of addresses, and frames of one module are close together.
 */
#include "core/collect/collect.h"

static bool is_known(const struct ep_modules *modules, const struct ep_module_info *info)
{
    unsigned count = atomic_load_explicit(&modules->count, memory_order_relaxed);

    for (unsigned i = 0; i < count; i++)
        if (modules->slot[i].start == info->start && modules->slot[i].end == info->end)
            return true;
    return false;
}

int ep_module_seen(const struct ep_module_info *info)
{
    struct ep *ep = ep_running();
    struct ep_modules *modules = &ep->unwinder.modules;
    unsigned count = atomic_load_explicit(&modules->count, memory_order_relaxed);
    uintptr_t size = info->end - info->start;

    if (info->end <= info->start || is_known(modules, info))
        return 0;
    if (count == EP_MAX_MODULES || size > UINT32_MAX - modules->next_base) {
        if (++modules->refused > modules->counted) {
            modules->counted++;
            ep_lose(ep, EP_LOSS_MODULES_FULL, 1, 0);
        }
        return 0;
    }
    modules->slot[count] = (struct ep_module){
        .start = info->start,
        .end = info->end,
        .bias = info->bias,
        .table = info->table,
        .table_size = info->table_size,
        .image_start = info->image_start,
        .image_end = info->image_end,
        .build_id = info->build_id,
        .build_id_size = (uint16_t)(info->build_id_size > 64 ? 64 : info->build_id_size),
        .path = info->path,
        .data = info->data != 0,
        .near = (uint32_t)((uintptr_t)modules->near - (uintptr_t)&modules->slot[count]),
        .execute_only = info->execute_only != 0,
        .base = modules->next_base,
    };
    modules->next_base += (uint32_t)size;
    atomic_store_explicit(&modules->count, count + 1, memory_order_release);
    return 1;
}

int ep_modules_read(bool pin)
{
    const int error = ep_port_modules_scan(pin);

    EP_EACH_FEATURE (at, modules)
        at.feature->modules(pin);
    return error;
}
