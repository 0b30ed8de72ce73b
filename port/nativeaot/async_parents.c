/*
 * Async parents: under a continuation of an async method, the methods that wait for it.
 *
 * The pool (or a task that completes) runs a continuation by the method MoveNext(Thread) of the async method's box,
 * AsyncStateMachineBox<TResult, TStateMachine>, which is the method's Task, too. ILC keeps the box in the register that
 * the unwinder follows (struct ep_registers.base). That is no promise. So a frame counts only if the register points to
 * an object of a box's type and the type's virtual table leads to the very function of the frame. The frame that runs a
 * task's delegate has the task there as well, or on the stack (aarch64).
 *
 *   ep_dotnet_event      allocations, exceptions    -> find_box -> box_of -> is_box, mover_of
 *   ep_hook_wait_end     waits                         follow -> waiter_of -> unwrap
 *   ep_hook_interrupted  CPU samples
 *
 * Runs in cooperative mode (thread_mode.c): no collection can begin, so objects do not move. Other threads may add
 * continuations meanwhile; each field that is read holds an object or NULL at any time. An object is read only if it is
 * in the heap or in the program's data, and a field only if the object's type is one that has it. Types lie in the
 * program's data.
 *
 * Where fields are is measured at the start, with objects that managed code has made (ep_dotnet_async_measure()), and
 * then all of it is tried in a continuation whose parent is known (ep_dotnet_async_check()).
 */
#include <link.h>
#include <string.h>

#include "glue.h"
#include "runtime.h"

#define WORD         sizeof(uintptr_t)
#define LARGEST      1024u /* bytes of an object that is measured */
#define FRAMES_MOST  96u
#define BASES_MOST   4u  /* a box's type is derived from Task<T>, Task and Object */
#define SLOTS_MOST   64u /* of a virtual table, and interfaces */
#define ENTRIES_MOST 8u  /* of a list of continuations */
#define PLACES       1024u
#define CALLS        2u
#define KEEPERS_MOST 16u
#define KEPT_MOST    256u /* bytes */

/* The collector's heap lies between these. */
EP_RUNTIME_FUNCTION const uintptr_t g_lowest_address, g_highest_address;

/* A MethodTable. The self-check compares it with known types. */
struct type {
    struct ep_dotnet_type size;
    const struct type *base;
    uint16_t slots, interfaces;
    uint32_t hash;
    uintptr_t table[]; /* virtual functions, then the interfaces' types */
};

/* A frame of `function`, which has a task in the register, or `kept` bytes from its frame pointer. */
struct keeper {
    uintptr_t function, call; /* where its call returns to */
    unsigned kept;
};

/* What was measured. All of it is written before `on`. */
static struct {
    uintptr_t data_start, data_end;         /* the program's, where types are */
    const struct type *task, *box;          /* box: the interface that only boxes have */
    const struct type *action, *list;       /* Action, List<object> */
    const struct type *await, *continue_by; /* AwaitTaskContinuation, ContinueWithTaskContinuation */
    unsigned continuation;                  /* offsets of fields: of Task */
    unsigned target, items, await_action, continue_task;
    unsigned slot;         /* of the virtual function that runs a box from the pool */
    uintptr_t execute;     /* the function that runs a task's delegate; 0: it is not known where it keeps the task */
    unsigned kept;         /* bytes from its frame pointer to the task; 0: it is in the register */
    uintptr_t call[CALLS]; /* where its calls of the delegate return to: the task is still needed there */
} known;

static atomic_bool on;
static _Atomic(const char *) why;

/* Return addresses: whether they are in a box's MoveNext. A word is pc << 16 | distance from the function's start,
 * which is 0 for all other code. A race costs a look. */
static _Atomic uint64_t place[PLACES];

static int refuse(const char *reason)
{
    const char *none = NULL;

    atomic_store(&on, false);
    (void)atomic_compare_exchange_strong(&why, &none, reason);
    return -1;
}

const char *ep_dotnet_async_reason(void)
{
    const char *reason = atomic_load(&why);

    return reason ? reason : "";
}

/* ---- reads ---- */

