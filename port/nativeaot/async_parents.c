/*
 * Async parents: under a continuation of an async method, the methods that wait for it.
 *
 * The pool (or a task that completes) runs a continuation by the method MoveNext(Thread) of the async method's box,
 * AsyncStateMachineBox<TResult, TStateMachine>, which is the method's Task, too. ILC keeps the box in the register that
 * the unwinder follows (struct ep_registers.base). That is no promise. So a frame counts only if the register points to
 * an object of a box's type and the type's virtual table leads to the very function of the frame. The frame that runs a
 * task's delegate has the task there as well, or on the stack (aarch64).
 *
 * .NET 11 compiles its libraries' async methods, and a program's if it wants that, with runtime-async: a suspended
 * method is a Continuation, which leads to the one that waits for it, and the chain belongs to a RuntimeAsyncTask. That
 * task's DispatchContinuations() runs one after another; a thread-static variable leads to the innermost such frame's
 * dispatcher, which has the next continuation and the task. A continuation's address of code stands for its method.
 * Other tasks, boxes among them, wait for that task as for any.
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
#include "async_objects.h"

#define ENTRIES_MOST 8u /* of a list of continuations */
#define PLACES       1024u
#define CHAIN_MOST   64u /* continuations */

struct ep_async ep_async;

static atomic_bool on;
static _Atomic(const char *) why;

/* Return addresses: whether they are in a box's MoveNext. A word is pc << 16 | distance from the function's start,
 * which is 0 for all other code. A race costs a look. */
static _Atomic uint64_t place[PLACES];

int ep_async_refuse(const char *reason)
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

static bool calls_delegate(uintptr_t pc)
{
    for (unsigned i = 0; i < EP_ASYNC_CALLS; i++)
        if (ep_async.call[i] == pc)
            return pc != 0;
    return false;
}

/* A task that is not a box and has its own way to run. */
static bool is_runtime_async(const struct ep_async_type *type)
{
    return type && ep_async.dispatcher && ep_async_is_a(type, ep_async.task) &&
           !ep_async_has_interface(type, ep_async.box) &&
           ep_async_slot_of(type, ep_async.dispatch_slot) != ep_async_slot_of(ep_async.task, ep_async.dispatch_slot);
}

/* The function in whose frame, at pc, the object of this type is a task that runs there; 0: none is known. */
static uintptr_t mover_of(const struct ep_async_type *type, uintptr_t pc)
{
    if (ep_async_is_box(type))
        return ep_async_slot_of(type, ep_async.slot);
    return type && ep_async_is_a(type, ep_async.task) && calls_delegate(pc) ? ep_async.execute : 0;
}

/* ---- from a stack to the box ---- */

static _Atomic uint64_t *place_of(uintptr_t pc)
{
    return &place[(pc ^ pc >> 10) % PLACES];
}

/* What the frame would have if it was one that counts. */
static uintptr_t object_of(const struct ep_hook_walk *walk)
{
    return ep_async.kept && calls_delegate(walk->at.pc) ? ep_async_word_of(walk, ep_async.kept) : walk->at.base;
}

/* The box, or the task, if the frame is the one that moves it on, else 0. */
static uintptr_t box_of(const struct ep_hook_walk *walk)
{
    const uintptr_t object = object_of(walk);

    if (!ep_async_is_object(object)) /* learns nothing: the register may be unknown here */
        return 0;
    const uint64_t seen = atomic_load_explicit(place_of(walk->at.pc), memory_order_relaxed);
    const bool looked = seen >> 16 == walk->at.pc;

    if (looked && !(seen & 0xffff))
        return 0;
    const struct ep_async_type *type = looked || ep_dotnet_is_readable(object) ? ep_async_type_of(object) : NULL;
    uintptr_t mover = mover_of(type, walk->at.pc);
    if (looked)
        return mover && walk->at.pc - mover == (seen & 0xffff) ? object : 0;
    if (mover && (walk->at.pc - mover > 0xffff || ep_hook_walk_function(walk) != mover))
        mover = 0;
    atomic_store_explicit(place_of(walk->at.pc), (uint64_t)walk->at.pc << 16 | (mover ? walk->at.pc - mover : 0),
                          memory_order_relaxed);
    return mover ? object : 0;
}

