/*
 * Finds function names in the process itself, for pprof messages (core/features/pprof/pprof.c). The key of a name is
 * the linear address of the function's start, as the unwind tables have it, else the pc. Found names stay in a fixed
 * table, which is emptied if it stays full, but not within a message. Sources, in this order: dynamic symbols; the
 * language runtime, for its own module; "module+0x1234" with the function's ELF address.
 *
 *   ep_names_process.find -> module_of, ep_function_start -> known, or name_learn -> ep_port_symbol, runtime_ask
 *   the runtime's thread: ep_names_next -> question_answer, then waits for question_take
 */
#include "core/deliver/deliver.h"
#include "core/profile/naming.h"

#include <errno.h>
#include <string.h>

#if EP_NAMES_BYTES < 4096 || EP_NAMES_BYTES > 16777216
#error "EP_NAMES_BYTES must be 4096..16777216"
#endif

#define NAME_MOST  256u
#define PLACES     4096u /* size of the hash table: a power of two, more than twice EP_NAMED_MOST */
#define ANSWER_NS  100000000u
#define MESSAGE_NS 2000000000u
#define FULL_FOR   64u /* messages */
#define FOREVER_NS 3600000000000u

struct table {
    uint32_t run;                     /* run of the profiler that the linear addresses belong to */
    unsigned count, used, full_since; /* number of names, bytes of text, messages since a name had no room */
    bool full;
    uint16_t place[PLACES];           /* hash table: number of the name, 0: free */
    uint32_t function[EP_NAMED_MOST]; /* linear address of its start */
    uint32_t at[EP_NAMED_MOST];       /* in text */
    char text[EP_NAMES_BYTES];
    uint64_t patience_ns; /* uptime; until then the runtime may be asked for this message */
    const struct ep_deadline *deadline;
    struct ep_named named;
};
static struct table *names; /* from the first profile with names on */

/* ---- asking the runtime ---- */

/* The runtime answers on a thread of its own. Edgeprof's threads have all signals blocked and the lowest priority,
 * so a garbage collection would have to wait for them. The deliver thread waits for an answer for ANSWER_NS at most,
 * and for MESSAGE_NS a message; missing names are asked for again next time. The upper bits of the state number the
 * question, so that a late answer is ignored. */
enum { STATE_IDLE, STATE_ASKED, STATE_TAKEN, STATE_ANSWERED, STATE_MASK = 3 };

static struct {
    struct ep_event asked, answered;
    atomic_uint state;
    atomic_bool serving, ending;
    atomic_uintptr_t address;
    atomic_bool type;
    unsigned taken; /* used by the runtime's thread: the state when it took the question */
    size_t size;
    char answer[NAME_MOST];
} runtime;

/* Waits for the state. False: the deadline has passed. */
static bool wait_answered(unsigned state, uint64_t deadline_ns)
{
    for (;;) {
        const unsigned seen = atomic_load(&runtime.answered.value);
        const uint64_t now = ep_port_uptime_ns();
        if (atomic_load(&runtime.state) == state)
            return true;
        if (now >= deadline_ns)
            return false;
        ep_port_wait(&runtime.answered, seen, deadline_ns - now);
    }
}

/* Returns the size of the name at `name`; 0: the runtime has none; -ETIMEDOUT: ask again later. */
static int runtime_ask(uintptr_t address, bool type, char *name)
{
    const unsigned question = (atomic_load(&runtime.state) & ~(unsigned)STATE_MASK) + STATE_MASK + 1;
    const uint64_t now = ep_port_uptime_ns();
    int size = -ETIMEDOUT;

    if (!atomic_load(&runtime.serving))
        return 0;
    if (now >= names->patience_ns || now >= ep_deadline_ns(names->deadline))
        return -ETIMEDOUT;
    atomic_store(&runtime.address, address);
    atomic_store(&runtime.type, type);
    atomic_store(&runtime.state, question | STATE_ASKED);
    ep_port_wake(&runtime.asked);
    if (wait_answered(question | STATE_ANSWERED, now + ANSWER_NS)) {
        size = (int)runtime.size;
        memcpy(name, runtime.answer, runtime.size);
    }
    atomic_store(&runtime.state, question | STATE_IDLE);
    return size;
}

static void question_answer(const char *name, size_t size)
{
    unsigned taken = runtime.taken;

    if ((taken & STATE_MASK) != STATE_TAKEN)
        return;
    runtime.size = size < NAME_MOST ? size : NAME_MOST - 1;
    for (size_t i = 0; i < runtime.size; i++)
        runtime.answer[i] = name[i];
    if (atomic_compare_exchange_strong(&runtime.state, &taken, taken - STATE_TAKEN + STATE_ANSWERED))
        ep_port_wake(&runtime.answered);
    runtime.taken = 0;
}

static bool question_take(uintptr_t *address, int *type)
{
    unsigned state = atomic_load(&runtime.state);

    if ((state & STATE_MASK) != STATE_ASKED)
        return false;
    *address = atomic_load(&runtime.address);
    *type = atomic_load(&runtime.type);
    runtime.taken = state - STATE_ASKED + STATE_TAKEN;
    return atomic_compare_exchange_strong(&runtime.state, &state, runtime.taken);
}

int ep_names_next(const char *name, size_t size, uintptr_t *address, int *type)
{
    question_answer(name, size);
    atomic_store(&runtime.serving, true);
    for (;;) {
        const unsigned seen = atomic_load(&runtime.asked.value);
        if (atomic_exchange(&runtime.ending, false))
            break;
        if (question_take(address, type))
            return 0;
        ep_port_wait(&runtime.asked, seen, FOREVER_NS);
    }
    runtime.taken = 0;
    atomic_store(&runtime.serving, false);
    return -ESRCH;
}