static bool is_data(uintptr_t at)
{
    return at % WORD == 0 && at >= known.data_start && at < known.data_end &&
           known.data_end - at >= sizeof(struct type);
}

static bool is_object(uintptr_t at)
{
    return at % WORD == 0 && ((at >= g_lowest_address && at < g_highest_address) || is_data(at));
}

static uintptr_t word_at(uintptr_t at)
{
    return atomic_load_explicit((const atomic_uintptr_t *)at, memory_order_acquire);
}

/* NULL: no object, or one of a type made at run time. */
static const struct type *type_of(uintptr_t object)
{
    const uintptr_t type = is_object(object) ? word_at(object) : 0;

    return is_data(type) ? (const struct type *)type : NULL;
}

/* The object in a field; 0: none. */
static uintptr_t field_of(uintptr_t object, const struct type *type, unsigned offset)
{
    return type && offset && offset + 2 * WORD <= type->size.base_size ? word_at(object + offset) : 0;
}

static bool is_a(const struct type *type, const struct type *wanted)
{
    for (unsigned i = 0; i < BASES_MOST && is_data((uintptr_t)type); i++, type = type->base)
        if (type == wanted)
            return true;
    return false;
}

static bool is_whole(const struct type *type)
{
    return type->slots <= SLOTS_MOST && type->interfaces <= SLOTS_MOST &&
           (uintptr_t)&type->table[type->slots + type->interfaces] <= known.data_end;
}

static bool has_interface(const struct type *type, const struct type *wanted)
{
    for (unsigned i = 0; is_whole(type) && i < type->interfaces; i++)
        if (type->table[type->slots + i] == (uintptr_t)wanted)
            return true;
    return false;
}

static bool is_box(const struct type *type)
{
    return type && is_a(type, known.task) && has_interface(type, known.box);
}

static uintptr_t slot_of(const struct type *type, unsigned slot)
{
    return slot < type->slots && type->table[slot] ? ep_dotnet_jump_target(type->table[slot]) : 0;
}

static bool calls_delegate(uintptr_t pc)
{
    for (unsigned i = 0; i < CALLS; i++)
        if (known.call[i] == pc)
            return pc != 0;
    return false;
}

/* The function in whose frame, at pc, the object of this type is a task that runs there; 0: none is known. */
static uintptr_t mover_of(const struct type *type, uintptr_t pc)
{
    if (is_box(type))
        return slot_of(type, known.slot);
    return type && is_a(type, known.task) && calls_delegate(pc) ? known.execute : 0;
}

/* ---- from a stack to the box ---- */

static _Atomic uint64_t *place_of(uintptr_t pc)
{
    return &place[(pc ^ pc >> 10) % PLACES];
}

/* A word of the frame, which lies on the stack of the walk. */
static uintptr_t word_of(const struct ep_hook_walk *walk, unsigned offset)
{
    const uintptr_t at = walk->at.fp + offset;

    return walk->at.fp % WORD == 0 && walk->at.fp >= walk->at.sp && at < walk->at.end && walk->at.end - at >= WORD
               ? word_at(at)
               : 0;
}

/* What the frame would have if it was one that counts. */
static uintptr_t object_of(const struct ep_hook_walk *walk)
{
    return known.kept && calls_delegate(walk->at.pc) ? word_of(walk, known.kept) : walk->at.base;
}

/* The box, or the task, if the frame is the one that moves it on, else 0. */
static uintptr_t box_of(const struct ep_hook_walk *walk)
{
    const uintptr_t object = object_of(walk);

    if (!is_object(object)) /* learns nothing: the register may be unknown here */
        return 0;
    const uint64_t seen = atomic_load_explicit(place_of(walk->at.pc), memory_order_relaxed);
    const bool looked = seen >> 16 == walk->at.pc;

    if (looked && !(seen & 0xffff))
        return 0;
    const struct type *type = looked || ep_dotnet_is_readable(object) ? type_of(object) : NULL;
    uintptr_t mover = mover_of(type, walk->at.pc);
    if (looked)
        return mover && walk->at.pc - mover == (seen & 0xffff) ? object : 0;
    if (mover && (walk->at.pc - mover > 0xffff || ep_hook_walk_function(walk) != mover))
        mover = 0;
    atomic_store_explicit(place_of(walk->at.pc), (uint64_t)walk->at.pc << 16 | (mover ? walk->at.pc - mover : 0),
                          memory_order_relaxed);
    return mover ? object : 0;
}

