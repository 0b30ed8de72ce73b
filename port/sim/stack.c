/*
 * Synthetic stacks: a chain of frame records [caller's frame pointer, return address], root last, whose root record
 * returns to address 0. The layout is that of every ABI with a frame pointer chain that edgeprof knows.
 */
#include "sim.h"

struct record {
    uintptr_t fp, pc;
};

/* Read by the core as if it were code: no byte sequence of it means anything. */
static _Alignas(64) uint8_t code[EP_SIM_FUNCTIONS * EP_SIM_FUNCTION];

uintptr_t ep_sim_pc(unsigned function)
{
    return (uintptr_t)code + function * EP_SIM_FUNCTION + EP_SIM_FUNCTION / 2;
}

static void chain(const uint16_t *functions, unsigned depth, struct record *records, struct ep_context *context)
{
    for (unsigned i = 0; i < depth; i++)
        records[i] = i + 1 < depth ? (struct record){(uintptr_t)&records[i + 1], ep_sim_pc(functions[i + 1])}
                                   : (struct record){0, 0};
    *context = (struct ep_context){
        .pc = ep_sim_pc(functions[0]),
        .sp = (uintptr_t)records,
        .fp = (uintptr_t)records,
        .stack_start = (uintptr_t)records,
        .stack_end = (uintptr_t)(records + depth),
    };
}

void ep_sim_stack(const uint16_t *functions, unsigned depth, struct ep_context *context)
{
    static struct record records[EP_SIM_DEPTH];

    chain(functions, depth, records, context);
}

bool ep_sim_tick(uint32_t tid, uint32_t ticks, const uint16_t *functions, unsigned depth)
{
    struct record records[EP_SIM_DEPTH];
    struct ep_context context;

    if (!ep_enter())
        return false;
    chain(functions, depth, records, &context);
    ep_capture(&context, tid, ticks);
    ep_leave();
    return true;
}

bool ep_sim_rest(uint32_t tid, int64_t rest_ns)
{
    if (!ep_enter())
        return false;
    ep_thread_rest(tid, rest_ns);
    ep_leave();
    return true;
}
