/*
 * Reads the environment: edgeprof's own variables, then Pyroscope's and OpenTelemetry's variables of the same meaning.
 * For each setting the first one that is set counts; a value set in code wins. docs/configuration.md has the table.
 *
 * ep_config_from_env() reads edgeprof's own variables first: own_read(). It reads Pyroscope's and OpenTelemetry's
 * (others.c, http.c) only if profiles have an endpoint, so a malformed variable of theirs stops no program that
 * did not ask for profiles.
 */
#include "core/environment/environment.h"

#include <errno.h>
#include <string.h>

static int env_number(const char *name, uint32_t *value)
{
    const char *digits = ep_port_env(name);
    uint64_t number = 0;

    if (!digits || *value)
        return 0;
    for (const char *c = digits; *c; c++) {
        if (*c < '0' || *c > '9' || number > UINT32_MAX / 16 || c - digits > 9)
            return ep_complain(-EINVAL, name, ": must be a number, not ", digits);
        number = number * 10 + (uint64_t)(*c - '0');
    }
    if (number == 0)
        return ep_complain(-EINVAL, name, ": must be a positive number, not ", digits);
    *value = (uint32_t)number;
    return 0;
}

static uint32_t kind_find(const char *name, size_t size)
{
    for (unsigned kind = 1; kind < EP_KINDS; kind++)
        if (strlen(ep_kind_name(kind)) == size && memcmp(ep_kind_name(kind), name, size) == 0)
            return EP_KIND_BIT(kind);
    return 0;
}

/* Reads "cpu,alloc". */
static int env_kinds(const char *name, uint32_t *kinds)
{
    const char *list = ep_env_text(name);
    uint32_t found = 0;

    if (!list || *kinds)
        return 0;
    for (const char *at = list;; at++) {
        const size_t size = strcspn(at, ",");
        const uint32_t kind = kind_find(at, size);
        if (!kind)
            return ep_complain(-EINVAL, name, ": must be kinds such as cpu,alloc,lock, not ", list);
        found |= kind;
        at += size;
        if (!*at)
            break;
    }
    *kinds = found;
    return 0;
}

/* The flag is set where the variable is `wanted`. */
static int env_flag_if(const char *name, bool wanted, uint32_t *flags, uint32_t flag)
{
    bool set, on;
    const int error = ep_environment_switch(name, &set, &on);

    if (error == 0 && set && on == wanted)
        *flags |= flag;
    return error;
}

static int env_flag(const char *name, uint32_t *flags, uint32_t flag)
{
    return env_flag_if(name, true, flags, flag);
}

/* ---- edgeprof's own ---- */

static int own_words(struct ep_config *config)
{
    int level, error;

    if ((error = ep_environment_word("EDGEPROF_LEVEL", "low\0medium\0high\0", ": must be low, medium or high, not ",
                                     &level)) < 0)
        return error;
    if (level && config->level == EP_LEVEL_DEFAULT)
        config->level = (enum ep_level)level;
    return 0;
}

/* The clock of CPU samples. */
static int own_clock(struct ep_config *config)
{
    static const uint32_t clocks[] = {0, 0, EP_CLOCK_TICKS, EP_CLOCK_TIMERS, EP_CLOCK_PERF};
    int clock, error = ep_environment_word("EDGEPROF_CLOCK", "auto\0ticks\0timer\0perf\0",
                                           ": must be auto, ticks, timer or perf, not ", &clock);

    if (error == 0 && !(config->flags & EP_CLOCKS))
        config->flags |= clocks[clock];
    return error;
}

static int own_read(struct ep_config *config)
{
    int error;

    if ((error = own_words(config)) < 0)
        return error;
    if ((error = own_clock(config)) < 0)
        return error;
    if ((error = env_number("EDGEPROF_RATE", &config->rate_hz)) < 0)
        return error;
    if ((error = env_number("EDGEPROF_INTERVAL", &config->interval_ms)) < 0)
        return error;
    if ((error = env_number("EDGEPROF_BUDGET", &config->budget_ppm)) < 0)
        return error;
    if ((error = env_kinds("EDGEPROF_KINDS", &config->kinds)) < 0)
        return error;
    if ((error = env_flag("EDGEPROF_THREAD_LABELS", &config->flags, EP_THREAD_LABELS)) < 0)
        return error;
    if ((error = env_flag("EDGEPROF_IDLE_WAITS", &config->flags, EP_IDLE_WAITS)) < 0)
        return error;
    if ((error = env_flag("EDGEPROF_ALL_EVENTS", &config->flags, EP_ALL_EVENTS)) < 0)
        return error;
    if ((error = env_flag_if("EDGEPROF_PIN", false, &config->flags, EP_NO_PIN)) < 0)
        return error;
    if (!config->service)
        config->service = ep_env_text("EDGEPROF_SERVICE");
    if (!config->tags)
        config->tags = ep_env_text("EDGEPROF_TAGS");
    return 0;
}

/* ---- all of it ---- */

/* Returns 1 if a variable has the endpoint. *pyroscope: Pyroscope's variable is used. */
static int endpoint_take(struct ep_config *config, bool *pyroscope)
{
    const char *endpoint = ep_env_text("EDGEPROF_ENDPOINT");
    bool set = false, on = true;

    *pyroscope = false;

    if (!endpoint && (endpoint = ep_env_text("PYROSCOPE_SERVER_ADDRESS")) != NULL) {
        const int error = ep_environment_switch("PYROSCOPE_PROFILING_ENABLED", &set, &on);
        if (error < 0)
            return error;
        if (set && !on)
            endpoint = NULL;
        *pyroscope = endpoint && !config->endpoint;
    }
    if (endpoint && !config->endpoint)
        config->endpoint = endpoint;
    return endpoint != NULL;
}

int ep_config_from_env(struct ep_config *config)
{
    bool from_pyroscope;
    int error;

    (void)ep_complain(0, "", "", "");
    if ((error = own_read(config)) < 0)
        return error;
    const int endpoint = endpoint_take(config, &from_pyroscope);
    const int asked =
        endpoint == 0 ? ep_env_text("EDGEPROF_PULL") != NULL : endpoint; /* or the pull endpoint is requested */
    if (asked < 0 || (!config->endpoint && !config->transport))
        return asked;
    if ((error = ep_environment_headers(config, from_pyroscope)) < 0)
        return error;
    error = ep_environment_others(config);
    return error < 0 ? error : asked;
}
