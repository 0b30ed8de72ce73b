/*
 * Incidents of a .NET program: memory for the history, and its start. C# calls ep_heartbeat(), ep_incident() and the
 * functions of spans directly.
 */
#include "glue.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/mman.h>

#include <edgeprof/edgeprof.h>

static struct {
    void *bytes;
    size_t size;
} history;
static bool on;

/* What an earlier start has mapped serves again; nobody reads it while the profiler does not run. */
static int history_map(size_t size)
{
    if (history.bytes != NULL && history.size >= size)
        return 0;
    void *bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (bytes == MAP_FAILED)
        return -ENOMEM;
    if (history.bytes != NULL)
        (void)munmap(history.bytes, history.size);
    history.bytes = bytes;
    history.size = size;
    return 0;
}

static int history_start(struct ep_incident_config *config, uint64_t size)
{
    if (size > SIZE_MAX / 2)
        return -ENOMEM;
    config->memory_size = size ? (size_t)size : EP_INCIDENT_MEMORY;
    int err = ep_incident_start(NULL); /* the former history, which may move, is not in use */
    if (err == 0)
        err = history_map(config->memory_size);
    config->memory = history.bytes;
    return err == 0 ? ep_incident_start(config) : err;
}

int ep_dotnet_incidents_setup(const struct ep_dotnet_incidents *options)
{
    struct ep_incident_config config = {.tail_ms = options->tail_ms,
                                        .span_ms = options->span_ms,
                                        .gc_ms = options->gc_ms,
                                        .heartbeat_ms = options->heartbeat_ms,
                                        .cpu_pct = options->cpu_pct,
                                        .memory_bytes = options->memory_bytes,
                                        .for_ms = options->for_ms,
                                        .exceptions = options->exceptions,
                                        .gap_ms = options->gap_ms,
                                        .per_day = options->per_day,
                                        .day_bytes = options->day_bytes};
    int asked = ep_incident_from_env(&config);

    if (asked >= 0 && options->enable)
        asked = options->enable == 1;
    on = false;
    if (asked <= 0)
        return asked < 0 ? asked : ep_incident_start(NULL);
    const int err = history_start(&config, options->history_bytes);
    on = err == 0;
    return err;
}

int ep_dotnet_incidents_on(void)
{
    return on;
}
