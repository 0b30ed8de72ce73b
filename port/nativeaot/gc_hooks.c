/*
 * Garbage collections, by wrapping the collector's four calls into the runtime: threads are stopped (SuspendEE), a
 * collection of a generation begins and ends (GcStartWork, GcDone), threads go on (RestartEE). One collection at a
 * time, and all four come from the thread that collects.
 *
 * A pause is from the moment that threads are asked to stop until they may run. It counts for the generation whose
 * collection began in it; one in which a collection began but did not end, or that continues one, is a background
 * collection's. Threads are stopped for other reasons, too: those are no pauses of the collector.
 * The stack is that of the thread that made the pause: with the workstation collector, of the allocation that was one
 * too many.
 */
#include "runtime.h"

#define FRAME_GC0        17u /* [gc gen0] and those after it in core/proto/compact.proto */
#define FRAME_BACKGROUND 20u
#define NO_GENERATION    (-1)
#define GENERATIONS      3

#define SUSPEND_FOR_BACKGROUND 6 /* SUSPEND_FOR_GC_PREP of SUSPEND_REASON */

/* GCToEEInterface::SuspendEE(SUSPEND_REASON), RestartEE(bool), GcStartWork(int, int), GcDone(int) */
#define SUSPEND(prefix) prefix##_ZN15GCToEEInterface9SuspendEEE14SUSPEND_REASON
#define RESTART(prefix) prefix##_ZN15GCToEEInterface9RestartEEEb
#define START(prefix)   prefix##_ZN15GCToEEInterface11GcStartWorkEii
#define DONE(prefix)    prefix##_ZN15GCToEEInterface6GcDoneEi

EP_RUNTIME_FUNCTION void SUSPEND(__real_)(int reason);
EP_RUNTIME_FUNCTION void RESTART(__real_)(bool finished);
EP_RUNTIME_FUNCTION void START(__real_)(int condemned, int most);
EP_RUNTIME_FUNCTION void DONE(__real_)(int condemned);
void SUSPEND(__wrap_)(int reason);
void RESTART(__wrap_)(bool finished);
void START(__wrap_)(int condemned, int most);
void DONE(__wrap_)(int condemned);

atomic_uint ep_dotnet_stops = 1, ep_dotnet_collections;
atomic_bool ep_dotnet_stopped;

static struct ep_stratum stratum;
static uint64_t stopped_at; /* the collecting thread's, as the next three */
static int began = NO_GENERATION;
static bool ended, preparing;

void SUSPEND(__wrap_)(int reason)
{
    uint64_t now = ep_hook_wants(EP_KIND_GC) ? ep_port_uptime_ns() : 0;

    SUSPEND(__real_)(reason);
    atomic_store(&ep_dotnet_stopped, true);
    preparing = reason == SUSPEND_FOR_BACKGROUND;
    stopped_at = now; /* nobody else stops threads until this one has let them go */
    began = NO_GENERATION;
    ended = false;
}

void START(__wrap_)(int condemned, int most)
{
    began = condemned;
    START(__real_)(condemned, most);
}

void DONE(__wrap_)(int condemned)
{
    ended = true;
    (void)atomic_fetch_add_explicit(&ep_dotnet_collections, 1, memory_order_relaxed);
    DONE(__real_)(condemned);
}

void RESTART(__wrap_)(bool finished)
{
    bool background = began == NO_GENERATION || began >= GENERATIONS || !ended;
    unsigned frame = background ? FRAME_BACKGROUND : FRAME_GC0 + (unsigned)began;
    uint64_t since = stopped_at, count = 0;

    (void)atomic_fetch_add_explicit(&ep_dotnet_stops, 1, memory_order_relaxed);
    atomic_store(&ep_dotnet_stopped, false);
    if (ep_hook_wants(EP_KIND_GC) && since && (began != NO_GENERATION || ended || preparing))
        count = ep_stratum_advance(&stratum, 1, ep_hook_period(EP_KIND_GC));
    uint64_t pause = count ? ep_port_uptime_ns() - since : 0;
    RESTART(__real_)(finished);
    if (count == 0)
        return;
    const struct ep_hook_event event = {
        .kind = EP_KIND_GC, .frame = frame, .count = (uint32_t)count, .value = pause * count, .skip = 1};
    (void)ep_hook_event(&event);
}
