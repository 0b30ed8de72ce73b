/*
 * Records a crash, in the handler of the fatal signal. Each step adds sections to the body; a section counts when it is
 * complete, so a fault within a step loses only that step. The first write has what matters; the other threads come
 * behind it and are written by the second one, which leaves the bytes of the first as they are.
 *
 *   ep_crash_begin, ep_crash_step, ep_crash_end     called by the port
 */
#include "core/features/crash/crash.h"

#include <errno.h>
#include <string.h>

#define STACK_COPY           16384u
#define TEXT_MOST            8192u
#define SECTION(type, value) (void)section_add(type, &(value), sizeof(value), NULL, 0)

_Alignas(8) uint8_t ep_crash_body[EP_CRASH_BODY_MOST];
struct ep_crash_own ep_crash_own;

static struct {
    struct ep *ep; /* held */
    const struct ep_crash_event *event;
    uint32_t used;
    uint32_t done; /* a bit for each step that came to its end */
    unsigned threads, modules;
    uintptr_t module[EP_CRASH_MODULES_MOST]; /* starts of those that are in the record */
    atomic_uintptr_t pc[EP_MAX_DEPTH];
    uint64_t wide[EP_MAX_DEPTH + 1];
    _Alignas(16) uint8_t copy[STACK_COPY];
} record;

uint32_t ep_crash_crc_on(uint32_t crc, const void *bytes, size_t size)
{
    const uint8_t *at = bytes;
    uint32_t sum = ~crc;

    for (size_t i = 0; i < size; i++) {
        sum ^= at[i];
        for (unsigned bit = 0; bit < 8; bit++)
            sum = sum >> 1 ^ (sum & 1 ? 0x82f63b78u : 0);
    }
    return ~sum;
}

uint32_t ep_crash_crc(const void *bytes, size_t size)
{
    return ep_crash_crc_on(0, bytes, size);
}

/* Adds a section of two parts. False: it does not fit. */
static bool section_add(enum ep_crash_section_type type, const void *head, size_t head_size, const void *rest,
                        size_t rest_size)
{
    struct ep_crash_section section = {.type = type, .size = (uint32_t)(head_size + rest_size)};
    uint8_t *at = ep_crash_body + record.used;
    size_t whole = (sizeof section + section.size + 7) & ~(size_t)7;

    if (whole > EP_CRASH_BODY_MOST - record.used)
        return false;
    memset(at, 0, whole);
    memcpy(at, &section, sizeof section);
    memcpy(at + sizeof section, head, head_size);
    if (rest_size)
        memcpy(at + sizeof section + head_size, rest, rest_size);
    record.used += (uint32_t)whole;
    return true;
}

bool ep_crash_begin(const struct ep_crash_event *event)
{
    struct ep *ep = ep_hold();

    if (!ep)
        return false;
    ep_crash_own.run.state = EP_CRASH_CRASHED;
    ep_crash_own.run.signal = (uint32_t)event->signal;
    (void)ep_crash_mark_write();
    if (atomic_load(&ep_crash_own.waits)) {
        (void)ep_port_crash_sync();
        ep_release();
        return false;
    }
    record.ep = ep;
    record.event = event;
    record.used = record.done = 0;
    record.threads = record.modules = 0;
    ep_unwind_thorough(&ep->unwinder, true);
    return true;
}

void ep_crash_end(void)
{
    ep_unwind_thorough(&record.ep->unwinder, false);
    ep_release();
}

static void add_fault(void)
{
    const struct ep_crash_event *event = record.event;
    const struct ep_crash_fault fault = {
        .signal = event->signal,
        .code = event->code,
        .error = event->error,
        .tid = event->tid,
        .sender = event->sender,
        .address = event->address,
        .pc = event->registers.pc,
        .sp = event->registers.sp,
        .fp = event->registers.fp,
        .lr = event->lr,
        .time_ns = event->time_ns,
        .unix_ns = ep_port_unix_ns(),
    };

    SECTION(EP_CRASH_AT_RUN, ep_crash_own.run);
    SECTION(EP_CRASH_AT_FAULT, fault);
    if (ep_crash_own.registers && event->values <= EP_CRASH_REGISTERS)
        (void)section_add(EP_CRASH_AT_REGISTERS, event->value, event->values * sizeof event->value[0], NULL, 0);
}

static bool in_stack(const struct ep_registers *at, uintptr_t address)
{
    return address >= at->stack_start && address + sizeof address <= at->stack_end;
}

/* After a jump to where no code is: the frame of the caller. The architecture's call has left its return address. */
static bool jumped_from(struct ep_registers *at)
{
#ifdef __x86_64__
    if (!in_stack(at, at->sp) || at->moved)
        return false;
    memcpy(&at->pc, (const void *)at->sp, sizeof at->pc);
    at->sp += sizeof at->pc;
#else
    (void)in_stack;
    at->pc = ep_code_address((uintptr_t)record.event->lr);
#endif
    at->lr = EP_LR_CALLED;
    return ep_module_find(&record.ep->unwinder.modules, at->pc) != NULL;
}

