/*
 * Exceptions at the throw, before any handler is looked for (first chance), by type and place.
 *
 * The runtime's assembly calls RhThrowEx (throw), RhThrowHwEx (null reference, division by zero) or RhRethrow. Each of
 * them first calls OnFirstChanceException. Trampolines (trampoline_<arch>.S) note the start of the stack in the former
 * functions and record in the latter, the only one that has the object in every case. A rethrow is not a new exception,
 * and neither is one that `await` or ExceptionDispatchInfo throws again: they end the object's stack trace with a mark.
 *
 * Runs in cooperative mode: nothing here blocks. The first object is looked at with care: a runtime that passes
 * something else loses this kind, not the program.
 */
#include "glue.h"
#include "runtime.h"

/* Called by the trampolines. */
void ep_dotnet_throwing(uintptr_t again, uintptr_t pc, uintptr_t sp, uintptr_t fp, uintptr_t base);
void ep_dotnet_first_chance(void *const *object);

struct throwing {
    struct ep_registers registers; /* registers in the runtime's assembly, called by the code that throws */
    struct ep_stratum stratum;
    bool known;
};

_Static_assert(sizeof(struct throwing) <= EP_PART_EXCEPTIONS_BYTES, "room in a thread's memory");

/* Defined with the trampolines, which call them. */
EP_RUNTIME_FUNCTION void __real_OnFirstChanceException(void);
EP_RUNTIME_FUNCTION void __real_RhThrowEx(void);

/* Linked in programs that have AsyncProbe.cs (EdgeProfAwaited). */
extern __typeof__(ep_dotnet_event) ep_dotnet_event __attribute__((weak));

#define LARGEST_EXCEPTION 65536u
#define ARRAY_LENGTH      1 /* words in an array */
#define ARRAY_FIRST       2
#define THROWN_AGAIN      1u /* Exception.EdiSeparator */

static uint32_t trace_offset, count_offset; /* in an exception; 0: not known */

void ep_dotnet_exception_check(void)
{
    if (!__real_OnFirstChanceException)
        ep_dotnet_refuse(EP_KIND_EXCEPTION, "the runtime has no OnFirstChanceException");
    else if (!__real_RhThrowEx)
        ep_dotnet_refuse(EP_KIND_EXCEPTION, "the runtime has no RhThrowEx");
}

/* Returns true if it is an object, as far as can be seen without knowing its type. */
static bool is_exception(void *const *object)
{
    const uintptr_t at = (uintptr_t)object, word = sizeof at;

    if (at % word || !ep_dotnet_is_readable(at) || (uintptr_t)*object % word ||
        !ep_dotnet_is_readable((uintptr_t)*object))
        return false;
    const struct ep_dotnet_type *type = *object;
    return !(type->flags & EP_TYPE_HAS_ELEMENTS) && type->base_size >= 3 * word &&
           type->base_size <= LARGEST_EXCEPTION && type->base_size % word == 0;
}

static bool exceptions_fit(void *const *object)
{
    static atomic_bool fit;

    if (atomic_load_explicit(&fit, memory_order_relaxed))
        return true;
    if (is_exception(object))
        atomic_store_explicit(&fit, true, memory_order_relaxed);
    else
        ep_dotnet_refuse(EP_KIND_EXCEPTION, "OnFirstChanceException gets something else than an exception");
    return !ep_dotnet_refuses(EP_KIND_EXCEPTION);
}

void ep_dotnet_exceptions_attach(uint32_t trace_at, uint32_t count_at)
{
    trace_offset = trace_at;
    count_offset = count_at;
}

/* The runtime lets the trace of such an exception grow, and clears that of others at the throw. */
static bool is_thrown_again(void *const *object)
{
    if (!trace_offset)
        return false;
    const char *exception = (const char *)object;
    const uintptr_t *trace = *(const uintptr_t *const *)(exception + trace_offset);
    const uint32_t count = *(const uint32_t *)(exception + count_offset);

    return trace && count && count <= (uint32_t)trace[ARRAY_LENGTH] && trace[ARRAY_FIRST + count - 1] == THROWN_AGAIN;
}

void ep_dotnet_throwing(uintptr_t again, uintptr_t pc, uintptr_t sp, uintptr_t fp, uintptr_t base)
{
    struct throwing *throwing = ep_port_thread_part(EP_PART_EXCEPTIONS);

    if (!throwing)
        return;
    throwing->known = !again;
    throwing->registers = (struct ep_registers){.pc = pc, .sp = sp, .fp = fp, .lr = EP_LR_CALLED, .base = base};
}

void ep_dotnet_first_chance(void *const *object)
{
    struct throwing *throwing = ep_port_thread_part(EP_PART_EXCEPTIONS);
    bool known = throwing && throwing->known;

    if (throwing)
        throwing->known = false;
    if (!known || !object || !ep_hook_wants(EP_KIND_EXCEPTION) || ep_dotnet_refuses(EP_KIND_EXCEPTION) ||
        !exceptions_fit(object) || is_thrown_again(object))
        return;
    uint64_t count = ep_stratum_advance(&throwing->stratum, 1, ep_hook_period(EP_KIND_EXCEPTION));
    const struct ep_hook_event event = {.kind = EP_KIND_EXCEPTION,
                                        .type = (uintptr_t)*object,
                                        .count = (uint32_t)count,
                                        .value = count,
                                        .skip = 1,
                                        .registers = &throwing->registers};
    if (count)
        (void)(ep_dotnet_event ? ep_dotnet_event(&event) : ep_hook_event(&event));
}
