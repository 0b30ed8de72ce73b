/*
 * The live heap's weak references: handles that C# creates once (RuntimeHooks.cs), because creating one may block.
 * Afterwards they are only set to other objects. A handle is the address of a word that the collector updates and
 * clears when the object is gone; core/features/live/live.c reads it.
 */
#include "runtime.h"
#include "glue.h"

#include <errno.h>

EP_RUNTIME_FUNCTION void RhHandleSet(void *handle, void *object);
EP_RUNTIME_FUNCTION int64_t RhGetTotalAllocatedBytes(void);

static struct ep_live_place *table; /* EP_DOTNET_LIVE_PLACES */
static unsigned table_number;

static uint64_t allocated(void)
{
    return RhGetTotalAllocatedBytes ? (uint64_t)RhGetTotalAllocatedBytes() : UINT64_MAX;
}

int ep_dotnet_live_attach(void *const *handles, uint32_t count)
{
    static struct ep_live_table live = {.places = EP_DOTNET_LIVE_PLACES,
                                        .collections = &ep_dotnet_collections,
                                        .allocated = allocated,
                                        .in_use = ep_dotnet_heap_in_use};

    if (count != EP_DOTNET_LIVE_PLACES)
        return -EINVAL;
    if (!RhHandleSet) {
        ep_dotnet_refuse(EP_KIND_LIVE, "the runtime has no RhHandleSet");
        return -ENOSYS;
    }
    live.place = table = ep_dotnet_memory_map(EP_DOTNET_LIVE_PLACES * sizeof *table);
    if (table == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; i < count; i++)
        table[i].object = handles[i];
    int number = ep_live_attach(&live);
    table_number = number > 0 ? (unsigned)number : 0;
    return number < 0 ? number : 0;
}

bool ep_dotnet_live_check(void *object)
{
    void *handle = table != NULL ? (void *)(uintptr_t)table[0].object : NULL;

    if (!handle)
        return true; /* not attached: nothing is followed */
    if (!ep_dotnet_is_readable((uintptr_t)handle))
        return false;
    RhHandleSet(handle, object);
    const bool is_address = atomic_load(table[0].object) == (uintptr_t)object;
    RhHandleSet(handle, NULL);
    return is_address;
}

uint32_t ep_dotnet_follow(void *object)
{
    uint32_t token = ep_dotnet_refuses(EP_KIND_LIVE) ? 0 : ep_live_take(table_number);

    if (token)
        RhHandleSet((void *)(uintptr_t)table[EP_LIVE_PLACE(token)].object, object);
    return token;
}
