/*
 * Checks the user's configuration, fills in defaults, and copies it into the profiler's memory. Parses static tags.
 * ep_start_error() explains every rejected configuration in one line. Environment variables: core/environment/.
 */
#include "core/lifecycle/start.h"
#include "core/deliver/state.h"
#include "core/sample/feature.h"

#include <errno.h>
#include <string.h>

#define RATE_MAX         1000
#define INTERVAL_MIN     100
#define INTERVAL_MAX     3600000
#define INTERVAL_DEFAULT 10000

const char *ep_endpoint_shown(const char *endpoint)
{
    const char *at = endpoint ? strrchr(endpoint, '@') : "(none)";

    return at ? at : endpoint;
}

static int tags_check(const char *tags)
{
    struct ep_tag tag;
    bool error = false;

    for (const char *at = tags; (at = ep_tag_next(at, &tag, &error)) != NULL;) {
    }
    return error ? ep_complain(
                       -EINVAL,
                       "tags (EDGEPROF_TAGS): must be key=value,key=value with keys of letters, digits and _, not ",
                       tags, "")
                 : 0;
}

/* Headers are copied into requests unchanged, so this accepts only complete lines without control characters. */
static bool headers_good(const char *at)
{
    while (at && *at) {
        size_t name = strcspn(at, ": \t\n");
        if (name == 0 || at[name] != ':')
            return false;
        for (; *at && *at != '\n'; at++)
            if ((*at < ' ' && *at != '\t') || *at > '~')
                return false;
        at += *at == '\n';
    }
    return true;
}

static int ranges_check(const struct ep_config *config)
{
    const char *wrong = NULL;

    if (!config->memory)
        wrong = "memory: no buffer given";
    else if (config->memory_size < EP_MEMORY_MIN)
        return ep_refuse(-ENOMEM, "memory_size: less than EP_MEMORY_MIN");
    else if ((unsigned)config->level > EP_LEVEL_HIGH)
        wrong = "level: must be low, medium or high";
    else if (config->kinds & ~EP_KINDS_ALL)
        wrong = "kinds: must be EP_KIND_BIT()s of known kinds";
    else if (config->rate_hz > RATE_MAX)
        wrong = "rate_hz (EDGEPROF_RATE): must be 1 to 1000";
    else if (config->interval_ms && (config->interval_ms < INTERVAL_MIN || config->interval_ms > INTERVAL_MAX))
        wrong = "interval_ms (EDGEPROF_INTERVAL): must be 100 to 3600000";
    else if (!headers_good(config->headers))
        wrong = "headers (EDGEPROF_HEADERS): must be lines Name: value"; /* never quoted: it is a secret */
    return wrong ? ep_refuse(-EINVAL, wrong) : tags_check(config->tags);
}

static const char *string_keep(struct ep *ep, const char *text, size_t *used)
{
    size_t size = strlen(text) + 1;

    if (size > sizeof ep->strings - *used)
        return NULL;
    char *copy = memcpy(ep->strings + *used, text, size);
    *used += size;
    return copy;
}

static int strings_keep(struct ep *ep)
{
    struct ep_config *config = &ep->config;
    size_t used = 0;

    config->service = string_keep(ep, config->service ? config->service : ep->identity.executable, &used);
    config->tags = config->service ? string_keep(ep, config->tags ? config->tags : "", &used) : NULL;
    if (config->tags && config->endpoint) {
        config->endpoint = string_keep(ep, config->endpoint, &used);
        if (!config->endpoint)
            config->tags = NULL;
    }
    return config->tags ? 0 : ep_refuse(-EINVAL, "service, tags and endpoint together are too long");
}

static const char *string_move(const struct ep *ep, const char *text, char *strings)
{
    const uintptr_t at = (uintptr_t)text - (uintptr_t)ep->strings;

    return at < sizeof ep->strings ? strings + at : text;
}

bool ep_settings_copy(struct ep_config *config, char *strings)
{
    const struct ep *ep = ep_hold();

    if (!ep)
        return false;
    *config = ep->config;
    config->flags &= ~(uint32_t)EP_ZERO_MEMORY; /* this run has used it */
    memcpy(strings, ep->strings, sizeof ep->strings);
    config->service = string_move(ep, config->service, strings);
    config->tags = string_move(ep, config->tags, strings);
    config->endpoint = string_move(ep, config->endpoint, strings);
    ep_release();
    return true;
}

int ep_settings_check(const struct ep_config *config)
{
    (void)ep_refuse(0, "");
    int error = ranges_check(config);
    if (error)
        return error;
    if (!config->transport && config->endpoint && !ep_transport_find(config->endpoint))
        return ep_complain(
            -EINVAL,
            "endpoint (EDGEPROF_ENDPOINT): must be http://host[:port], file:///path or, with TLS linked and "
            "set up, https://host[:port]; not ",
            ep_endpoint_shown(config->endpoint), "");
    EP_EACH_FEATURE (at, check)
        if ((error = at.feature->check(config)) != 0)
            return error;
    return 0;
}

int ep_settings_apply(struct ep *ep, const struct ep_config *config)
{
    ep->config = *config;
    int error = strings_keep(ep);
    if (error)
        return error;
    ep->interval_ns = (uint64_t)(config->interval_ms ? config->interval_ms : INTERVAL_DEFAULT) * 1000000u;
    ep->deliver->transport = config->transport  ? config->transport
                             : config->endpoint ? ep_transport_find(ep->config.endpoint)
                                                : NULL;
    if (ep->deliver->transport && ep->deliver->transport->state_size > sizeof ep->deliver->transport_state)
        return ep_complain(-EINVAL, "transport: state larger than EP_TRANSPORT_BYTES: ", ep->deliver->transport->name,
                           "");
    return 0;
}
