/*
 * Exceptions when they are thrown, before anybody has looked for a handler (first chance), by type and place.
 *
 * The runtime's assembly calls RhThrowEx (throw), RhThrowHwEx (a null reference, a division by zero) or RhRethrow, each
 * of which calls OnFirstChanceException before anything else. Trampolines (trampoline_<arch>.S) note at the former
 * where the stack begins, and record at the latter, which alone knows the object in every case. A rethrow is no new
 * exception.
 *
 * In cooperative mode: nothing here blocks.
 */
#include "runtime.h"

/* Called by the trampolines. */
void ep_dotnet_throwing(uintptr_t again, uintptr_t pc, uintptr_t sp, uintptr_t fp, uintptr_t base);
void ep_dotnet_first_chance(void *const *object);

static _Thread_local struct {
    struct ep_context context; /* in the runtime's assembly, called by the code that throws */
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
