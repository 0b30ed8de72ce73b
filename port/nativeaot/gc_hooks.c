/*
 * Garbage collections: wraps the collector's four calls into the runtime. They stop threads (SuspendEE), begin and end
 * the collection of a generation (GcStartWork, GcDone), and resume threads (RestartEE). There is one collection at a
 * time, and all four calls are on the thread that collects.
 *
 * A pause lasts from the request to stop until threads may run. It counts for the generation whose collection began in
 * it. A pause in which a collection began but did not end, or continued, belongs to a background collection. Other
 * stops of threads are not recorded. The stack is that of the thread that caused the pause; with the workstation
 * collector, of the allocation that triggered it.
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
/* Linked in programs that have AsyncProbe.cs (EdgeProfAwaited). */
extern __typeof__(ep_dotnet_tasks_walk) ep_dotnet_tasks_walk __attribute__((weak));

void DONE(__wrap_)(int condemned);

atomic_uint ep_dotnet_stops = 1, ep_dotnet_collections;
atomic_bool ep_dotnet_stopped;

static struct ep_stratum stratum;
static uint64_t stopped_at; /* this and the next three are used by the collecting thread only */
static int began = NO_GENERATION;
static bool ended, preparing;

void SUSPEND(__wrap_)(int reason)
{
    uint64_t now = ep_hook_wants(EP_KIND_GC) ? ep_port_uptime_ns() : 0;

    SUSPEND(__real_)(reason);
    atomic_store(&ep_dotnet_stopped, true);
    preparing = reason == SUSPEND_FOR_BACKGROUND;
    stopped_at = now; /* no other thread stops threads before this one resumes them */
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
    if (condemned == GENERATIONS - 1 && began == condemned && atomic_load(&ep_dotnet_stopped) && ep_dotnet_tasks_walk)
        ep_dotnet_tasks_walk();
}

void RESTART(__wrap_)(bool finished)
{
    bool background = began == NO_GENERATION || began >= GENERATIONS || !ended;
    unsigned frame = background ? FRAME_BACKGROUND : FRAME_GC0 + (unsigned)began;
    uint64_t since = stopped_at, count = 0;

    (void)atomic_fetch_add_explicit(&ep_dotnet_stops, 1, memory_order_relaxed);
    atomic_store(&ep_dotnet_stopped, false);
    if (!ep_dotnet_refuses(EP_KIND_GC) && ep_hook_wants(EP_KIND_GC) && since &&
        (began != NO_GENERATION || ended || preparing))
        count = ep_stratum_advance(&stratum, 1, ep_hook_period(EP_KIND_GC));
    uint64_t pause = count ? ep_port_uptime_ns() - since : 0;
    RESTART(__real_)(finished);
    if (count == 0)
        return;
    const struct ep_hook_event event = {
        .kind = EP_KIND_GC, .frame = frame, .count = (uint32_t)count, .value = pause * count, .skip = 1};
    (void)ep_hook_event(&event);
}

void ep_dotnet_gc_check(void)
{
    static const char why[] = "the runtime lacks one of GCToEEInterface's SuspendEE, RestartEE, GcStartWork and GcDone";

    if (SUSPEND(__real_) && RESTART(__real_) && START(__real_) && DONE(__real_))
        return;
    ep_dotnet_refuse(EP_KIND_GC, why);
    ep_dotnet_refuse(EP_KIND_LIVE, why); /* it counts collections */
    ep_dotnet_refuse(EP_KIND_HEAP, why); /* it reads while no thread is stopped */
}
