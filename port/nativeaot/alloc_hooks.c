/*
 * Allocations, by wrapping the function that all of the runtime's allocators call when they cannot simply move a
 * pointer: about once in 8 KiB a thread, and for objects that are always made there.
 *
 *   __wrap_RhpGcAlloc -> watch -> watch_shared -> accepted | pass_over -> record
 *   __wrap_RhAllocateNewArray -> pass_over, record
 *
 * Two strata a thread, so that no byte counts twice:
 *   shared  objects that did not fit into what was left of the thread's allocation context. One stands for all that was
 *           allocated since the last one. A larger object is met the more often the larger it is, as it should be.
 *   lone    objects that always come here: finalizable, pinned, uninitialised, larger than a context. They stand for
 *           themselves, and the shared stratum's counter passes them over.
 *
 * What keeps the shared stratum unbiased:
 *   - Its place is the middle of the object: contexts end at a place that has nothing to do with what lies there, on
 *     the average in its middle. Its beginning would favour small objects, its end large ones.
 *   - The first object after a context was broken off (by a collection, by a larger lone object) was not met for its
 *     size; its bytes go to the next one.
 *   - Where contexts are broken off often, those that come to their end are the ones with few, large objects: these are
 *     refused now and then (accepted()), and what they would have stood for goes to the next one.
 *
 * A program that allocates in lock-step with its contexts (objects of one size in turn, that fill 8 KiB exactly) shows
 * only the object at the seam; totals are right all the same.
 *
 * Runs in cooperative mode: no collection can start until it returns, so it must not block or call managed code.
 */
#include "runtime.h"

#define FLAGS_OF_CONTEXT 14u /* has references, alignment on 32 bits: say nothing of how it is made */
#define CONTEXT_BYTES    8192
#define BREAKING_BYTES   1024  /* may leave a context that is shorter than usual, or none */
#define LARGE_BYTES      85000 /* never in a context */
#define RECENT_BYTES     (1u << 20)
#define COIN             65536u
#define GAP_BYTES        16
#define MISFITS_MOST     64

EP_RUNTIME_FUNCTION void *__real_RhpGcAlloc(const struct ep_dotnet_type *type, uint32_t flags, uintptr_t elements,
                                            const uintptr_t *frame);
void *__wrap_RhpGcAlloc(const struct ep_dotnet_type *type, uint32_t flags, uintptr_t elements, const uintptr_t *frame);

EP_RUNTIME_FUNCTION void __real_RhAllocateNewArray(const struct ep_dotnet_type *type, uint32_t elements, uint32_t flags,
                                                   void **array);
void __wrap_RhAllocateNewArray(const struct ep_dotnet_type *type, uint32_t elements, uint32_t flags, void **array);

/* Cooperative mode from preemptive mode and back, as at a call from C into managed code. */
EP_RUNTIME_FUNCTION void RhpReversePInvoke(void *frame);
EP_RUNTIME_FUNCTION void RhpReversePInvokeReturn(void *frame);

/* In bytes of this thread's counter: where the shared stratum stands, and where it has to be looked at again. 0: not
 * watching. */
struct watcher {
    uint64_t stands_at, look_at;
    unsigned stops;        /* ep_dotnet_stops when the thread got its context */
    uint32_t broken, over; /* contexts that were broken off lately, over so many bytes of the shared stratum */
    uint32_t misfits, watched;
    uint32_t usual; /* size of objects that were met lately */
    uint64_t owed;  /* what an object that was refused would have stood for */
    struct ep_stratum shared, lone, coin;
};
static _Thread_local struct watcher mine;

/* Sizes are not what they should be: a runtime with other structures. */
static atomic_bool misfit;

struct allocation {
    const struct ep_dotnet_type *type;
    uint64_t size, stands_for;
};

/* For its own sake, or because the live heap follows what is met. */
static bool wanted(void)
{
    return (atomic_load_explicit(&ep_hook_kinds, memory_order_relaxed) &
            (EP_KIND_BIT(EP_KIND_ALLOC) | EP_KIND_BIT(EP_KIND_LIVE))) != 0;
}

