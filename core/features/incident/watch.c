/*
 * Limits that the collect thread checks itself: CPU time and memory of the process, over some time; pauses of the
 * garbage collector and exceptions, as their samples come.
 */
#include "core/features/incident/incident.h"

#define MS        1000000u
#define SECOND_NS 1000000000u

static struct {
    uint64_t gc_ns, memory, for_ns;
    unsigned cpu_pct, exceptions;
    uint64_t last_ns, last_cpu_ns;          /* at the last look; 0: there was none */
    uint64_t cpu_since_ns, memory_since_ns; /* above the limit since then; 0: it is not, or was noted */
    bool cpu_noted, memory_noted;
    uint64_t second, thrown; /* exceptions in that second of the ticks' clock */
    bool thrown_noted;
} watch;

void ep_watch_begin(const struct ep_incident_config *config)
{
    watch.gc_ns = config->gc_ms * (uint64_t)MS;
    watch.memory = config->memory_bytes;
    watch.cpu_pct = config->cpu_pct;
    watch.exceptions = config->exceptions;
    watch.for_ns = config->for_ms * (uint64_t)MS;
    watch.last_ns = watch.cpu_since_ns = watch.memory_since_ns = watch.second = watch.thrown = 0;
    watch.cpu_noted = watch.memory_noted = watch.thrown_noted = false;
}

/* True once, when `above` has been true for as long as configured. */
static bool lasts(bool above, uint64_t now_ns, uint64_t *since_ns, bool *noted)
{
    if (!above) {
        *since_ns = 0;
        *noted = false;
        return false;
    }
    if (!*since_ns)
        *since_ns = now_ns;
    if (*noted || now_ns - *since_ns < watch.for_ns)
        return false;
    *noted = true;
    return true;
}

static void note(unsigned cause, uint64_t now_ns, uint64_t value, uint64_t limit)
{
    const struct ep_trigger trigger = {.cause = cause, .time_ns = now_ns, .value = value, .limit = limit};

    (void)ep_trigger_note(&trigger);
}

static void cpu_look(uint64_t now_ns)
{
    uint64_t cpu_ns = ep_port_process_cpu_ns(), passed = now_ns - watch.last_ns;

    if (watch.last_ns && passed) {
        uint64_t pct = (cpu_ns - watch.last_cpu_ns) * 100 / passed;
        if (lasts(pct >= watch.cpu_pct, now_ns, &watch.cpu_since_ns, &watch.cpu_noted))
            note(EP_INCIDENT_CPU, now_ns, pct, watch.cpu_pct);
    }
    watch.last_cpu_ns = cpu_ns;
}

uint64_t ep_watch_look(uint64_t now_ns)
{
    uint64_t bytes = 0;

    if (!watch.cpu_pct && !watch.memory)
        return UINT64_MAX;
    if (watch.last_ns && now_ns < watch.last_ns + SECOND_NS)
        return watch.last_ns + SECOND_NS;
    if (watch.cpu_pct)
        cpu_look(now_ns);
    if (watch.memory)
        bytes = ep_port_resident();
    if (watch.memory && lasts(bytes >= watch.memory, now_ns, &watch.memory_since_ns, &watch.memory_noted))
        note(EP_INCIDENT_RESIDENT, now_ns, bytes, watch.memory);
    watch.last_ns = now_ns;
    return now_ns + SECOND_NS;
}

static void exception_look(const struct ep_past_sample *sample)
{
    uint64_t second = (sample->tick << EP_TIME_SHIFT) / SECOND_NS;

    if (second != watch.second) {
        watch.second = second;
        watch.thrown = 0;
        watch.thrown_noted = false;
    }
    watch.thrown += sample->value_ns; /* of exceptions it is their number */
    if (watch.thrown < watch.exceptions || watch.thrown_noted)
        return;
    watch.thrown_noted = true;
    note(EP_INCIDENT_EXCEPTIONS, sample->tick << EP_TIME_SHIFT, watch.thrown, watch.exceptions);
}

void ep_watch_sample(const struct ep_past_sample *sample)
{
    if (sample->kind == EP_KIND_GC && watch.gc_ns && sample->value_ns >= watch.gc_ns)
        note(EP_INCIDENT_GC, sample->tick << EP_TIME_SHIFT, sample->value_ns, watch.gc_ns);
    if (sample->kind == EP_KIND_EXCEPTION && watch.exceptions)
        exception_look(sample);
}
