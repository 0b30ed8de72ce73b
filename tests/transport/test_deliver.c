/*
 * The deliver thread's side of the contract with a transport: the deadline that a send gets, also when a stop comes at
 * the worst moment, and the pause that follows a failure. core/deliver/deliver.c alone, with a clock and dice of our
 * own.
 */

#include "tests/unit/core_rooms.h"
#include "tests/unit/test.h"

#define S UINT64_C(1000000000)

static struct ep_deliver deliver;
static struct ep ep = {.deliver = &deliver};
static uint64_t now;
static uint8_t dice;
static uint64_t stop_at_next_look; /* not 0: a stop with this deadline comes while the clock is read */

static struct {
    int result;
    uint64_t retry_ns;
    uint64_t deadline_ns; /* as seen when the call began */
    uint64_t stop_ns;     /* not 0: a stop with this deadline comes during the call */
    uint64_t shrunk_ns;   /* the deadline after that */
    unsigned sends;
} far;

/* ---- what deliver.c needs ---- */

/* As ep_stop() does it. */
static void stop(uint64_t deadline_ns)
{
    atomic_store(&deliver.stop_deadline_ns, deadline_ns);
    ep_deadline_shrink(&deliver.send_deadline, deadline_ns);
}

uint64_t ep_port_uptime_ns(void)
{
    if (stop_at_next_look)
        stop(stop_at_next_look);
    stop_at_next_look = 0;
    return now;
}

uint64_t ep_port_unix_ns(void)
{
    return 0;
}

uint64_t ep_port_thread_cpu_ns(void)
{
    return 0;
}

void ep_port_random(void *bytes, size_t size)
{
    memset(bytes, dice, size);
}

void ep_port_wait(struct ep_event *event, unsigned seen, uint64_t timeout_ns)
{
    (void)event;
    (void)seen;
    now += timeout_ns;
}

void ep_port_wake(struct ep_event *event)
{
    (void)atomic_fetch_add(&event->value, 1);
}

_Atomic(struct ep *) ep_current = &ep;

void ep_unsampled_read(struct ep *of, unsigned index, struct ep_unsampled *unsampled)
{
    (void)of;
    (void)index;
    (void)unsampled;
}

static int far_send(void *state, const struct ep_message *message, const struct ep_deadline *deadline,
                    uint64_t *retry_ns)
{
    (void)state;
    (void)message;
    far.sends++;
    far.deadline_ns = ep_deadline_ns(deadline);
    if (far.stop_ns)
        stop(far.stop_ns);
    far.shrunk_ns = ep_deadline_ns(deadline);
    if (far.retry_ns)
        *retry_ns = far.retry_ns;
    return far.result;
}

static const struct ep_transport transport = {.name = "test", .send = far_send};

/* One message waits. */
static int setup(void **unused)
{
    static _Alignas(8) uint8_t box[4096];
    uint8_t *data;
    (void)unused;

    memset(&deliver, 0, sizeof deliver);
    memset(&far, 0, sizeof far);
    now = 100 * S;
    dice = 0;
    stop_at_next_look = 0;
    deliver.transport = &transport;
    ep_outbox_init(&deliver.outbox, box, sizeof box);
    assert_true(ep_outbox_room(&deliver.outbox, &data) >= 8);
    (void)ep_outbox_put(&deliver.outbox, &(struct ep_box_header){.size = 8, .samples = 1}, false);
    return 0;
}

/* ---- deadlines ---- */

TEST_WITH(test_ten_seconds, setup, NULL)
{
    assert_int_equal(ep_deliver_round(&ep, UINT64_MAX), 0);
    assert_int_equal(far.deadline_ns, 110 * S);
}

TEST_WITH(test_the_nearer_one_counts, setup, NULL)
{
    assert_int_equal(ep_deliver_round(&ep, 103 * S), 0);
    assert_int_equal(far.deadline_ns, 103 * S);
}

TEST_WITH(test_stop_during_a_send, setup, NULL)
{
    far.stop_ns = 102 * S;
    assert_int_equal(ep_deliver_round(&ep, UINT64_MAX), 0);
    assert_int_equal(far.deadline_ns, 110 * S);
    assert_int_equal(far.shrunk_ns, 102 * S);
}

TEST_WITH(test_stop_never_lengthens_a_send, setup, NULL)
{
    far.stop_ns = 150 * S;
    assert_int_equal(ep_deliver_round(&ep, UINT64_MAX), 0);
    assert_int_equal(far.shrunk_ns, 110 * S);
}

/* After the thread has looked whether a stop is going on, before it has set the send's deadline. */
TEST_WITH(test_stop_just_before_a_send, setup, NULL)
{
    stop_at_next_look = 102 * S;
    assert_int_equal(ep_deliver_round(&ep, UINT64_MAX), 0);
    assert_int_equal(far.sends, 1);
    assert_int_equal(far.deadline_ns, 102 * S);
}

/* A stop ends the pause, and the thread does not outlive the stop's deadline. */
TEST_WITH(test_the_last_attempt, setup, NULL)
{
    far.result = -ECONNREFUSED;
    far.retry_ns = 3600 * S;
    assert_int_equal(ep_deliver_round(&ep, UINT64_MAX), -ECONNREFUSED);
    stop(102 * S);
    ep_deliver_thread();
    assert_int_equal(far.sends, 2);
    assert_int_equal(now, 102 * S);
    assert_false(ep_outbox_empty(&deliver.outbox));
}

/* ---- pauses ---- */

static uint64_t pause_after_failure(void)
{
    far.result = -EAGAIN;
    assert_int_equal(ep_deliver_round(&ep, UINT64_MAX), -EAGAIN);
    uint64_t pause = deliver.retry_at_ns - now;
    unsigned sends = far.sends;
    now = deliver.retry_at_ns - 1;
    assert_int_equal(ep_deliver_round(&ep, UINT64_MAX), -EAGAIN);
    assert_int_equal(far.sends, sends);
    now++;
    return pause;
}

TEST_WITH(test_what_is_asked_is_the_least, setup, NULL)
{
    far.retry_ns = 30 * S;
    for (unsigned d = 0; d < 256; d++) {
        dice = (uint8_t)d;
        uint64_t pause = pause_after_failure();
        assert_in_range(pause, 30 * S, 30 * S + 30 * S / 4);
        assert_true(d == 0 || pause > 30 * S);
    }
}

TEST_WITH(test_nothing_is_asked, setup, NULL)
{
    static const uint64_t least[] = {1 * S, 2 * S, 4 * S, 8 * S, 16 * S, 32 * S, 60 * S, 60 * S};

    for (unsigned i = 0; i < sizeof least / sizeof least[0]; i++) {
        dice = (uint8_t)(i * 37);
        assert_in_range(pause_after_failure(), least[i], least[i] + least[i] / 4);
    }
}

TEST_WITH(test_too_much_is_asked, setup, NULL)
{
    far.retry_ns = UINT64_MAX;
    dice = 255;
    assert_in_range(pause_after_failure(), 86400 * S, 86400 * S + 86400 * S / 4);
}

TEST_MAIN
