/*
 * Reads the record of an earlier run. Another version of the library, or a power cut, may have written it: everything
 * is checked, and what is not understood is skipped.
 */
#include "core/features/crash/crash.h"

#include <errno.h>
#include <string.h>

static struct ep_crash_view view;

/* Copies the part of a structure that a section has; the rest stays 0. */
static void take(void *to, size_t size, const uint8_t *from, uint32_t has)
{
    memset(to, 0, size);
    memcpy(to, from, has < size ? has : size);
}

static void take_stack(const uint8_t *at, uint32_t size)
{
    struct ep_crash_stack *head = &view.stack[view.stacks].head;

    if (view.stacks > EP_CRASH_THREADS || size < sizeof *head)
        return;
    take(head, sizeof *head, at, size);
    if (head->depth > EP_CRASH_DEPTH || head->depth > (size - sizeof *head) / sizeof(uint64_t))
        return;
    head->name[sizeof head->name - 1] = 0;
    view.stack[view.stacks++].pcs = at + sizeof *head;
}

static void take_module(const uint8_t *at, uint32_t size, uint64_t *base)
{
    struct ep_crash_module *module = &view.module[view.modules].module;

    if (view.modules == EP_CRASH_MODULES_MOST)
        return;
    take(module, sizeof *module, at, size);
    module->path[sizeof module->path - 1] = 0;
    const uint64_t extent = module->end - module->start, address = module->start - module->bias;
    if (module->build_id_size > sizeof module->build_id || module->end <= module->start ||
        extent > UINT32_MAX - *base || address > UINT64_MAX - extent)
        return;
    view.module[view.modules++].base = (uint32_t)*base;
    *base += extent;
}

static void take_section(const struct ep_crash_section *section, const uint8_t *at, uint64_t *base)
{
    switch (section->type) {
    case EP_CRASH_AT_RUN:
        take(&view.run, sizeof view.run, at, section->size);
        view.run.boot_id[sizeof view.run.boot_id - 1] = view.run.executable[sizeof view.run.executable - 1] = 0;
        break;
    case EP_CRASH_AT_FAULT:
        take(&view.fault, sizeof view.fault, at, section->size);
        break;
    case EP_CRASH_AT_REGISTERS:
        view.registers = at;
        view.register_count = section->size / (uint32_t)sizeof(uint64_t);
        break;
    case EP_CRASH_AT_STACK:
        take_stack(at, section->size);
        break;
    case EP_CRASH_AT_MODULE:
        take_module(at, section->size, base);
        break;
    case EP_CRASH_AT_TEXT:
        view.text = at;
        view.text_size = section->size;
        break;
    case EP_CRASH_AT_FAULTS:
        take(&view.faults, sizeof view.faults, at, section->size);
        break;
    default: /* of a later version */
        break;
    }
}

static void take_body(uint32_t size)
{
    struct ep_crash_section section;
    uint64_t base = EP_FRAME_FIRST_ADDRESS;

    memset(&view, 0, sizeof view);
    for (uint32_t at = 0; at + sizeof section <= size;) {
        memcpy(&section, ep_crash_body + at, sizeof section);
        if (section.size > size - at - sizeof section)
            return;
        take_section(&section, ep_crash_body + at + sizeof section, &base);
        at += (uint32_t)((sizeof section + section.size + 7) & ~(size_t)7);
    }
}

int ep_crash_read(const struct ep_crash_view **found)
{
    static const struct ep_crash_head none;
    struct ep_crash_head head;

    if (ep_port_crash_read(EP_CRASH_HEAD_AT, &head, sizeof head) != sizeof head ||
        memcmp(&head, &none, sizeof head) == 0)
        return -ENOENT;
    if (memcmp(head.magic, "EPC1", sizeof head.magic) != 0 || head.version != EP_CRASH_VERSION ||
        head.size > EP_CRASH_BODY_MOST ||
        ep_port_crash_read(EP_CRASH_BODY_AT, ep_crash_body, head.size) != (int64_t)head.size)
        return -EBADMSG;
    uint32_t crc = ep_crash_crc(&head.version, sizeof head.version + sizeof head.size);
    if (ep_crash_crc_on(crc, ep_crash_body, head.size) != head.crc)
        return -EBADMSG;
    take_body(head.size);
    *found = &view;
    return view.fault.signal ? 0 : -EBADMSG;
}