/* What is known of the thread at the context. */
enum state {
    HOOK,        /* a call, its register is certain */
    WAITED,      /* a call by managed code that was in preemptive mode: only what managed code has saved is certain */
    INTERRUPTED, /* no call: managed code, or a function that it has called and that keeps to its unwind table */
};

/* Ends the walk, which has begun. */
static uintptr_t find_box(struct ep_hook_walk *walk, enum state state, struct ep_hook_parents *parents)
{
    uintptr_t box = 0;

    bool managed = state == HOOK || (state == INTERRUPTED && ep_dotnet_is_managed(walk->at.pc));
    for (unsigned i = 0; i < FRAMES_MOST && !box && ep_hook_walk_next(walk); i++) {
        if (!managed) {
            managed = ep_dotnet_is_managed(walk->at.pc - 1);
            if (!managed && state == INTERRUPTED)
                break;
            if (state == WAITED)
                walk->at.base = 0;
        }
        box = box_of(walk);
    }
    parents->depth = walk->depth;
    parents->pc = walk->at.pc;
    ep_hook_walk_end(walk);
    return box;
}

static uintptr_t find_box_at(const struct ep_registers *registers, enum state state, struct ep_hook_parents *parents)
{
    struct ep_hook_walk walk;

    return ep_hook_walk_begin(&walk, registers) ? find_box(&walk, state, parents) : 0;
}

static uintptr_t find_box_here(enum state state, struct ep_hook_parents *parents)
{
    struct ep_hook_walk walk;

    return ep_hook_walk_here(&walk) ? find_box(&walk, state, parents) : 0;
}

/* ---- from a box to those that wait for it ---- */

/* The first entry that is still there; others have been removed. */
static uintptr_t first_of(uintptr_t list, const struct type *type)
{
    const uintptr_t items = field_of(list, type, known.items);
    const struct type *array = type_of(items);

    if (!array || !(array->size.flags & EP_TYPE_HAS_ELEMENTS) || (array->size.flags & 0xffff) != WORD)
        return 0;
    const uint32_t count = (uint32_t)word_at(items + WORD);
    for (uint32_t i = 0; i < count && i < ENTRIES_MOST; i++)
        if (word_at(items + (2 + i) * WORD))
            return word_at(items + (2 + i) * WORD);
    return 0;
}

/* One step of what a continuation wraps: the next object, 0: nothing that is known. */
static uintptr_t unwrap(uintptr_t object, const struct type *type)
{
    if (type == known.list)
        return first_of(object, type);
    if (type == known.action)
        return field_of(object, type, known.target);
    if (is_a(type, known.await))
        return field_of(object, type, known.await_action);
    if (type == known.continue_by)
        return field_of(object, type, known.continue_task);
    return 0;
}

/* The task that waits for a task: an async method's box, or one that the library has made, such as WhenAll's. */
static uintptr_t waiter_of(uintptr_t task)
{
    uintptr_t object = field_of(task, type_of(task), known.continuation);

    for (unsigned i = 0; i < 4; i++) { /* a list, a continuation's object, its action, the target */
        const struct type *type = type_of(object);
        if (!type || is_a(type, known.task))
            return type ? object : 0;
        object = unwrap(object, type);
    }
    return 0;
}

static void follow(uintptr_t box, struct ep_hook_parents *parents)
{
    uintptr_t seen[EP_HOOK_PARENTS];

    parents->count = 0;
    parents->more = false;
    for (unsigned hop = 0; hop < EP_HOOK_PARENTS; hop++) {
        seen[hop] = box;
        box = waiter_of(box);
        if (!box)
            return;
        for (unsigned i = 0; i <= hop; i++)
            if (seen[i] == box) { /* tasks cannot wait for themselves */
                parents->count = 0;
                return;
            }
        const struct type *type = type_of(box);
        if (is_box(type))
            parents->parent[parents->count++] = (uintptr_t)type;
    }
    parents->more = true;
}

