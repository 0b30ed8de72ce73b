/*
 * The environment variables of incidents, in a file of their own for programs that read them and start none.
 */
#include "core/sample/profiler.h"

#include <errno.h>
#include <string.h>

#define LIMITS "EDGEPROF_INCIDENT_LIMITS"

/* Reads digits; 0: none, or too many. */
static uint64_t number_read(const char *digits, size_t size)
{
    uint64_t number = 0;

    for (size_t i = 0; i < size; i++) {
        if (digits[i] < '0' || digits[i] > '9' || number > UINT32_MAX)
            return 0;
        number = number * 10 + (uint64_t)(digits[i] - '0');
    }
    return number;
}

struct limit {
    const char *name;
    uint32_t *value; /* NULL: of memory, in MiB */
};

static int limit_read(struct ep_incident_config *config, const char *pair, size_t size)
{
    const struct limit limits[] = {{"span", &config->span_ms},
                                   {"gc", &config->gc_ms},
                                   {"heartbeat", &config->heartbeat_ms},
                                   {"cpu", &config->cpu_pct},
                                   {"memory", NULL},
                                   {"for", &config->for_ms},
                                   {"exceptions", &config->exceptions},
                                   {"tail", &config->tail_ms},
                                   {"gap", &config->gap_ms},
                                   {"per-day", &config->per_day},
                                   {"day-bytes", &config->day_bytes}};
    const char *digits = memchr(pair, '=', size);
    const size_t name = digits ? (size_t)(digits - pair) : size;
    const uint64_t number = digits ? number_read(digits + 1, size - name - 1) : 0;

    for (size_t i = 0; i < sizeof limits / sizeof *limits && number && number <= UINT32_MAX; i++) {
        if (strlen(limits[i].name) != name || memcmp(limits[i].name, pair, name) != 0)
            continue;
        if (!limits[i].value)
            config->memory_bytes = config->memory_bytes ? config->memory_bytes : number << 20;
        else if (!*limits[i].value)
            *limits[i].value = (uint32_t)number;
        return 0;
    }
    return ep_complain(-EINVAL, LIMITS, ": must be like span=500,gc=200,cpu=90,memory=64, not ", pair);
}

/* A child of the service inherits the variables, and systemd expects nothing of it. */
static bool watchdog_is_ours(void)
{
    const char *pid = ep_env_text("WATCHDOG_PID");
    struct ep_identity identity = {0};

    if (pid)
        ep_port_identity(&identity);
    return !pid || number_read(pid, strlen(pid)) == identity.pid;
}

/* systemd kills a service that says nothing for WATCHDOG_USEC. Its stacks are wanted before that. */
static void watchdog_read(struct ep_incident_config *config)
{
    const char *usec = ep_env_text("WATCHDOG_USEC");
    const uint64_t ms = usec && watchdog_is_ours() ? number_read(usec, strlen(usec)) / 2000 : 0;

    if (!config->heartbeat_ms && ms)
        config->heartbeat_ms = ms < UINT32_MAX ? (uint32_t)ms : UINT32_MAX;
}

int ep_incident_from_env(struct ep_incident_config *config)
{
    const char *on = ep_env_text("EDGEPROF_INCIDENT"), *list = ep_env_text(LIMITS);

    (void)ep_refuse(0, "");
    if (on && strcmp(on, "1") != 0 && strcmp(on, "0") != 0)
        return ep_complain(-EINVAL, "EDGEPROF_INCIDENT", ": must be 1 or 0, not ", on);
    for (const char *at = list; at && *at;) {
        const size_t size = strcspn(at, ",");
        const int error = limit_read(config, at, size);
        if (error < 0)
            return error;
        at += size + (at[size] == ',');
    }
    watchdog_read(config);
    return on && *on == '1';
}
