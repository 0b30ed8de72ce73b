/*
 * Synthetic stacks: chains of frame records [caller's frame pointer, return address]; the root's record returns to
 * address 0. That is the layout of every ABI with frame pointer chains that edgeprof knows. On 32-bit ARM, where code
 * without tables is not walked, the code gets a table that describes these records, and call instructions.
 */
#include "sim.h"

#include <string.h>

#include <edgeprof/edgeprof.h>

struct record {
    uintptr_t fp, pc;
};

#define CODE_SIZE (EP_SIM_FUNCTIONS * EP_SIM_FUNCTION)

/* Read by the core like code. Only what ep_sim_tables() writes into it has a meaning. */
static _Alignas(64) uint8_t code[CODE_SIZE];

uintptr_t ep_sim_pc(unsigned function)
{
    return (uintptr_t)code + function * EP_SIM_FUNCTION + EP_SIM_FUNCTION / 2;
}

/* Two entries of an exception index: one function from the module's start on, and the end of the code. */
struct table {
    uintptr_t start;
    uint32_t index[4];
};

static struct table *table_of(uintptr_t start)
{
    static struct table tables[16];
    unsigned i = 0;

    while (i < 15 && tables[i].start && tables[i].start != start)
        i++;
    tables[i].start = start;
    return &tables[i];
}

void ep_sim_tables(struct ep_module_info *info)
{
    static const uint32_t prologue[] = {0xe92d4800, 0xe1a0b00d}; /* push {r11, lr}; mov r11, sp */

    if (sizeof(uintptr_t) != sizeof prologue[0] || info->start - (uintptr_t)code >= CODE_SIZE)
        return;
    uint32_t *index = table_of(info->start)->index;
    index[0] = (uint32_t)(info->start - (uintptr_t)&index[0]) & 0x7fffffff;
    index[1] = 0x809b8480; /* vsp = r11; pop {r11, lr} */
    index[2] = (uint32_t)((uintptr_t)code + CODE_SIZE - (uintptr_t)&index[2]) & 0x7fffffff;
    index[3] = 1; /* EXIDX_CANTUNWIND */
    memcpy(code + (info->start - (uintptr_t)code), prologue, sizeof prologue);
    for (unsigned f = 0; f < EP_SIM_FUNCTIONS; f++)
        code[f * EP_SIM_FUNCTION + EP_SIM_FUNCTION / 2 - 1] = 0xeb; /* bl, in front of its return address */
    info->table = info->image_start = (uintptr_t)index;
    info->table_size = sizeof((struct table *)NULL)->index;
    info->image_end = info->table + info->table_size;
}

static void chain(const uint16_t *functions, unsigned depth, struct record *records, struct ep_registers *registers)
{
    for (unsigned i = 0; i < depth; i++)
        records[i] = i + 1 < depth ? (struct record){(uintptr_t)&records[i + 1], ep_sim_pc(functions[i + 1])}
                                   : (struct record){0, 0};
    *registers = (struct ep_registers){
        .pc = ep_sim_pc(functions[0]),
        .sp = (uintptr_t)records,
        .fp = (uintptr_t)records,
        .stack_start = (uintptr_t)records,
        .stack_end = (uintptr_t)(records + depth),
    };
}

void ep_sim_stack(const uint16_t *functions, unsigned depth, struct ep_registers *registers)
{
    static struct record records[EP_SIM_DEPTH];

    chain(functions, depth, records, registers);
}

static _Alignas(16) struct record here[EP_SIM_DEPTH]; /* aligned like a stack pointer */
static struct ep_registers here_context;

/* The hook's own frame, function 0, is the leaf. */
void ep_sim_here(const uint16_t *functions, unsigned depth)
{
    uint16_t with_hook[EP_SIM_DEPTH] = {0};

    for (unsigned i = 0; i < depth; i++)
        with_hook[i + 1] = functions[i];
    chain(with_hook, depth + 1, here, &here_context);
}

size_t ep_sim_here_size(uintptr_t from, size_t size)
{
    const uintptr_t left = here_context.stack_end - from;

    return size < left ? size : left;
}

uint32_t ep_port_here(struct ep_registers *registers)
{
    *registers = here_context;
    return ep_sim.tid;
}

uint32_t ep_port_bounds(struct ep_registers *registers)
{
    registers->stack_start = ep_sim.no_bounds ? 0 : here_context.stack_start;
    registers->stack_end = ep_sim.no_bounds ? 0 : here_context.stack_end;
    return ep_sim.tid;
}

bool ep_sim_tick(uint32_t tid, uint32_t ticks, const uint16_t *functions, unsigned depth)
{
    struct record records[EP_SIM_DEPTH];
    struct ep_registers registers;
    struct ep *ep = ep_hold();

    if (!ep)
        return false;
    chain(functions, depth, records, &registers);
    uint64_t *carried = &ep_sim.carried_ns[tid % EP_SIM_THREADS], ns = *carried + (uint64_t)ticks * ep_sim.period_ns;
    *carried = ep_capture(ep, &registers, tid, ns) ? ns : 0;
    ep_release();
    return true;
}

bool ep_sim_rest(uint32_t tid, int64_t rest_ns)
{
    if (!ep_hold())
        return false;
    ep_thread_residual(tid, rest_ns);
    ep_release();
    return true;
}

void ep_wait_begin(enum ep_wait wait)
{
    ep_wait_open(here_context.sp + (unsigned)wait, here_context.pc, here_context.fp, 0);
}
