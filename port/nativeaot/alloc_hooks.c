/*
 * Allocations: wraps the function that all allocators of the runtime call if they cannot just advance a pointer. That
 * is about once in 8 KiB a thread, and for objects always allocated there. Runs in cooperative mode: no collection can
 * start before it returns, so it must not block or call managed code.
 *
 *   __wrap_RhpGcAlloc -> watch_alloc -> watch_shared -> is_accepted | pass_over -> record_alloc
 *   __wrap_RhAllocateNewArray -> pass_over, record_alloc
 *   ep_dotnet_alloc_check -> C#'s allocate -> __wrap_RhpGcAlloc -> probe_alloc -> frame_wrong, is_bytes
 *
 * Each thread has two strata, so that no byte counts twice. `shared`: objects that did not fit into the rest of the
 * thread's allocation context; each stands for all bytes since the last one. `lone`: objects that always come here
 * (finalizable, pinned, uninitialised, larger than a context); they stand for themselves.
 */
#include "glue.h"
#include "runtime.h"

#define FLAGS_OF_CONTEXT 14u /* has references, alignment on 32 bits: irrelevant for how it is allocated */
#define CONTEXT_BYTES    8192
#define BREAKING_BYTES   1024  /* may end a context early */
#define LARGE_BYTES      85000 /* such objects are never in a context */
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

/* Linked in programs that have AsyncProbe.cs (EdgeProfAwaited). */
extern __typeof__(ep_dotnet_event) ep_dotnet_event __attribute__((weak));

/* Switches from preemptive to cooperative mode and back, like a call from C into managed code. */
EP_RUNTIME_FUNCTION void RhpReversePInvoke(void *frame);
EP_RUNTIME_FUNCTION void RhpReversePInvokeReturn(void *frame);

/* stands_at, look_at: in bytes of this thread's allocation counter, the position of the shared stratum, and where it
 * must be checked again; look_at 0: not watching. */
/*
 * What keeps the shared stratum unbiased:
 *   - An object's place is its middle, since contexts end on average in the middle of an object. The start would favour
 *     small objects, the end large ones.
 *   - The first object after a context was broken off (by a collection or a larger lone object) was not met because of
 *     its size; its bytes go to the next one.
 *   - Where contexts are often broken off, those that reach their end are the ones with few, large objects. Some of
 *     these are rejected (is_accepted()), and their weight goes to the next one.
 *
 * A program that allocates in lock-step with its contexts (objects of one size that fill 8 KiB exactly) shows only the
 * object at the boundary; totals are still right.
 */
struct watcher {
    uint64_t stands_at, look_at;
    unsigned stops;        /* ep_dotnet_stops when the thread got its context */
    uint32_t broken, over; /* recently broken-off contexts, and the bytes of the shared stratum in that time */
    uint32_t misfits;
    struct ep_hook_timer timer;
    uint32_t usual; /* recent mean size of objects met */
    uint64_t owed;  /* weight of rejected objects */
    struct ep_stratum shared, lone, coin;
    struct probe *probe; /* while ep_dotnet_alloc_check() runs: no profiler does yet */
};
_Static_assert(sizeof(struct watcher) <= EP_PART_ALLOCATIONS_BYTES, "room in a thread's memory");

/* NULL: there is no memory for it. */
static struct watcher *watcher_here(void)
{
    return ep_port_thread_part(EP_PART_ALLOCATIONS);
}

struct allocation {
    const struct ep_dotnet_type *type;
    uint64_t size, stands_for;
};

/* Also wanted by the live heap, which follows sampled objects. */
static bool alloc_is_wanted(void)
{
    return (atomic_load_explicit(&ep_hook_kinds, memory_order_relaxed) &
            (EP_KIND_BIT(EP_KIND_ALLOC) | EP_KIND_BIT(EP_KIND_LIVE))) != 0;
}

static bool is_usable(void)
{
    return RhGetAllocatedBytesForCurrentThread && !ep_dotnet_refuses(EP_KIND_ALLOC);
}