/* The innermost dispatcher of this thread; NULL: none. */
static const struct ep_async_dispatcher *dispatcher_here(const struct ep_hook_walk *walk)
{
    const uintptr_t statics = ep_async.dispatcher ? tls_InlinedThreadStatics : 0;
    const uintptr_t at = statics ? ep_async_field_of(statics, ep_async_type_of(statics), ep_async.dispatcher) : 0;

    return at % EP_ASYNC_WORD == 0 && at >= walk->at.sp && at < walk->at.end &&
                   walk->at.end - at >= sizeof(struct ep_async_dispatcher)
               ? (const struct ep_async_dispatcher *)at
               : NULL;
}

/* Ends the walk, which has begun. *next: see ep_async_follow(). */
static uintptr_t find_box(struct ep_hook_walk *walk, enum ep_async_state state, struct ep_hook_parents *parents,
                          uintptr_t *next)
{
    const struct ep_async_dispatcher *dispatcher = dispatcher_here(walk);
    uintptr_t box = 0;

    *next = 0;
    parents->depth = walk->depth;
    parents->pc = walk->at.pc;

    bool managed = state == EP_ASYNC_HOOK || (state == EP_ASYNC_INTERRUPTED && ep_dotnet_is_managed(walk->at.pc));
    for (unsigned i = 0; i < EP_ASYNC_FRAMES && !box && ep_hook_walk_next(walk); i++) {
        if (!managed) {
            managed = ep_dotnet_is_managed(walk->at.pc - 1);
            if (!managed && state == EP_ASYNC_INTERRUPTED)
                break;
            if (state == EP_ASYNC_WAITED)
                walk->at.base = 0;
        }
        if (dispatcher && (uintptr_t)dispatcher < walk->at.sp) { /* it is in the frame before */
            box = is_runtime_async(ep_async_type_of(dispatcher->task)) ? dispatcher->task : 0;
            *next = dispatcher->next;
            break;
        }
        box = box_of(walk);
        parents->depth = walk->depth;
        parents->pc = walk->at.pc;
    }
    ep_hook_walk_end(walk);
    return box;
}

static uintptr_t find_box_at(const struct ep_registers *registers, enum ep_async_state state,
                             struct ep_hook_parents *parents, uintptr_t *next)
{
    struct ep_hook_walk walk;

    return ep_hook_walk_begin(&walk, registers) ? find_box(&walk, state, parents, next) : 0;
}

uintptr_t ep_async_find_box_here(enum ep_async_state state, struct ep_hook_parents *parents, uintptr_t *next)
{
    struct ep_hook_walk walk;

    return ep_hook_walk_here(&walk) ? find_box(&walk, state, parents, next) : 0;
}

/* ---- from a box to those that wait for it ---- */

/* The first entry that is still there; others have been removed. */
uintptr_t ep_async_first_of(uintptr_t list, const struct ep_async_type *type)
{
    const uintptr_t items = ep_async_field_of(list, type, ep_async.items);
    const struct ep_async_type *array = ep_async_type_of(items);

    if (!array || !(array->size.flags & EP_TYPE_HAS_ELEMENTS) || (array->size.flags & 0xffff) != EP_ASYNC_WORD)
        return 0;
    const uint32_t count = (uint32_t)ep_async_word_at(items + EP_ASYNC_WORD);
    for (uint32_t i = 0; i < count && i < ENTRIES_MOST; i++)
        if (ep_async_word_at(items + (2 + i) * EP_ASYNC_WORD))
            return ep_async_word_at(items + (2 + i) * EP_ASYNC_WORD);
    return 0;
}

/* One step of what a continuation wraps: the next object, 0: nothing that is known. */
static uintptr_t unwrap(uintptr_t object, const struct ep_async_type *type)
{
    if (type == ep_async.list)
        return ep_async_first_of(object, type);
    if (type == ep_async.action)
        return ep_async_field_of(object, type, ep_async.target);
    if (ep_async_is_a(type, ep_async.await))
        return ep_async_field_of(object, type, ep_async.await_action);
    if (type == ep_async.continue_by)
        return ep_async_field_of(object, type, ep_async.continue_task);
    if (type == ep_async.resume)
        return ep_async_field_of(object, type, ep_async.resumes);
    return 0;
}

/* The task that waits for a task: an async method's box, or one that the library has made, such as WhenAll's. */
static uintptr_t waiter_of(uintptr_t task)
{
    uintptr_t object = ep_async_field_of(task, ep_async_type_of(task), ep_async.continuation);

    for (unsigned i = 0; i < 4; i++) { /* a list, a continuation's object, its action, the target */
        const struct ep_async_type *type = ep_async_type_of(object);
        if (!type || ep_async_is_a(type, ep_async.task))
            return type ? object : 0;
        object = unwrap(object, type);
    }
    return 0;
}