void ep_dotnet_async_find(const struct ep_registers *registers, struct ep_hook_parents *parents)
{
    const uintptr_t box = registers ? find_box_at(registers, HOOK, parents) : find_box_here(HOOK, parents);

    parents->count = 0;
    if (box)
        follow(box, parents);
}

static bool is_on(void)
{
    return atomic_load_explicit(&on, memory_order_acquire);
}

int ep_dotnet_event(const struct ep_hook_event *event)
{
    struct ep_hook_parents parents;

    if (!is_on() || !event->registers)
        return ep_hook_event(event);
    struct ep_registers registers = *event->registers;
    if (event->kind == EP_KIND_EXCEPTION)
        registers.base =
            0; /* noted before managed code ran, in which objects may have moved: only what is on the stack counts */
    ep_dotnet_async_find(&registers, &parents);
    return parents.count ? ep_hook_event_awaited(event, &parents) : ep_hook_event(event);
}

bool ep_dotnet_async_find_waited(const struct ep_registers *registers, struct ep_hook_parents *parents)
{
    struct ep_dotnet_mode mode;

    parents->count = 0;
    if (!ep_dotnet_cooperative_begin(&mode))
        return false;
    const uintptr_t box = registers ? find_box_at(registers, WAITED, parents) : find_box_here(WAITED, parents);
    if (box)
        follow(box, parents);
    ep_dotnet_cooperative_end(&mode);
    return parents->count != 0;
}

/* This and the next are out of line: what they have on the stack is not there for what follows them. */
static __attribute__((noinline)) bool find_waited(const struct ep_registers *began, struct ep_hook_parents *parents)
{
    struct ep_registers registers = *began;

    registers.lr = EP_LR_CALLED;
    return ep_dotnet_async_find_waited(&registers, parents);
}

static __attribute__((noinline)) bool record_waited(const struct ep_hook_event *event, int *result)
{
    struct ep_hook_parents parents;

    if (!find_waited(event->registers, &parents))
        return false;
    *result = ep_hook_event_awaited(event, &parents);
    return true;
}

int ep_hook_wait_end(const struct ep_hook_event *event)
{
    int result;

    return is_on() && event->registers && record_waited(event, &result) ? result : ep_hook_event(event);
}

/* The runtime's own C++ may be the collector, which moves objects. It has no unwind tables, or frames between it and
 * managed code; so at most one frame that is not managed is passed. */
bool ep_hook_interrupted(const struct ep_registers *registers, struct ep_hook_parents *parents)
{
    if (!is_on() || !ep_dotnet_is_cooperative())
        return false;
    const uint64_t from = ep_port_ticks();
    const uintptr_t box = find_box_at(registers, INTERRUPTED, parents);
    parents->count = 0;
    if (box)
        follow(box, parents);
    ep_hook_cost(from, 1);
    return parents->count != 0;
}

/* ---- for the list of tasks ---- */

enum ep_dotnet_task_kind ep_dotnet_task_kind(uintptr_t at)
{
    const struct type *type = is_data(at) ? (const struct type *)at : NULL;

    return !known.task || !type || !is_a(type, known.task) ? EP_TASK_NONE
           : has_interface(type, known.box)                ? EP_TASK_METHOD
                                                           : EP_TASK_OTHER;
}

uintptr_t ep_dotnet_task_waiter(uintptr_t task)
{
    return waiter_of(task);
}

/* ---- measuring, with objects of managed code ---- */

static int data_of_module(struct dl_phdr_info *info, size_t size, void *argument)
{
    const uintptr_t type = *(const uintptr_t *)argument;

    (void)size;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const uintptr_t start = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
        if (info->dlpi_phdr[i].p_type != PT_LOAD || type - start >= info->dlpi_phdr[i].p_memsz)
            continue;
        known.data_start = start;
        known.data_end = start + info->dlpi_phdr[i].p_memsz;
        return 1;
    }
    return 0;
}