/* The live heap follows sampled objects. */
static void alloc_refuse(const char *why)
{
    ep_dotnet_refuse(EP_KIND_ALLOC, why);
    ep_dotnet_refuse(EP_KIND_LIVE, why);
}

static uint64_t size_of(const struct ep_dotnet_type *type, uintptr_t elements)
{
    const uint64_t word = sizeof(uintptr_t);
    uint64_t size = type->base_size;

    if (type->flags & EP_TYPE_HAS_ELEMENTS)
        size += (uint64_t)(type->flags & 0xffff) * elements;
    return (size + word - 1) & ~(word - 1);
}

/* .skip omits this function's own frame. */
static __attribute__((noinline)) void record_alloc(const struct allocation *allocation, struct ep_stratum *stratum,
                                                   uint32_t token, const struct ep_registers *registers)
{
    const struct ep_hook_event event = {
        .kind = EP_KIND_ALLOC,
        .type = (uintptr_t)allocation->type,
        .value = allocation->stands_for,
        .count = ep_stratum_count(stratum, allocation->stands_for, allocation->size),
        .token = token,
        .skip = registers ? 0 : 2,
        .registers = registers,
    };

    if ((registers && ep_dotnet_event ? ep_dotnet_event(&event) : ep_hook_event(&event)) < 0 && token)
        ep_live_drop(token);
}

/* The number of bytes until the next chosen one. */
static uint64_t bytes_to_chosen(const struct ep_stratum *stratum)
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

/* Decides whether an object met at the end of a context counts: x / (exp(x) - 1) of them do. x is the number of
 * broken-off contexts in as many bytes as the object has. Contexts break off only between objects, so rarely among
 * large ones. */
static bool is_accepted(struct watcher *me, uint64_t size)
{
    me->usual = (uint32_t)((me->usual * UINT64_C(15) + size) / 16);
    float over = (float)me->over + (float)me->broken * (float)me->usual / 2;
    float x = me->over ? (float)me->broken * (float)size / over : 0;
    float share = 1 / (1 + x / 2 * (1 + x / 3 * (1 + x / 4 * (1 + x / 5 * (1 + x / 6)))));

    return ep_stratum_advance(&me->coin, (uint64_t)(share * COIN), COIN) != 0;
}

/* The bytes since the last call belong to many objects and may cover several strata, so they are laid end to end. */
static uint64_t watch_shared(struct watcher *me, uint64_t middle, uint64_t size, uint64_t period)
{
    uint64_t bytes = middle - me->stands_at, stands_for;

    note_bytes(me, bytes);
    me->stands_at = middle;
    stands_for = me->owed + ep_stratum_lay(&me->shared, bytes, period);
    me->owed = stands_for && !is_accepted(me, size) ? stands_for : 0;
    return me->owed ? 0 : stands_for;
}

/* This thread's context ended for another reason than the next object's size. */
static void broken_off(struct watcher *me)
{
    me->stops = atomic_load_explicit(&ep_dotnet_stops, memory_order_relaxed) - 1;
    me->broken++;
}

/* Makes the shared stratum skip an object. */
static void pass_over(struct watcher *me, uint64_t size)
{
    me->stands_at += size;
    me->look_at += size;
    if (size >= BREAKING_BYTES && size < LARGE_BYTES)
        broken_off(me);
}

static bool watch_begin(struct watcher *me, uint64_t counter)
{
    if (!is_usable())
        return false;
    if (me->look_at == 0) {
        me->stands_at = counter;
        me->stops = atomic_load_explicit(&ep_dotnet_stops, memory_order_relaxed) - 1;
    }
    return true;
}

/* Sometimes the collector adds an object of its own to fill a gap, but not nearly always. */
static void check_size(struct watcher *me, uint64_t took, uint64_t size)
{
    if (took - size <= GAP_BYTES)
        me->misfits -= me->misfits > 0;
    else if ((me->misfits += 4) > MISFITS_MOST)
        alloc_refuse("the sizes of objects differ from what the runtime counts");
}

