/*
 * The frame record of a thread whose registers are not known, because it sleeps: of x29 and x30 nothing is known, only
 * pc and sp. A record is a word that points to the next record, above it, and a return address, which is behind a call.
 * The first one above sp counts from which records lead to the end of the stack, and of which the first few
 * functions are what their callers call by name. If there is none, as behind a tail call, any that leads there. It may
 * be that of an old call, so it stays a guess. Where the function at pc has no frame of its own, as most functions that
 * make a system call, its caller's name is in x30 alone: the record is the caller's, and that frame is missing.
 */
#include "core/unwind/walk.h"

#include <string.h>

#include <edgeprof/port.h>

#define WORD         sizeof(uintptr_t)
#define RECORDS_MOST 128u
#define NAMED_MOST   2u
#define CALL_BYTES   4u

/* bl; blr, and its forms with a signed pointer. */
static bool is_called(const struct ep_walk *walk, uintptr_t pc)
{
    const struct ep_module *module = ep_module_find(&walk->unwinder->modules, pc - 1);
    uint32_t call;

    if (!module || module->execute_only || pc % CALL_BYTES || pc - module->start < CALL_BYTES)
        return false;
    memcpy(&call, (const void *)(pc - CALL_BYTES), sizeof call);
    return (call & 0xfc000000) == 0x94000000 || (call & 0xfffffc1f) == 0xd63f0000 || (call & 0xfefff800) == 0xd63f0800;
}

/* Reads the record at `at`. fp 0: the last one. */
static bool is_record(const struct ep_walk *walk, uintptr_t at, struct ep_frame *caller)
{
    uintptr_t fp, pc;

    if (!ep_walk_load(walk, at, &fp) || !ep_walk_load(walk, at + WORD, &pc) ||
        (fp && (fp <= at || fp >= walk->end || fp % WORD)))
        return false;
    pc = ep_code_address(pc);
    if (fp ? !is_called(walk, pc) : pc && !is_called(walk, pc))
        return false;
    *caller = (struct ep_frame){.pc = pc, .sp = at + 2 * WORD, .fp = fp};
    return true;
}

static uint32_t instruction(uintptr_t at)
{
    uint32_t word;

    memcpy(&word, (const void *)at, sizeof word);
    return word;
}

/* Returns false if the call before `pc` names another function than that which contains `inside`. */
static bool may_call(const struct ep_walk *walk, uintptr_t pc, uintptr_t inside)
{
    const uintptr_t at = pc - CALL_BYTES;
    const uint32_t call = instruction(at);
    const struct ep_module *module = ep_module_find(&walk->unwinder->modules, inside - 1);
    const uintptr_t target = at + (uintptr_t)(intptr_t)((int32_t)(call << 6) >> 6) * CALL_BYTES;

    if ((call & 0xfc000000) != 0x94000000 || !module || target < module->start || target >= module->end)
        return true; /* by a register; or of another library, by a jump */
    const uintptr_t function = ep_function_start(module, inside - 1);
    return !function || function == target;
}

static bool leads_to_end(const struct ep_walk *walk, uintptr_t record, bool named)
{
    struct ep_frame caller;
    uintptr_t before = 0;

    for (unsigned i = 0; i < RECORDS_MOST && is_record(walk, record, &caller); i++) {
        if (named && i > 0 && i <= NAMED_MOST && caller.pc && !may_call(walk, caller.pc, before))
            return false;
        if (caller.fp == 0)
            return i > 0; /* two zero words are no record */
        before = caller.pc;
        record = caller.fp;
    }
    return false;
}

static bool search(const struct ep_walk *walk, bool named, struct ep_frame *caller)
{
    for (uintptr_t at = walk->frame.sp; at < walk->frame.sp + EP_SEARCH_BYTES; at += WORD)
        if (leads_to_end(walk, at, named))
            return is_record(walk, at, caller);
    return false;
}

bool ep_search_record(const struct ep_walk *walk, struct ep_frame *caller)
{
    return search(walk, true, caller) || search(walk, false, caller);
}
