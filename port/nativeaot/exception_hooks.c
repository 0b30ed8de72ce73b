/*
 * Exceptions at the throw, before any handler is looked for (first chance), by type and place.
 *
 * The runtime's assembly calls RhThrowEx (throw), RhThrowHwEx (null reference, division by zero) or RhRethrow. Each of
 * them first calls OnFirstChanceException. Trampolines (trampoline_<arch>.S) note the start of the stack in the former
 * functions and record in the latter, the only one that has the object in every case. A rethrow is not a new exception.
 *
 * Runs in cooperative mode: nothing here blocks.
 */
#include "runtime.h"

/* Called by the trampolines. */
void ep_dotnet_throwing(uintptr_t again, uintptr_t pc, uintptr_t sp, uintptr_t fp, uintptr_t base);
void ep_dotnet_first_chance(void *const *object);

static _Thread_local struct {
    struct ep_context context; /* registers in the runtime's assembly, called by the code that throws */
    struct ep_stratum stratum;
    bool known;
} throwing;

void ep_dotnet_throwing(uintptr_t again, uintptr_t pc, uintptr_t sp, uintptr_t fp, uintptr_t base)
{
    throwing.known = !again;
    throwing.context = (struct ep_context){.pc = pc, .sp = sp, .fp = fp, .lr = EP_LR_CALLED, .base = base};
}

void ep_dotnet_first_chance(void *const *object)
{
    bool known = throwing.known;

    throwing.known = false;
    if (!known || !object || !ep_hook_wants(EP_KIND_EXCEPTION))
        return;
    uint64_t count = ep_stratum_advance(&throwing.stratum, 1, ep_hook_period(EP_KIND_EXCEPTION));
    const struct ep_hook_event event = {.kind = EP_KIND_EXCEPTION,
                                        .type = (uintptr_t)*object,
                                        .count = (uint32_t)count,
                                        .value = count,
                                        .skip = 1,
                                        .context = &throwing.context};
    if (count)
        (void)ep_hook_event(&event);
}