/* The next continuation; *ip: where its method goes on, 0: it is one of the runtime's own. */
uintptr_t ep_async_next_of(uintptr_t continuation, uintptr_t *ip)
{
    const struct ep_async_type *type = ep_async_type_of(continuation);
    const uintptr_t resume = ep_async_field_of(continuation, type, 2 * EP_ASYNC_WORD);

    *ip = ep_async_is_data(resume) ? ep_async_word_at(resume + EP_ASYNC_WORD) : 0;
    if (*ip && !ep_dotnet_is_managed(*ip))
        *ip = 0;
    return ep_async_field_of(continuation, type, EP_ASYNC_WORD);
}

/* Adds the methods of a chain of continuations. False: there is no room. */
static bool add_chain(uintptr_t continuation, struct ep_hook_parents *parents)
{
    uintptr_t ip;

    for (unsigned i = 0; i < CHAIN_MOST && ep_async_is_a(ep_async_type_of(continuation), ep_async.continuation_type);
         i++) {
        continuation = ep_async_next_of(continuation, &ip);
        if (ip && parents->count == EP_HOOK_PARENTS)
            return false;
        if (ip)
            parents->parent[parents->count++] = ip;
    }
    return true;
}

/* The methods that wait for a task's own: those of one that is runtime-async. *more: false if what waits has begun to
 * run. */
static bool add_waiter(uintptr_t task, struct ep_hook_parents *parents, bool *more)
{
    const struct ep_async_type *type = ep_async_type_of(task);
    const uintptr_t first = is_runtime_async(type) ? ep_async_field_of(task, type, ep_async.state) : 0;

    *more = !is_runtime_async(type) || first;
    if (first)
        return add_chain(first, parents);
    if (!ep_async_is_box(type))
        return true;
    if (parents->count == EP_HOOK_PARENTS)
        return false;
    parents->parent[parents->count++] = (uintptr_t)type;
    return true;
}

/* `next`: of a runtime-async task, the continuation behind the running one; 0: none. */
void ep_async_follow(uintptr_t box, uintptr_t next, struct ep_hook_parents *parents)
{
    uintptr_t seen[EP_HOOK_PARENTS];
    bool more = true;

    parents->count = 0;
    parents->more = !add_chain(next, parents);
    for (unsigned hop = 0; hop < EP_HOOK_PARENTS && !parents->more; hop++) {
        seen[hop] = box;
        box = more ? waiter_of(box) : 0;
        if (!box)
            return;
        for (unsigned i = 0; i <= hop; i++)
            if (seen[i] == box) { /* tasks cannot wait for themselves */
                parents->count = 0;
                return;
            }
        parents->more = !add_waiter(box, parents, &more);
    }
    parents->more = true;
}

void ep_dotnet_async_find(const struct ep_registers *registers, struct ep_hook_parents *parents)
{
    uintptr_t next;
    const uintptr_t box = registers ? find_box_at(registers, EP_ASYNC_HOOK, parents, &next)
                                    : ep_async_find_box_here(EP_ASYNC_HOOK, parents, &next);

    parents->count = 0;
    if (box)
        ep_async_follow(box, next, parents);
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
    uintptr_t next;

    parents->count = 0;
    if (!ep_dotnet_cooperative_begin(&mode))
        return false;
    const uintptr_t box = registers ? find_box_at(registers, EP_ASYNC_WAITED, parents, &next)
                                    : ep_async_find_box_here(EP_ASYNC_WAITED, parents, &next);
    if (box)
        ep_async_follow(box, next, parents);
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
    uintptr_t next;
    const uintptr_t box = find_box_at(registers, EP_ASYNC_INTERRUPTED, parents, &next);
    parents->count = 0;
    if (box)
        ep_async_follow(box, next, parents);
    ep_hook_cost(from, 1);
    return parents->count != 0;
}

/* ---- for the list of tasks ---- */

enum ep_dotnet_task_kind ep_dotnet_task_kind(uintptr_t at)
{
    const struct ep_async_type *type = ep_async_is_data(at) ? (const struct ep_async_type *)at : NULL;

    return !ep_async.task || !type || !ep_async_is_a(type, ep_async.task) ? EP_TASK_NONE
           : ep_async_has_interface(type, ep_async.box)                   ? EP_TASK_METHOD
                                                                          : EP_TASK_OTHER;
}

uintptr_t ep_dotnet_task_waiter(uintptr_t task)
{
    return waiter_of(task);
}

void ep_dotnet_async_enable(int32_t enable)
{
    atomic_store(&on, enable && !*ep_dotnet_async_reason());
}