static bool is_lone(uint32_t flags, uint64_t size)
{
    return (flags & ~FLAGS_OF_CONTEXT) != 0 || size >= CONTEXT_BYTES;
}

static __attribute__((noinline)) void *watch_alloc(struct watcher *me, const struct ep_dotnet_type *type,
                                                   uint32_t flags, uintptr_t elements, const uintptr_t *frame)
{
    uint64_t counter = RhGetAllocatedBytesForCurrentThread();
    struct allocation allocation = {.type = type, .size = size_of(type, elements)};
    bool lone = is_lone(flags, allocation.size), watched = watch_begin(me, counter);
    bool met_for_size = me->stops == atomic_load_explicit(&ep_dotnet_stops, memory_order_relaxed);

    void *object = __real_RhpGcAlloc(type, flags, elements, frame);
    if (!object || !watched)
        return object;
    uint64_t timed_from = ep_hook_is_timed(&me->timer) ? ep_port_ticks() : 0;
    uint64_t period = ep_hook_period(EP_KIND_ALLOC);
    if (lone) {
        allocation.stands_for = ep_stratum_advance(&me->lone, allocation.size, period);
        pass_over(me, allocation.size);
    } else {
        me->stops = atomic_load_explicit(&ep_dotnet_stops, memory_order_relaxed);
        if (met_for_size)
            allocation.stands_for = watch_shared(me, counter + allocation.size / 2, allocation.size, period);
        me->look_at = me->owed ? 1 : me->stands_at + bytes_to_chosen(&me->shared) + 1;
        check_size(me, RhGetAllocatedBytesForCurrentThread() - counter, allocation.size);
    }
    if (allocation.stands_for) {
        struct ep_registers registers;
        ep_dotnet_frame(frame, &registers);
        record_alloc(&allocation, lone ? &me->lone : &me->shared, ep_dotnet_follow(object), &registers);
    } else if (timed_from) {
        ep_hook_cost(timed_from, EP_HOOK_TIMED_ONE_IN);
    }
    return object;
}

/* ---- the check at start: managed code of ours allocates, so what the hooks should see is known ---- */

/* A suspension that hijacks the caller, or an object that fills a gap, may spoil one try. */
#define TRIES 3u

struct probe {
    uintptr_t top; /* of the stack that the managed code has */
    const char *wrong;
    bool array, raw; /* seen */
};

static bool returns_to_managed_code(uintptr_t pc)
{
    return !ep_dotnet_managed_start || !ep_dotnet_managed_end || ep_dotnet_is_managed(pc - 1);
}

/* Returns what is wrong, NULL: nothing. Reads only what is known to be readable. */
static const char *frame_wrong(const uintptr_t *frame, uintptr_t top)
{
    struct ep_registers registers;
    const uintptr_t at = (uintptr_t)frame;

    if (at % sizeof at || at <= (uintptr_t)__builtin_frame_address(0) || at >= top || top - at < 16 * sizeof(uintptr_t))
        return "RhpGcAlloc gets no transition frame as its fourth argument";
    ep_dotnet_frame(frame, &registers);
    if (!ep_dotnet_frame_fits(frame, top, &registers) || !returns_to_managed_code(registers.pc))
        return "the transition frame has another layout";
    return NULL;
}

static bool is_bytes(const struct ep_dotnet_type *type)
{
    const uintptr_t at = (uintptr_t)type;

    return at % sizeof(uint32_t) == 0 && ep_dotnet_is_readable(at) && type->flags & EP_TYPE_HAS_ELEMENTS &&
           (type->flags & 0xffff) == 1 && type->base_size >= 2 * sizeof at && type->base_size <= 8 * sizeof at;
}