void ep_names_end(void)
{
    atomic_store(&runtime.ending, true);
    ep_port_wake(&runtime.asked);
}

/* ---- the table of names ---- */

static void names_clear(uint32_t run)
{
    memset(names->place, 0, sizeof names->place);
    names->run = run;
    names->count = names->used = names->full_since = 0;
    names->full = false;
}

/* The hash table's slot of the function, used or free. */
static uint16_t *place_of(uint32_t function)
{
    unsigned at = (function * 2654435761u) >> 20;

    _Static_assert(PLACES == 1u << 12, "the hash has 12 bits");
    _Static_assert(PLACES > 2 * EP_NAMED_MOST, "the table must stay half empty");
    while (names->place[at] && names->function[names->place[at] - 1] != function)
        at = (at + 1) % PLACES;
    return &names->place[at];
}

static unsigned name_keep(uint16_t *place, uint32_t function, const char *name, size_t size)
{
    if (names->count == EP_NAMED_MOST || size + 1 > sizeof names->text - names->used) {
        names->full = true;
        return 0;
    }
    names->function[names->count] = function;
    names->at[names->count] = names->used;
    memcpy(names->text + names->used, name, size);
    names->text[names->used + size] = 0;
    names->used += (unsigned)size + 1;
    *place = (uint16_t)++names->count;
    return names->count;
}

/* ---- finding ---- */

static bool is_built(const struct ep_module *module, const struct ep_place *place)
{
    if (place->build_id_size != module->build_id_size)
        return false;
    return module->build_id_size ? memcmp(place->build_id, module->build_id, module->build_id_size) == 0
                                 : strcmp(place->path, module->path) == 0;
}

static bool module_contains(const struct ep_module *module, uint64_t address)
{
    const uint64_t start = (uintptr_t)(module->start - module->bias);

    return address >= start && address - start < module->end - module->start;
}

/* The module with the place's build id, wherever it was loaded then. The hint is the module's number + 1. */
static const struct ep_module *module_of(const struct ep *ep, struct ep_place *place)
{
    const unsigned count = atomic_load_explicit(&ep->unwinder.modules.count, memory_order_acquire);

    if (place->hint && module_contains(&ep->unwinder.modules.slot[place->hint - 1], place->address))
        return &ep->unwinder.modules.slot[place->hint - 1];
    for (unsigned i = 0; i < count; i++)
        if (module_contains(&ep->unwinder.modules.slot[i], place->address) &&
            is_built(&ep->unwinder.modules.slot[i], place)) {
            place->hint = i + 1;
            return &ep->unwinder.modules.slot[i];
        }
    return NULL;
}

/* "module+0x1234" */
static size_t address_name(const struct ep_module *module, uintptr_t function, char *name)
{
    const char *slash = strrchr(module->path, '/'), *base = slash ? slash + 1 : module->path;
    size_t size = strlen(base);
    unsigned shift = 8 * sizeof function - 4;

    if (size > NAME_MOST - 20)
        size = NAME_MOST - 20;
    memcpy(name, base, size);
    memcpy(name + size, "+0x", 3);
    size += 3;
    function -= module->bias;
    while (shift && !(function >> shift & 15))
        shift -= 4;
    for (;; shift -= 4) {
        name[size++] = "0123456789abcdef"[function >> shift & 15];
        if (!shift)
            return size;
    }
}

static unsigned name_learn(const struct ep *ep, const struct ep_module *module, uintptr_t function, uint32_t key)
{
    char name[NAME_MOST];
    int size = 0;

    if (!module->data && ep_port_symbol(function, name, sizeof name))
        size = (int)strlen(name);
    else if (ep->unwinder.hijack_stub &&
             (module->data || ep->unwinder.hijack_stub - module->start < module->end - module->start))
        size = runtime_ask(function, module->data, name);
    if (size < 0)
        return 0;
    if (size == 0)
        size = (int)address_name(module, function, name);
    return name_keep(place_of(key), key, name, (size_t)size);
}

static unsigned names_find(struct ep_place *place)
{
    const struct ep *ep = ep_running();
    const struct ep_module *module = module_of(ep, place);

    if (!module)
        return 0;
    const uintptr_t pc = (uintptr_t)place->address + module->bias;
    uintptr_t function = module->data ? pc : ep_function_start(module, pc);
    if (function - module->start >= module->end - module->start)
        function = pc; /* no unwind table has it */
    const uint32_t key = module->base + (uint32_t)(function - module->start);
    const uint16_t known = *place_of(key);
    return known ? known : name_learn(ep, module, function, key);
}

static void names_begin(const struct ep_deadline *deadline)
{
    const uint32_t run = ep_running()->run;

    names->full_since += names->full;
    if (names->run != run || names->full_since > FULL_FOR)
        names_clear(run);
    names->patience_ns = ep_port_uptime_ns() + MESSAGE_NS;
    names->deadline = deadline;
}

static const char *names_text(unsigned name)
{
    return names->text + names->at[name - 1];
}

static struct ep_named *names_memory(void)
{
    if (!names)
        names = ep_port_memory(sizeof *names);
    return names ? &names->named : NULL;
}

const struct ep_names ep_names_process = {
    .begin = names_begin, .find = names_find, .text = names_text, .memory = names_memory};
