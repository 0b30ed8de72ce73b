/*
 * The collect thread's side of waits (core/sample/waits.c has the threads' side).
 *
 *   waits_gather -> charge_wait -> read_note, ep_copy_stack, ep_capture_for     records open waits, once an interval
 *   ep_wait_take -> the same                                                  for one thread, for a dump of all threads
 *   wait_classify                                                             finds the class of a .NET monitor's wait
 */
#include "core/features/waits/waits.h"
#include "core/collect/collect.h"
#include "core/sample/feature.h"
#include "core/sample/record.h"

#include <string.h>

#include "core/sample/waiting.h"
#include "core/sample/capture.h"

#define STACK_MIN 2048u
/* The number of callers searched for a wait's class. */
#define CLASS_DEPTH 16u
/* The maximum size of these functions. A caller farther from the function's start is skipped without a table
 * look-up. */
#define FUNCTION_MOST 16384u
/* The least size of ep_wait_begin(), on all architectures. */
#define WAIT_BEGIN_LEAST 12u

/* The ends of this many places' functions are kept: finding one is a search in the unwind tables. */
#define ENDS  32u
#define HOOKS 4u

static const struct ep_wait_place *places;
static unsigned place_count;
static uintptr_t place_end[ENDS], hook_end[HOOKS]; /* 0: not yet found */

static unsigned waiters(const struct ep *ep)
{
    return atomic_load_explicit(&ep->waiters_to, memory_order_relaxed);
}

static void waiter_free(struct ep_waiter *waiter)
{
    atomic_store(&waiter->work, 0);
    atomic_store(&waiter->tid, 0);
}

bool ep_copy_stack(struct ep *ep, uint32_t tid, struct ep_registers *at)
{
    uint8_t *room;
    uint32_t size = ep_outbox_room(&ep->deliver->outbox, &room);
    uintptr_t end = at->stack_end ? at->stack_end : UINTPTR_MAX; /* unknown: as far as memory is mapped */
    uintptr_t wanted_size = at->sp < end ? end - at->sp : 0;

    if (size < STACK_MIN)
        return false;
    if (wanted_size > size)
        wanted_size = size;
    at->stack_start = at->sp;
    at->stack_end = at->sp + (wanted_size ? ep_port_copy(tid, at->sp, room, wanted_size) : 0);
    at->moved = (uintptr_t)room - at->sp;
    return true;
}

static bool is_still(uint32_t tid, uintptr_t work, unsigned sequence)
{
    unsigned now;
    uintptr_t at = work + offsetof(struct ep_work, waiting) + offsetof(struct ep_waiting, sequence);

    return ep_port_copy(tid, at, &now, sizeof now) == sizeof now && now == sequence;
}

/* Copies the thread's note. False: no note. If the note belongs to another run or slot, the slot becomes free. */
static bool read_note(const struct ep *ep, struct ep_waiter *waiter, unsigned slot, struct ep_work *work)
{
    const struct ep_waiting *waiting = ep_waiting_of(work);
    uintptr_t at = atomic_load(&waiter->work);

    if (!at)
        return false;
    if (ep_port_copy(atomic_load(&waiter->tid), at, work, sizeof *work) == sizeof *work && waiting->run == ep->run &&
        waiting->slot == slot)
        return true;
    waiter_free(waiter);
    return false;
}

static void charge_wait(struct ep *ep, struct ep_waiter *waiter, unsigned slot)
{
    struct ep_work work;
    struct ep_waiting *waiting = ep_waiting_of(&work);
    uint32_t tid = atomic_load(&waiter->tid);
    uint64_t until = atomic_load(&waiter->accounted_ns);
    uintptr_t at = atomic_load(&waiter->work);

    if (!read_note(ep, waiter, slot, &work))
        return;
    unsigned sequence = atomic_load_explicit(&waiting->sequence, memory_order_relaxed);
    uint64_t start = ep_port_uptime_ns() - ep_port_ticks_ns(ep_port_ticks() - waiting->start_ticks);
    uint64_t now = ep_port_uptime_ns(), from = until > start ? until : start;
    if (!(sequence & 1) || now < from + EP_WAIT_OPEN_NS || ep_wait_left_out(ep, waiting->wait) ||
        !ep_copy_stack(ep, tid, &waiting->at) || !is_still(tid, at, sequence) ||
        !atomic_compare_exchange_strong(&waiter->accounted_ns, &until, now))
        return;
    uint32_t count = until <= start || until == waiting->accounted_ns; /* else this thread has charged a part */
    ep_wait_find_frame(waiting);
    const struct ep_hook_event event = ep_wait_event(waiting, count, now - from);
    ep_capture_for(ep, &work, &waiting->at, tid, &event);
}

/* Copies the thread's note. NULL: it has none, or no wait is open. */
static struct ep_waiting *open_note(struct ep *ep, uint32_t tid, struct ep_work *work)
{
    unsigned i = 0;

    while (i < waiters(ep) && atomic_load(&ep->waiter[i].tid) != tid)
        i++;
    if (i == waiters(ep) || !read_note(ep, &ep->waiter[i], i + 1, work))
        return NULL;
    struct ep_waiting *waiting = ep_waiting_of(work);
    return atomic_load_explicit(&waiting->sequence, memory_order_relaxed) & 1 ? waiting : NULL;
}