static bool works(void)
{
    return RhGetAllocatedBytesForCurrentThread && !atomic_load_explicit(&misfit, memory_order_relaxed);
}

static uint64_t size_of(const struct ep_dotnet_type *type, uintptr_t elements)
{
    const uint64_t word = sizeof(uintptr_t);
    uint64_t size = type->base_size;

    if (type->flags & EP_TYPE_HAS_ELEMENTS)
        size += (uint64_t)(type->flags & 0xffff) * elements;
    return (size + word - 1) & ~(word - 1);
}

/* Its frame is one of those that .skip leaves out. */
static __attribute__((noinline)) void record(const struct allocation *allocation, struct ep_stratum *stratum,
                                             uint32_t token, const struct ep_context *context)
{
    const struct ep_hook_event event = {
        .kind = EP_KIND_ALLOC,
        .type = (uintptr_t)allocation->type,
        .value = allocation->stands_for,
        .count = ep_stratum_count(stratum, allocation->stands_for, allocation->size),
        .token = token,
        .skip = context ? 0 : 2,
        .context = context,
    };

    if (ep_hook_event(&event) < 0 && token)
        ep_live_drop(token);
}

/* Bytes that can go by without one that is chosen. */
static uint64_t quiet(const struct ep_stratum *stratum)
{
    bool ahead = stratum->chosen >= stratum->position;

    return (ahead ? stratum->chosen : stratum->length) - stratum->position;
}

static void note_bytes(struct watcher *me, uint64_t bytes)
{
    me->over += (uint32_t)(bytes < RECENT_BYTES ? bytes : RECENT_BYTES);
    if (me->over >= RECENT_BYTES) {
        me->over /= 2;
        me->broken /= 2;
    }
}

/* Whether an object that was met at the end of a context counts: x / (exp(x) - 1) of them, x being how often contexts
 * are broken off in as many bytes as it has. They can be only between objects: seldom where those are large. */
static bool accepted(struct watcher *me, uint64_t size)
{
    me->usual = (uint32_t)((me->usual * UINT64_C(15) + size) / 16);
    float over = (float)me->over + (float)me->broken * (float)me->usual / 2;
    float x = me->over ? (float)me->broken * (float)size / over : 0;
    float share = 1 / (1 + x / 2 * (1 + x / 3 * (1 + x / 4 * (1 + x / 5 * (1 + x / 6)))));

    return ep_stratum_advance(&me->coin, (uint64_t)(share * COIN), COIN) != 0;
}

static uint64_t watch_shared(struct watcher *me, uint64_t middle, uint64_t size, uint64_t period)
{
    uint64_t bytes = middle - me->stands_at, first = quiet(&me->shared), stands_for;

    note_bytes(me, bytes);
    me->stands_at = middle;
    if (bytes > first) { /* in two steps, each shorter than a period: only that is laid end to end */
        (void)ep_stratum_advance(&me->shared, first, period);
        bytes -= first;
    }
    stands_for = me->owed + ep_stratum_advance(&me->shared, bytes, period);
    me->owed = stands_for && !accepted(me, size) ? stands_for : 0;
    return me->owed ? 0 : stands_for;
}

/* The context of this thread ended for another reason than the next object's size. */
static void broken_off(struct watcher *me)
{
    me->stops = atomic_load_explicit(&ep_dotnet_stops, memory_order_relaxed) - 1;
    me->broken++;
}

/* The shared stratum passes an object over. */
static void pass_over(struct watcher *me, uint64_t size)
{
    me->stands_at += size;
    me->look_at += size;
    if (size >= BREAKING_BYTES && size < LARGE_BYTES)
        broken_off(me);
}

static bool watching(struct watcher *me, uint64_t counter)
{
    if (!works())
        return false;
    if (me->look_at == 0) {
        me->stands_at = counter;
        me->stops = atomic_load_explicit(&ep_dotnet_stops, memory_order_relaxed) - 1;
    }
    return true;
}

/* Now and then the collector adds an object of its own to fill a gap; not nearly always. */
static void check_size(struct watcher *me, uint64_t took, uint64_t size)
{
    if (took - size <= GAP_BYTES)
        me->misfits -= me->misfits > 0;
    else if ((me->misfits += 4) > MISFITS_MOST)
        atomic_store_explicit(&misfit, true, memory_order_relaxed);
}