/* Offset of the one field that holds the value; 0: none, or several. */
static unsigned offset_of(uintptr_t object, uintptr_t value)
{
    const struct type *type = type_of(object);
    unsigned found = 0;

    if (!type || type->size.base_size > LARGEST)
        return 0;
    for (unsigned at = WORD; at + 2 * WORD <= type->size.base_size; at += WORD)
        if (word_at(object + at) == value) {
            if (found)
                return 0;
            found = at;
        }
    return found;
}

/* The only interface that a box has and a task has not; NULL: none, or several. */
static const struct type *added_interface(const struct type *box, const struct type *task)
{
    const struct type *found = NULL;

    if (!is_whole(box) || !is_whole(task))
        return NULL;
    for (unsigned i = 0; i < box->interfaces; i++) {
        const struct type *one = (const struct type *)box->table[box->slots + i];
        if (!is_data((uintptr_t)one) || (!has_interface(task, one) && found))
            return NULL;
        if (!has_interface(task, one))
            found = one;
    }
    return found;
}

static uintptr_t continuation_of(uintptr_t task)
{
    return field_of(task, type_of(task), known.continuation);
}

static int measure_types(const uintptr_t *object)
{
    const struct type *boxes[] = {type_of(object[EP_ASYNC_BOX]), type_of(object[EP_ASYNC_BOX_TEXT]),
                                  type_of(object[EP_ASYNC_BOX_VOID])};
    const struct type *task = type_of(object[EP_ASYNC_TASK]);

    if (!task || !boxes[0] || !boxes[1] || !boxes[2] || !is_data((uintptr_t)task->base))
        return refuse("types are not in the program's data");
    if (boxes[0]->base != task || task->base->base == task->base || !is_a(boxes[1], task->base) ||
        !is_a(boxes[2], task->base))
        return refuse("an async method's box is not derived from Task<T>");
    known.task = task->base;
    known.box = added_interface(boxes[0], task);
    if (!known.box || !has_interface(boxes[1], known.box) || !has_interface(boxes[2], known.box))
        return refuse("a box does not have one interface more than a task");
    return 0;
}

static int measure_fields(const uintptr_t *object)
{
    known.continuation = offset_of(object[EP_ASYNC_TASK], object[EP_ASYNC_BOX]);
    if (!known.continuation)
        return refuse("a task does not hold the box that waits for it");
    known.action = type_of(object[EP_ASYNC_ACTION]);
    known.target = offset_of(object[EP_ASYNC_ACTION], object[EP_ASYNC_TARGET]);
    if (!known.action || !known.target || continuation_of(object[EP_ASYNC_ACTION_TASK]) != object[EP_ASYNC_ACTION])
        return refuse("a task does not hold the Action that waits for it");
    const uintptr_t flowing = continuation_of(object[EP_ASYNC_FLOW_TASK]);
    known.await = type_of(flowing);
    known.await_action = offset_of(flowing, object[EP_ASYNC_FLOW_ACTION]);
    const uintptr_t then = continuation_of(object[EP_ASYNC_THEN_TASK]);
    known.continue_by = type_of(then);
    known.continue_task = offset_of(then, object[EP_ASYNC_THEN]);
    if (!known.await || !known.await_action || !known.continue_by || !known.continue_task)
        return refuse("a task's continuation does not hold what it continues with");
    const uintptr_t list = continuation_of(object[EP_ASYNC_LIST_TASK]);
    known.list = type_of(list);
    for (unsigned at = WORD; known.list && at + 2 * WORD <= known.list->size.base_size && !known.items; at += WORD) {
        const struct type *array = type_of(word_at(list + at));
        known.items = array && array->size.flags & EP_TYPE_HAS_ELEMENTS ? at : 0;
    }
    if (!known.items || first_of(list, known.list) != object[EP_ASYNC_LIST_FIRST])
        return refuse("a task does not hold a list of those that wait for it");
    return 0;
}

