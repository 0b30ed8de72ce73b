/*
 * The unwinder of the library, asked as the sampling handler asks it. The profiler runs, so that modules are known,
 * at one sample a second and without threads of its own.
 */
#include "shadow.h"

#include "tests/unit/core_rooms.h"

static uint64_t memory[EP_MEMORY_DEFAULT / sizeof(uint64_t)];
static atomic_uintptr_t walked_pc[EP_MAX_DEPTH];
static struct ep_stack walked = {.pc = walked_pc};

static int prepare(void)
{
    const struct ep_config config = {.memory = memory,
                                     .memory_size = sizeof memory,
                                     .service = "shadow",
                                     .rate_hz = 1,
                                     .interval_ms = 3600000,
                                     .flags = EP_MANUAL};
    return ep_start(&config);
}

/* The part of the collect thread; it looks for new modules. */
static void refresh(void)
{
    ep_collect();
}

static void walk(const struct ep_registers *registers, struct shadow_stack *stack)
{
    ep_unwind(&ep_running()->unwinder, registers, &walked);
    stack->sure = walked.quality == EP_STACK_EXACT;
    stack->deep = walked.end == EP_FRAME_DEEP;
    stack->count = walked.depth;
    for (unsigned i = 0; i < walked.depth; i++) {
        if (walked.pc[i] == EP_FRAME_DEEP) {
            stack->deep = true;
            stack->count = (int)i;
            break;
        }
        stack->pc[i] = walked.pc[i] + (i != 0);
    }
}

const struct shadow_walker shadow_walker_core = {.name = "core", .prepare = prepare, .refresh = refresh, .walk = walk};
