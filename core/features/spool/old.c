/*
 * A second endpoint for pprofs that the first one's receiver refuses as too old, such as those of an outage. Only
 * programs that call ep_endpoint_old() link this. It is a transport in front of two, of which one at a time is open, so
 * both need the memory of one.
 *
 *   ep_deliver_try -> old_send -> end_send -> end_open, the transport of the endpoint
 *
 * Not for compact messages: they refer to earlier ones, so a segment cannot be divided between two receivers.
 */
#include "core/deliver/deliver.h"

#include <errno.h>
#include <string.h>

#define OLD_NS      3600000000000u /* from this age on the first is not asked: what Pyroscope accepts */
#define DOUBTFUL_NS 600000000000u  /* a refusal may mean the age: clocks differ, and a limit may be lower */
#define PATH_BYTES  512u

struct end {
    const struct ep_transport *transport;
    const struct ep_target *target;
};

static struct {
    struct end first, second;
    const struct end *open; /* NULL: none */
    struct ep_target target;
    char endpoint[PATH_BYTES];
} old;

static void end_close(void *state)
{
    if (old.open && old.open->transport->close)
        old.open->transport->close(state);
    old.open = NULL;
    ep_apart = false;
}

static int end_open(void *state, const struct end *end)
{
    if (old.open == end)
        return 0;
    end_close(state);
    memset(state, 0, EP_TRANSPORT_BYTES);
    int error = end->transport->open(state, end->target);
    old.open = error ? NULL : end;
    return error;
}

static int old_open(void *state, const struct ep_target *target)
{
    old.open = NULL;
    old.first.target = target;
    old.target = (struct ep_target){.endpoint = old.endpoint, .push = target->push};
    old.second.target = &old.target;
    return end_open(state, &old.first);
}

static int end_send(void *state, const struct end *end, const struct ep_message *message,
                    const struct ep_deadline *deadline, uint64_t *retry_ns)
{
    int error = end_open(state, end);

    return error ? error : end->transport->send(state, message, deadline, retry_ns);
}

/* The age of the profile's start, as servers count it; 0: not known. */
static uint64_t age_of(const struct ep_message *message)
{
    uint64_t now = ep_port_unix_ns();

    return message->start_unix_ns && now > message->start_unix_ns ? now - message->start_unix_ns : 0;
}

/* Without a spool the first decides: in memory new profiles would wait behind an old one while the second is down. So
 * the first is asked at any age, and what both have not taken is lost as refused by the first. */
static int old_send(void *state, const struct ep_message *message, const struct ep_deadline *deadline,
                    uint64_t *retry_ns)
{
    uint64_t age = age_of(message);
    const bool is_kept = EP_HAS_FEATURE(deliver); /* a spool keeps what was not sent */

    ep_apart = false;
    int error = age < OLD_NS || !is_kept ? end_send(state, &old.first, message, deadline, retry_ns) : -EBADMSG;
    if (error != -EBADMSG || age < DOUBTFUL_NS)
        return error;
    old.target.service = old.first.target->service;
    old.target.tags = old.first.target->tags;
    error = end_send(state, &old.second, message, deadline, retry_ns);
    ep_apart = true;
    if (error == 0 || error == -EMSGSIZE || is_kept)
        return error;
    *retry_ns = 0;
    return -EBADMSG;
}

/* The second's status says nothing about the token, which is the first's. */
static unsigned old_answer(const void *state, const char **why)
{
    *why = "";
    if (old.open != &old.first)
        return 0;
    return old.open->transport->answer ? old.open->transport->answer(state, why) : 0;
}

static struct ep_transport ends;

/* Opens the second to check its endpoint; ep_start() would take a wrong one for the first. */
static int second_check(const struct ep_config *config, const struct ep_transport *transport, const char *endpoint)
{
    _Alignas(8) uint8_t state[EP_TRANSPORT_BYTES] = {0};
    const struct ep_target target = {.endpoint = endpoint, .push = config->push};

    if (!transport || !transport->open)
        return -EINVAL;
    int error = transport->open(state, &target);
    if (!error && transport->close)
        transport->close(state);
    return error;
}

static const char *config_error(const struct ep_config *config, const char *endpoint)
{
    if (!config->endpoint || config->transport)
        return "EDGEPROF_ENDPOINT_OLD: there is no endpoint for new profiles";
    if (!EP_HAS_FEATURE(convert))
        return "EDGEPROF_ENDPOINT_OLD: for the format pprof only";
    if (strlen(endpoint) >= sizeof old.endpoint)
        return "EDGEPROF_ENDPOINT_OLD: more than 511 characters";
    return NULL;
}

int ep_endpoint_old(struct ep_config *config, const char *endpoint)
{
    (void)ep_refuse(0, "");
    endpoint = endpoint ? endpoint : ep_env_text("EDGEPROF_ENDPOINT_OLD");
    if (!endpoint)
        return 0;
    if (ep_running())
        return ep_refuse(-EALREADY, "EDGEPROF_ENDPOINT_OLD: the profiler is running");
    const char *why = config_error(config, endpoint);
    if (why)
        return ep_refuse(-EINVAL, why);
    old.first.transport = ep_transport_find(config->endpoint);
    old.second.transport = ep_transport_find(endpoint);
    if (!old.first.transport)
        return 0; /* ep_start() refuses it */
    if (second_check(config, old.second.transport, endpoint))
        return ep_refuse(-EINVAL, "EDGEPROF_ENDPOINT_OLD: must be an endpoint like EDGEPROF_ENDPOINT");
    memcpy(old.endpoint, endpoint, strlen(endpoint) + 1);
    ends = (struct ep_transport){.name = old.first.transport->name,
                                 .state_size = EP_TRANSPORT_BYTES,
                                 .open = old_open,
                                 .send = old_send,
                                 .close = end_close,
                                 .answer = old_answer};
    config->transport = &ends;
    return 1;
}