/* Walks a stack into record.wide. */
static void stack_add(uint32_t tid, struct ep_registers at, bool own)
{
    struct ep_stack stack = {.pc = record.pc};
    struct ep_crash_stack head = {.tid = tid};
    unsigned first = 0;
    const uintptr_t pc = at.pc;

    if (own && !ep_module_find(&record.ep->unwinder.modules, ep_code_address(pc)) && jumped_from(&at))
        record.wide[first++] = pc;
    ep_unwind(&record.ep->unwinder, &at, &stack);
    for (unsigned i = 0; i < stack.depth; i++)
        record.wide[first + i] = atomic_load_explicit(&record.pc[i], memory_order_relaxed);
    head.depth = (uint16_t)(first + stack.depth);
    head.quality = stack.quality;
    head.end = stack.end;
    ep_port_thread_name(tid, head.name, sizeof head.name);
    if (section_add(EP_CRASH_AT_STACK, &head, sizeof head, record.wide, head.depth * sizeof record.wide[0]))
        record.threads++;
}

static void module_add(const struct ep_module *module)
{
    struct ep_crash_module copy = {.start = module->start, .end = module->end, .bias = module->bias};

    for (unsigned i = 0; i < record.modules; i++)
        if (record.module[i] == module->start)
            return;
    if (record.modules == EP_CRASH_MODULES_MOST)
        return;
    record.module[record.modules++] = module->start;
    copy.build_id_size = module->build_id_size < sizeof copy.build_id ? module->build_id_size : sizeof copy.build_id;
    if (module->build_id)
        memcpy(copy.build_id, module->build_id, copy.build_id_size);
    size_t size = module->path ? strlen(module->path) : 0;
    size_t skipped = size >= sizeof copy.path ? size - sizeof copy.path + 1 : 0; /* the end says more than the start */
    if (size)
        memcpy(copy.path, module->path + skipped, size - skipped);
    SECTION(EP_CRASH_AT_MODULE, copy);
}

static void modules_add(const uint8_t *at, uint32_t size)
{
    struct ep_crash_stack head;
    uint64_t pc;

    memcpy(&head, at, sizeof head);
    for (size_t i = 0; i < head.depth && sizeof head + (i + 1) * sizeof pc <= size; i++) {
        memcpy(&pc, at + sizeof head + i * sizeof pc, sizeof pc);
        const struct ep_module *module = ep_module_find(&record.ep->unwinder.modules, (uintptr_t)pc);
        if (module)
            module_add(module);
    }
}

/* Of all stacks in the record. */
static void add_modules(void)
{
    const uint32_t end = record.used;
    struct ep_crash_section section;

    for (uint32_t at = 0; at < end; at += (uint32_t)((sizeof section + section.size + 7) & ~(size_t)7)) {
        memcpy(&section, ep_crash_body + at, sizeof section);
        if (section.type == EP_CRASH_AT_STACK)
            modules_add(ep_crash_body + at + sizeof section, section.size);
    }
}

static void add_text(void)
{
    size_t size;
    const char *text = ep_port_crash_text(&size);

    if (text && size)
        (void)section_add(EP_CRASH_AT_TEXT, text, size < TEXT_MOST ? size : TEXT_MOST, NULL, 0);
}

/* Data first, the head last. */
static void write_record(void)
{
    struct ep_crash_head head = {.magic = {'E', 'P', 'C', '1'}, .version = EP_CRASH_VERSION, .size = record.used};

    head.crc = ep_crash_crc(&head.version, sizeof head.version + sizeof head.size);
    head.crc = ep_crash_crc_on(head.crc, ep_crash_body, record.used);
    if (ep_port_crash_write(EP_CRASH_BODY_AT, ep_crash_body, record.used) != 0 || ep_port_crash_sync() != 0)
        return;
    if (ep_port_crash_write(EP_CRASH_HEAD_AT, &head, sizeof head) == 0)
        (void)ep_port_crash_sync();
}

/* A thread that is blocked in the kernel. A copy is walked: the thread may go on. */
static void add_other(uint32_t tid)
{
    struct ep_registers at;
    uint64_t ran;

    if (record.threads > EP_CRASH_THREADS)
        return;
    int error = ep_port_thread_blocked(tid, &at, &ran);
    if (error == -ESRCH)
        return;
    if (error) {
        struct ep_crash_stack head = {.tid = tid, .quality = EP_STACK_CUT};
        ep_port_thread_name(tid, head.name, sizeof head.name);
        if (section_add(EP_CRASH_AT_STACK, &head, sizeof head, NULL, 0))
            record.threads++;
        return;
    }
    at.stack_start = at.sp;
    at.stack_end = at.sp + ep_port_copy(tid, at.sp, record.copy, sizeof record.copy);
    at.moved = (uintptr_t)record.copy - at.sp;
    stack_add(tid, at, false);
}

/* The number of steps before this one that a fault has ended. */
static void add_failed(enum ep_crash_step_number step)
{
    const uint32_t failed = (uint32_t)__builtin_popcount(~record.done & ((1u << step) - 1));

    if (failed)
        SECTION(EP_CRASH_AT_FAULTS, failed);
}

static void others_add(void)
{
    ep_port_crash_threads(add_other);
    add_modules();
}

void ep_crash_step(enum ep_crash_step_number step)
{
    switch (step) {
    case EP_CRASH_FAULT:
        add_fault();
        break;
    case EP_CRASH_STACK:
        stack_add(record.event->tid, record.event->registers, true);
        break;
    case EP_CRASH_MODULES:
        add_modules();
        break;
    case EP_CRASH_TEXT:
        add_text();
        break;
    case EP_CRASH_OTHERS:
        others_add();
        break;
    default:
        add_failed(step);
        write_record();
        break;
    }
    record.done |= 1u << step;
}
