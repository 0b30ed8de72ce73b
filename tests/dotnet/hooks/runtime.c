/* See runtime.h. */
#include "runtime.h"

#include <stdatomic.h>
#include <string.h>

struct object *thrown;
void *thrown_info;
unsigned throws, reverse_calls;
struct heap heap;
static _Thread_local uint64_t allocated;
static struct object made;

static uint64_t size_of(const struct method_table *type, uintptr_t elements)
{
    uint64_t size = type->base_size + (type->flags >> 31 ? (uint64_t)(type->flags & 0xffff) * elements : 0);

    return (size + sizeof(void *) - 1) & ~(uint64_t)(sizeof(void *) - 1);
}

void *RhpGcAlloc(const struct method_table *type, uint32_t flags, uintptr_t elements, const uintptr_t *frame)
{
    (void)flags, (void)frame;
    allocated += size_of(type, elements);
    made.type = type;
    return &made;
}

__attribute__((alias("RhpGcAlloc"))) void *bare_RhpGcAlloc(const struct method_table *, uint32_t, uintptr_t,
                                                           const uintptr_t *);

void RhAllocateNewArray(const struct method_table *type, uint32_t elements, uint32_t flags, void **array)
{
    *array = RhpGcAlloc(type, flags, elements, 0);
}

uint64_t RhGetAllocatedBytesForCurrentThread(void)
{
    return allocated;
}

int64_t RhGetTotalAllocatedBytes(void)
{
    return (int64_t)allocated;
}

void forget_allocated(void)
{
    allocated = 0;
}

void RhHandleSet(void *handle, void *object)
{
    atomic_store((atomic_uintptr_t *)handle, (uintptr_t)object);
}

void RhpReversePInvoke(void *frame)
{
    (void)frame;
    reverse_calls++;
}

void RhpReversePInvokeReturn(void *frame)
{
    (void)frame;
}

static void throw_(struct object *object, void *info)
{
    thrown = object;
    thrown_info = info;
    throws++;
    OnFirstChanceException(object);
}

void RhThrowEx(struct object *object, void *info)
{
    throw_(object, info);
}

void RhThrowHwEx(struct object *object, void *info)
{
    throw_(object, info);
}

void RhRethrow(struct object *object, void *info)
{
    throw_(object, info);
}

void RhGetMemoryInfo(void *info, int which)
{
    uint64_t *words = info;

    (void)which;
    memset(info, 0x5a, 0x110);
    words[5] = heap.committed;
    words[10] = words[11] = 0; /* generation, share of time, flags */
    for (unsigned i = 0; i < 5; i++) {
        words[12 + 4 * i + 2] = heap.size[i];
        words[12 + 4 * i + 3] = heap.fragmented[i];
    }
}

void _ZN15GCToEEInterface9SuspendEEE14SUSPEND_REASON(int reason)
{
    (void)reason;
}

void _ZN15GCToEEInterface9RestartEEEb(bool finished)
{
    (void)finished;
}

void _ZN15GCToEEInterface11GcStartWorkEii(int condemned, int most)
{
    (void)condemned, (void)most;
}

void _ZN15GCToEEInterface6GcDoneEi(int condemned)
{
    (void)condemned;
}
