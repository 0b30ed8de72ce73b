/*
 * Sizes of the garbage-collected heap, from the runtime's record of its last collection, which GC.GetGCMemoryInfo()
 * shows too. The record is only copied, without a lock. A blocking collection writes it while threads are stopped, so a
 * copy is valid only if none were stopped meanwhile. A background collection writes a second record and switches to it
 * at its end. During a collection the record of the one before is used.
 *
 * A generation excludes its fragmentation, which is a frame below it. Committed memory in no generation is [gc unused].
 * So the sum is the committed memory.
 */
#include <stddef.h>

#include "glue.h"
#include "runtime.h"

#define GENERATIONS      5 /* 0 to 2, large objects, pinned objects */
#define FRAME_FRAGMENTED 25u
#define FRAME_UNUSED     26u
#define ANY_COLLECTION   0

/* RH_GH_MEMORY_INFO, and room for additions of other runtimes. */
struct record {
    uint64_t before[5]; /* loads, limits, sums */
    uint64_t committed;
    uint64_t between[4];
    uint32_t generation, pause;
    uint8_t compacting, concurrent;
    struct {
        _Alignas(8) uint64_t before, fragmented_before, size, fragmented;
    } part[GENERATIONS];
    uint64_t rest[32];
};
_Static_assert(offsetof(struct record, committed) == 0x28 && offsetof(struct record, part) == 0x60 &&
                   offsetof(struct record, rest) == 0x100,
               "the runtime's places");

EP_RUNTIME_FUNCTION void RhGetMemoryInfo(struct record *record, int which);

#define ODD_MOST 2u /* a background collection may have switched records in the middle of one copy */

static struct record last; /* this and the next are used by the collect thread only */
static unsigned odd;

/* Returns true if the numbers can be those of a heap: nothing before the first collection, too. */
static bool is_plausible(const struct record *now)
{
    uint64_t used = 0;

    for (unsigned i = 0; i < GENERATIONS; i++) {
        used += now->part[i].size;
        if (now->part[i].size > now->committed * 2 || now->part[i].fragmented > now->committed * 2)
            return false;
    }
    return now->generation < GENERATIONS && now->compacting <= 1 && now->concurrent <= 1 && used <= now->committed * 2;
}

/* Copies the record, unless it may be incomplete. */
static void record_copy(void)
{
    struct record now = {0};
    unsigned stops = atomic_load(&ep_dotnet_stops);

    if (atomic_load(&ep_dotnet_stopped) || ep_dotnet_refuses(EP_KIND_HEAP))
        return;
    RhGetMemoryInfo(&now, ANY_COLLECTION);
    atomic_thread_fence(memory_order_acquire);
    if (atomic_load(&ep_dotnet_stopped) || atomic_load(&ep_dotnet_stops) != stops)
        return;
    if (is_plausible(&now)) {
        last = now;
        odd = 0;
    } else if (++odd == ODD_MOST)
        ep_dotnet_refuse(EP_KIND_HEAP, "RH_GH_MEMORY_INFO has another layout");
}

static unsigned read_sizes(struct ep_heap_part part[EP_HEAP_PARTS])
{
    static const uint8_t frames[GENERATIONS] = {17, 18, 19, 23, 24}; /* [gc gen0] to [gc poh] */
    uint64_t used = 0;

    record_copy();
    if (ep_dotnet_refuses(EP_KIND_HEAP))
        return 0;
    for (unsigned i = 0; i < GENERATIONS; i++) {
        uint64_t size = last.part[i].size, fragmented = last.part[i].fragmented;
        fragmented = fragmented < size ? fragmented : size;
        part[2 * i] = (struct ep_heap_part){.frame = frames[i], .bytes = size - fragmented};
        part[2 * i + 1] = (struct ep_heap_part){.frame = frames[i], .inner = FRAME_FRAGMENTED, .bytes = fragmented};
        used += size;
    }
    part[2 * GENERATIONS] =
        (struct ep_heap_part){.frame = FRAME_UNUSED, .bytes = last.committed > used ? last.committed - used : 0};
    return 2 * GENERATIONS + 1;
}

uint64_t ep_dotnet_heap_in_use(void)
{
    uint64_t used = 0;

    if (!RhGetMemoryInfo || ep_dotnet_refuses(EP_KIND_HEAP))
        return 0;
    record_copy();
    for (unsigned i = 0; i < GENERATIONS; i++)
        if (last.part[i].fragmented < last.part[i].size)
            used += last.part[i].size - last.part[i].fragmented;
    return used;
}

void ep_dotnet_heap_attach(void)
{
    if (RhGetMemoryInfo)
        ep_heap_attach(read_sizes);
    else
        ep_dotnet_refuse(EP_KIND_HEAP, "the runtime has no RhGetMemoryInfo");
}