static bool is_lone(uint32_t flags, uint64_t size)
{
    return (flags & ~FLAGS_OF_CONTEXT) != 0 || size >= CONTEXT_BYTES;
}

static __attribute__((noinline)) void *watch(const struct ep_dotnet_type *type, uint32_t flags, uintptr_t elements,
                                             const uintptr_t *frame)
{
    uint64_t counter = RhGetAllocatedBytesForCurrentThread();
    struct allocation allocation = {.type = type, .size = size_of(type, elements)};
    struct watcher *me = &mine;
    bool lone = is_lone(flags, allocation.size), watched = watching(me, counter);
    bool met_for_size = me->stops == atomic_load_explicit(&ep_dotnet_stops, memory_order_relaxed);

    void *object = __real_RhpGcAlloc(type, flags, elements, frame);
    if (!object || !watched)
        return object;
    uint64_t timed_from = ep_hook_is_timed(++me->watched, me) ? ep_port_uptime_ns() : 0;
    uint64_t period = ep_hook_period(EP_KIND_ALLOC);
    if (lone) {
        allocation.stands_for = ep_stratum_advance(&me->lone, allocation.size, period);
        pass_over(me, allocation.size);
    } else {
        me->stops = atomic_load_explicit(&ep_dotnet_stops, memory_order_relaxed);
        if (met_for_size)
            allocation.stands_for = watch_shared(me, counter + allocation.size / 2, allocation.size, period);
        me->look_at = me->owed ? 1 : me->stands_at + quiet(&me->shared) + 1;
        check_size(me, RhGetAllocatedBytesForCurrentThread() - counter, allocation.size);
    }
    if (allocation.stands_for) {
        struct ep_context context;
        ep_dotnet_frame(frame, &context);
        record(&allocation, lone ? &me->lone : &me->shared, ep_dotnet_follow(object), &context);
    } else if (timed_from) {
        ep_hook_cost(timed_from, EP_HOOK_TIMED_ONE_IN);
    }
    return object;
}

void *__wrap_RhpGcAlloc(const struct ep_dotnet_type *type, uint32_t flags, uintptr_t elements, const uintptr_t *frame)
{
    struct watcher *me = &mine;

    if (!wanted()) {
        me->look_at = 0;
        return __real_RhpGcAlloc(type, flags, elements, frame);
    }
    if (RhGetAllocatedBytesForCurrentThread &&
        me->stops == atomic_load_explicit(&ep_dotnet_stops, memory_order_relaxed)) {
        uint64_t size = size_of(type, elements);
        if (RhGetAllocatedBytesForCurrentThread() + size / 2 < me->look_at && !is_lone(flags, size))
            return __real_RhpGcAlloc(type, flags, elements, frame);
    }
    return watch(type, flags, elements, frame);
}

/* Called from managed code in preemptive mode: the array may move while it is not held. */
static uint32_t follow_array(void *const *array)
{
    uintptr_t frame[4] = {0};

    if (!ep_hook_wants(EP_KIND_LIVE) || !RhpReversePInvoke || !RhpReversePInvokeReturn)
        return 0;
    RhpReversePInvoke(frame);
    uint32_t token = *array ? ep_dotnet_follow(*array) : 0;
    RhpReversePInvokeReturn(frame);
    return token;
}

void __wrap_RhAllocateNewArray(const struct ep_dotnet_type *type, uint32_t elements, uint32_t flags, void **array)
{
    struct allocation allocation = {.type = type, .size = size_of(type, elements)};
    struct watcher *me = &mine;

    __real_RhAllocateNewArray(type, elements, flags, array);
    if (!wanted() || !works())
        return;
    allocation.stands_for = ep_stratum_advance(&me->lone, allocation.size, ep_hook_period(EP_KIND_ALLOC));
    if (me->look_at)
        pass_over(me, allocation.size);
    if (allocation.stands_for)
        record(&allocation, &me->lone, follow_array(array), NULL);
}