bool ep_wait_is_open(struct ep *ep, uint32_t tid)
{
    struct ep_work work;

    return open_note(ep, tid, &work) != NULL;
}

bool ep_wait_take(struct ep *ep, uint32_t tid)
{
    struct ep_work work;
    struct ep_waiting *waiting = open_note(ep, tid, &work);

    if (!waiting || !ep_copy_stack(ep, tid, &waiting->at))
        return false;
    const uintptr_t at = atomic_load(&ep->waiter[waiting->slot - 1].work);
    if (!is_still(tid, at, atomic_load_explicit(&waiting->sequence, memory_order_relaxed)))
        return false;
    ep_wait_find_frame(waiting);
    const struct ep_hook_event event = {.kind = EP_KIND_THREAD, .frame = waiting->frame, .count = 1, .value = 1};
    ep_capture_for(ep, &work, &waiting->at, tid, &event);
    return true;
}

static void waits_gather(struct ep *ep)
{
    for (unsigned i = 0; i < waiters(ep); i++)
        charge_wait(ep, &ep->waiter[i], i + 1);
}

void ep_wait_places(const struct ep_wait_place *place, unsigned count)
{
    places = place;
    place_count = count;
    memset(place_end, 0, sizeof place_end);
}

/* *end: where the function ends; 0: not yet found. */
static bool is_in_function(const struct ep *ep, uintptr_t pc, uintptr_t function, uintptr_t *end)
{
    if (!function || pc - function >= FUNCTION_MOST)
        return false;
    if (!*end)
        *end = ep_function_end(&ep->unwinder.modules, function);
    return pc < *end;
}

/* The place at pc; NULL: none. */
static const struct ep_wait_place *place_of(const struct ep *ep, uintptr_t pc)
{
    for (unsigned i = 0; i < place_count; i++) {
        uintptr_t end = 0;
        if (is_in_function(ep, pc, places[i].function, i < ENDS ? &place_end[i] : &end))
            return &places[i];
    }
    return NULL;
}

/* The port's ep_wait_begin() has no table. */
static bool is_hook(const struct ep *ep, uintptr_t pc)
{
    return is_in_function(ep, pc, (uintptr_t)ep_wait_open, &hook_end[0]) ||
           is_in_function(ep, pc, (uintptr_t)(ep_wait_end), &hook_end[1]) ||
           is_in_function(ep, pc, (uintptr_t)ep_hook_event, &hook_end[2]) ||
           is_in_function(ep, pc, (uintptr_t)ep_hook_cost, &hook_end[3]) ||
           pc - (uintptr_t)ep_wait_begin < WAIT_BEGIN_LEAST;
}

/* Notes for the thread that the return address `pc` marks its wait as unwanted; 0: the wait is wanted. */
static void note_unwanted(struct ep *ep, uint32_t tid, uintptr_t pc)
{
    for (unsigned i = 0; i < waiters(ep); i++)
        if (atomic_load_explicit(&ep->waiter[i].tid, memory_order_relaxed) == tid)
            atomic_store_explicit(&ep->waiter[i].unwanted, pc, memory_order_relaxed);
}

static void waits_reconsider(struct ep *ep)
{
    for (unsigned i = 0; i < waiters(ep); i++)
        atomic_store_explicit(&ep->waiter[i].unwanted, 0, memory_order_relaxed);
}

/* The innermost caller that decides the class; NULL: there is none. *at: its place in the stack. */
static const struct ep_wait_place *deciding_place(const struct ep *ep, const struct ep_sample *sample, unsigned *at)
{
    unsigned after_task = 0; /* place of the frame that waits for a task; 0: none does */

    for (unsigned i = sample->skip; i < sample->depth && i < sample->skip + CLASS_DEPTH; i++) {
        const struct ep_wait_place *place = place_of(ep, sample->stack[i]);
        *at = i;
        if (place && place->role == EP_PLACE_TASK)
            after_task = i + 1;
        else if (place && (place->role == EP_PLACE_CLASS || (after_task && i <= after_task + 1)))
            return place;
    }
    return NULL;
}

static bool wait_classify(struct ep *ep, struct ep_sample *sample)
{
    unsigned at = 0;
    const struct ep_wait_place *place = deciding_place(ep, sample, &at);
    unsigned class = place ? (unsigned)place->wait : EP_WAIT_OTHER;

    sample->frame = EP_FRAME_WAIT + class;
    bool wanted = !ep_wait_left_out(ep, class) &&
                  (class == EP_WAIT_LOCK || ((ep->collect->kinds | ep_history_kinds) & EP_KIND_BIT(EP_KIND_WAIT)));
    /* All waits under an entry have its address in their stacks. */
    note_unwanted(ep, sample->tid, place && place->role == EP_PLACE_CLASS && !wanted ? sample->stack[at] : 0);
    return wanted;
}

const struct ep_feature ep_waits_feature = {.name = "waits",
                                            .kinds_changed = waits_reconsider,
                                            .gather = waits_gather,
                                            .classify = wait_classify,
                                            .is_own = is_hook};
