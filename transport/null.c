/*
 * A transport that accepts and discards every message ("null:"), to measure the cost of profiling itself.
 */
#include <edgeprof/transport.h>

static int null_open(void *state, const struct ep_target *target)
{
    (void)state;
    (void)target;
    return 0;
}

static int null_send(void *state, const struct ep_message *message, const struct ep_deadline *deadline,
                     uint64_t *retry_ns)
{
    (void)state;
    (void)message;
    (void)deadline;
    (void)retry_ns;
    return 0;
}

static void null_close(void *state)
{
    (void)state;
}

const struct ep_transport ep_transport_null = {
    .name = "null",
    .state_size = 0,
    .open = null_open,
    .send = null_send,
    .close = null_close,
};