int ep_dotnet_async_measure(void *const *objects, uint32_t count)
{
    const uintptr_t *object = (const uintptr_t *)(const void *)objects;

    if (count != EP_ASYNC_OBJECTS || !&g_lowest_address || !&g_highest_address)
        return refuse("the collector does not say where its heap is");
    memset(&known, 0, sizeof known);
    for (unsigned i = 0; i < count; i++)
        if (object[i] == 0)
            return refuse("an object is missing");
    uintptr_t type = *(const uintptr_t *)object[EP_ASYNC_TASK];
    if (!dl_iterate_phdr(data_of_module, &type))
        return refuse("types are not in the program's data");
    return measure_types(object) ? -1 : measure_fields(object);
}

/* The frame that moves the box on, and by which virtual function of the type it can be told. */
static int measure_mover(uintptr_t box)
{
    const struct type *type = type_of(box);
    struct ep_hook_walk walk;
    bool found = false;

    if (!is_box(type) || !ep_hook_walk_here(&walk))
        return refuse("no profiler runs");
    for (unsigned i = 0; i < FRAMES_MOST && !found && ep_hook_walk_next(&walk); i++) {
        const uintptr_t function = walk.at.base == box ? ep_hook_walk_function(&walk) : 0;
        for (unsigned slot = 0; function && !found && slot < type->slots; slot++) {
            found = slot_of(type, slot) == function;
            known.slot = slot;
        }
    }
    ep_hook_walk_end(&walk);
    return found ? 0 : refuse("the box is not where its method keeps it in the runtimes that are known");
}

/* Each frame that has the task in the register or among its own words, which end at its caller's sp. */
static unsigned find_keepers(void *const *objects, struct keeper *keeper)
{
    const uintptr_t task = (uintptr_t)objects[0], here = (uintptr_t)objects;
    struct ep_hook_walk walk, frame;
    unsigned count = 0;

    if (!ep_hook_walk_here(&walk))
        return 0;
    bool more = ep_hook_walk_next(&walk); /* this function has the task, too */
    for (unsigned i = 0; more && i < FRAMES_MOST; i++) {
        frame = walk;
        more = ep_hook_walk_next(&walk);
        if (!more || here - frame.at.sp < walk.at.sp - frame.at.sp) /* so has the method that asks */
            continue;
        for (unsigned at = 0; at < KEPT_MOST && (at == 0 || frame.at.fp + at < walk.at.sp); at += (unsigned)WORD)
            if (at != WORD && count < KEEPERS_MOST && (at ? word_of(&frame, at) : frame.at.base) == task)
                keeper[count++] = (struct keeper){ep_hook_walk_function(&frame), frame.at.pc, at};
    }
    ep_hook_walk_end(&walk);
    return count;
}

void ep_dotnet_async_task(void *const *objects, uint32_t turn)
{
    static struct keeper before[KEEPERS_MOST];
    static unsigned count;
    struct keeper now[KEEPERS_MOST];

    if (turn == 0)
        count = find_keepers(objects, before);
    const unsigned found = turn ? find_keepers(objects, now) : 0;
    for (unsigned i = 0; i < found; i++)
        for (unsigned k = 0; k < count; k++)
            if (!known.execute && now[i].function && now[i].function == before[k].function &&
                now[i].kept == before[k].kept) {
                known.call[0] = before[k].call;
                known.call[1] = now[i].call;
                known.kept = now[i].kept;
                known.execute = now[i].function;
            }
}

int ep_dotnet_async_check(void *const *objects, uint32_t turn)
{
    struct ep_hook_parents parents;
    const uintptr_t *object = (const uintptr_t *)(const void *)objects;

    if (*ep_dotnet_async_reason())
        return -1;
    if (turn == 0 && measure_mover(object[0]))
        return -1;
    if (find_box_here(HOOK, &parents) != object[0])
        return refuse("the box that is found is not the method's");
    follow(object[0], &parents);
    if (parents.count != 1 || parents.parent[0] != (uintptr_t)type_of(object[1]))
        return refuse("the method that waits is not found");
    return 0;
}

void ep_dotnet_async_enable(int32_t enable)
{
    atomic_store(&on, enable && !*ep_dotnet_async_reason());
}
