/*
 * Private to the async parents: how objects of .NET are read, and what async_measure.c has measured of them at the
 * start for async_parents.c.
 *
 * An object is read only if it is in the heap or in the program's data, and a field only if the object's type is one
 * that has it. Types lie in the program's data.
 */
#ifndef EP_ASYNC_OBJECTS_H
#define EP_ASYNC_OBJECTS_H

#include "glue.h"
#include "runtime.h"

#define EP_ASYNC_WORD   sizeof(uintptr_t)
#define EP_ASYNC_FRAMES 96u
#define EP_ASYNC_BASES  4u  /* a box's type is derived from Task<T>, Task and Object */
#define EP_ASYNC_SLOTS  64u /* of a virtual table, and interfaces */
#define EP_ASYNC_CALLS  2u
#define EP_ASYNC_JUMPS  3u

/* The collector's heap lies between these. */
EP_RUNTIME_FUNCTION const uintptr_t g_lowest_address, g_highest_address;

/* A MethodTable. The self-check compares it with known types. */
struct ep_async_type {
    struct ep_dotnet_type size;
    const struct ep_async_type *base;
    uint16_t slots, interfaces;
    uint32_t hash;
    uintptr_t table[]; /* virtual functions, then the interfaces' types */
};

/* What was measured. All of it is written before `on`. */
struct ep_async {
    uintptr_t data_start, data_end;                  /* the program's, where types are */
    const struct ep_async_type *task, *box;          /* box: the interface that only boxes have */
    const struct ep_async_type *action, *list;       /* Action, List<object> */
    const struct ep_async_type *await, *continue_by; /* AwaitTaskContinuation, ContinueWithTaskContinuation */
    unsigned continuation;                           /* offsets of fields: of Task */
    unsigned target, items, await_action, continue_task;
    unsigned slot;     /* of the virtual function that runs a box from the pool */
    uintptr_t execute; /* the function that runs a task's delegate; 0: it is not known where it keeps the task */
    unsigned kept;     /* bytes from its frame pointer to the task; 0: it is in the register */
    uintptr_t call[EP_ASYNC_CALLS]; /* where its calls of the delegate return to: the task is still needed there */
    /* Of runtime-async: */
    const struct ep_async_type *continuation_type, *resume; /* continuations' base; how a task resumes another */
    unsigned resumes;                                       /* of `resume`: the task */
    unsigned state;                                         /* of Task: the first continuation */
    unsigned dispatch_slot; /* of the virtual function that leads to DispatchContinuations() */
    unsigned dispatcher;    /* of the thread's variables: the innermost dispatcher; 0: not known */
    uintptr_t suspended;    /* where the method goes on that is measured */
};
extern struct ep_async ep_async;

/* AsyncDispatcherInfo, on the stack of DispatchContinuations(). */
struct ep_async_dispatcher {
    const struct ep_async_dispatcher *outer;
    uintptr_t next, task;
};

/* A thread's static variables are in an object, to which the first word leads. */
extern __attribute__((weak)) _Thread_local uintptr_t tls_InlinedThreadStatics;

/* ---- reads ---- */

static inline bool ep_async_is_data(uintptr_t at)
{
    return at % EP_ASYNC_WORD == 0 && at >= ep_async.data_start && at < ep_async.data_end &&
           ep_async.data_end - at >= sizeof(struct ep_async_type);
}

static inline bool ep_async_is_object(uintptr_t at)
{
    return at % EP_ASYNC_WORD == 0 && ((at >= g_lowest_address && at < g_highest_address) || ep_async_is_data(at));
}

static inline uintptr_t ep_async_word_at(uintptr_t at)
{
    return atomic_load_explicit((const atomic_uintptr_t *)at, memory_order_acquire);
}