static __attribute__((noinline)) void *probe_alloc(const struct ep_dotnet_type *type, uint32_t flags,
                                                   uintptr_t elements, const uintptr_t *frame)
{
    struct probe *probe = watcher_here()->probe;
    const uint64_t before = RhGetAllocatedBytesForCurrentThread();
    void *object = __real_RhpGcAlloc(type, flags, elements, frame);

    if (elements != EP_DOTNET_PROBE_ARRAY || probe->array || !object)
        return object;
    probe->array = true;
    probe->wrong = frame_wrong(frame, probe->top);
    if (!is_bytes(type))
        probe->wrong = "a MethodTable has another layout";
    else if (!probe->wrong && RhGetAllocatedBytesForCurrentThread() - before - size_of(type, elements) > GAP_BYTES)
        probe->wrong = "the sizes of objects differ from what the runtime counts";
    if (!probe->wrong && !ep_dotnet_live_check(object))
        ep_dotnet_refuse(EP_KIND_LIVE, "weak handles have another layout");
    return object;
}

void ep_dotnet_alloc_check(void (*allocate)(void))
{
    struct probe probe = {.top = (uintptr_t)__builtin_frame_address(0)};

    if (!__real_RhpGcAlloc || !__real_RhAllocateNewArray || !RhGetAllocatedBytesForCurrentThread) {
        alloc_refuse(!__real_RhpGcAlloc           ? "the runtime has no RhpGcAlloc"
                     : !__real_RhAllocateNewArray ? "the runtime has no RhAllocateNewArray"
                                                  : "the runtime has no RhGetAllocatedBytesForCurrentThread");
        return;
    }
    struct watcher *me = watcher_here();
    if (!me) {
        alloc_refuse("there is no memory for a thread");
        return;
    }
    me->probe = &probe;
    for (unsigned i = 0; i < TRIES && (!probe.array || probe.wrong); i++) {
        probe.array = false;
        probe.wrong = NULL;
        allocate();
    }
    me->probe = NULL;
    if (!probe.array)
        probe.wrong = "the runtime does not call RhpGcAlloc as before";
    else if (!probe.raw && !probe.wrong)
        probe.wrong = "the runtime does not call RhAllocateNewArray as before";
    if (probe.wrong)
        alloc_refuse(probe.wrong);
}

void *__wrap_RhpGcAlloc(const struct ep_dotnet_type *type, uint32_t flags, uintptr_t elements, const uintptr_t *frame)
{
    struct watcher *me = watcher_here();

    if (!me)
        return __real_RhpGcAlloc(type, flags, elements, frame);
    if (!alloc_is_wanted() || ep_dotnet_refuses(EP_KIND_ALLOC)) {
        me->look_at = 0;
        return me->probe ? probe_alloc(type, flags, elements, frame) : __real_RhpGcAlloc(type, flags, elements, frame);
    }
    if (RhGetAllocatedBytesForCurrentThread &&
        me->stops == atomic_load_explicit(&ep_dotnet_stops, memory_order_relaxed)) {
        uint64_t size = size_of(type, elements);
        if (RhGetAllocatedBytesForCurrentThread() + size / 2 < me->look_at && !is_lone(flags, size))
            return __real_RhpGcAlloc(type, flags, elements, frame);
    }
    return watch_alloc(me, type, flags, elements, frame);
}

/* Called from managed code in preemptive mode, in which the array may move. */
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
    struct watcher *me = watcher_here();

    __real_RhAllocateNewArray(type, elements, flags, array);
    if (!me)
        return;
    if (!alloc_is_wanted() || !is_usable()) {
        if (me->probe)
            me->probe->raw |= elements == EP_DOTNET_PROBE_RAW && is_bytes(type);
        return;
    }
    if (!*array) /* no memory: managed code throws */
        return;
    struct allocation allocation = {.type = type, .size = size_of(type, elements)};
    allocation.stands_for = ep_stratum_advance(&me->lone, allocation.size, ep_hook_period(EP_KIND_ALLOC));
    if (me->look_at)
        pass_over(me, allocation.size);
    if (allocation.stands_for)
        record_alloc(&allocation, &me->lone, follow_array(array), NULL);
}
