/*
 * The module table: which code lies where, and its place in the segment's linear address space.
 *
 * Slots are appended and published by the count; a published slot does not change under a handler that reads it. The
 * port makes sure that a module it reports is never unmapped (see port.h), so pointers into it stay good.
 *
 * Linear addresses: every executable stretch gets the next free piece of a 32-bit space, so that a frame is 4 bytes
 * whatever the size of an address, and frames of one module lie close together.
 */
#include "core/collect/collect.h"

static bool known(const struct ep_modules *modules, const struct ep_module_info *info)
{
    unsigned count = atomic_load_explicit(&modules->count, memory_order_relaxed);

    for (unsigned i = 0; i < count; i++)
        if (modules->slot[i].start == info->start && modules->slot[i].end == info->end)
            return true;
    return false;
}

void ep_module_seen(const struct ep_module_info *info)
{
    struct ep *ep = ep_running();
    struct ep_modules *modules = &ep->unwinder.modules;
    unsigned count = atomic_load_explicit(&modules->count, memory_order_relaxed);
    uintptr_t size = info->end - info->start;

    if (info->end <= info->start || known(modules, info))
        return;
    if (count == EP_MAX_MODULES || size > UINT32_MAX - modules->next_base) {
        if (++modules->refused > modules->counted) {
            modules->counted++;
            ep_lose(ep, EP_LOSS_MODULES_FULL, 1, 0);
        }
        return;
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
        .base = modules->next_base,
    };
    modules->next_base += (uint32_t)size;
    atomic_store_explicit(&modules->count, count + 1, memory_order_release);
}