/* NULL: no object, or one of a type made at run time. */
static inline const struct ep_async_type *ep_async_type_of(uintptr_t object)
{
    const uintptr_t type = ep_async_is_object(object) ? ep_async_word_at(object) : 0;

    return ep_async_is_data(type) ? (const struct ep_async_type *)type : NULL;
}

/* The object in a field; 0: none. */
static inline uintptr_t ep_async_field_of(uintptr_t object, const struct ep_async_type *type, unsigned offset)
{
    return type && offset && offset + 2 * EP_ASYNC_WORD <= type->size.base_size ? ep_async_word_at(object + offset) : 0;
}

static inline bool ep_async_is_a(const struct ep_async_type *type, const struct ep_async_type *wanted)
{
    for (unsigned i = 0; i < EP_ASYNC_BASES && ep_async_is_data((uintptr_t)type); i++, type = type->base)
        if (type == wanted)
            return true;
    return false;
}

static inline bool ep_async_is_whole(const struct ep_async_type *type)
{
    return type->slots <= EP_ASYNC_SLOTS && type->interfaces <= EP_ASYNC_SLOTS &&
           (uintptr_t)&type->table[type->slots + type->interfaces] <= ep_async.data_end;
}

static inline bool ep_async_has_interface(const struct ep_async_type *type, const struct ep_async_type *wanted)
{
    for (unsigned i = 0; ep_async_is_whole(type) && i < type->interfaces; i++)
        if (type->table[type->slots + i] == (uintptr_t)wanted)
            return true;
    return false;
}

static inline bool ep_async_is_box(const struct ep_async_type *type)
{
    return type && ep_async_is_a(type, ep_async.task) && ep_async_has_interface(type, ep_async.box);
}

/* .NET 11's methods that only call another one are up to two in a row. */
static inline uintptr_t ep_async_slot_of(const struct ep_async_type *type, unsigned slot)
{
    uintptr_t function = slot < type->slots ? type->table[slot] : 0;

    for (unsigned i = 0; i < EP_ASYNC_JUMPS && function; i++)
        function = ep_dotnet_jump_target(function);
    return function;
}

/* A word of the frame, which lies on the stack of the walk. */
static inline uintptr_t ep_async_word_of(const struct ep_hook_walk *walk, unsigned offset)
{
    const uintptr_t at = walk->at.fp + offset;

    return walk->at.fp % EP_ASYNC_WORD == 0 && walk->at.fp >= walk->at.sp && at < walk->at.end &&
                   walk->at.end - at >= EP_ASYNC_WORD
               ? ep_async_word_at(at)
               : 0;
}

/* ---- async_parents.c ---- */

/* What is known of the thread at the context. */
enum ep_async_state {
    EP_ASYNC_HOOK,        /* a call, its register is certain */
    EP_ASYNC_WAITED,      /* a call of managed code in preemptive mode: only what managed code saved is certain */
    EP_ASYNC_INTERRUPTED, /* no call: managed code, or a function that it called, which keeps to its unwind table */
};

/* Switches async parents off, for good, with the first reason. Returns -1. Context: any thread. */
int ep_async_refuse(const char *reason);

/* Finds the box or task whose frame the calling thread is in, and in *next what ep_async_follow() wants. Returns it; 0:
 * none. Context: signal. */
uintptr_t ep_async_find_box_here(enum ep_async_state state, struct ep_hook_parents *parents, uintptr_t *next);

/* Adds the methods that wait for the box, from the inside to the outside. next: the continuation that goes on when the
 * running one has ended; 0: none. Context: signal. */
void ep_async_follow(uintptr_t box, uintptr_t next, struct ep_hook_parents *parents);

/* Returns the first object that a list of continuations holds; 0: none. Context: signal. */
uintptr_t ep_async_first_of(uintptr_t list, const struct ep_async_type *type);

/* Returns the continuation that waits for this one, and in *ip its method's code; 0: none. Context: signal. */
uintptr_t ep_async_next_of(uintptr_t continuation, uintptr_t *ip);

#endif
