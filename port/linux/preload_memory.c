/*
 * The preload library with memory hooks: what it needs beyond the other one. The other one leaves malloc() alone.
 */
#include <edgeprof/edgeprof.h>
#include "preload.h"

/* Before preload.c's constructor starts the profiler. */
__attribute__((constructor(101))) static void memory_begin(void)
{
    if (ep_preload_chosen())
        ep_preload_more = (struct ep_preload_more){.kinds = EP_KIND_BIT(EP_KIND_ALLOC) | EP_KIND_BIT(EP_KIND_LIVE)};
}
