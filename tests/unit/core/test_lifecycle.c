/*
 * start, work, flush, stop and start again in every order, with the n-th fallible call of port or transport failing,
 * for n = 1, 2, ... until a case passes without a failure. Each time either start returns an error and leaves nothing
 * behind (no thread, sampling off, transport closed, memory unused), or it works and the samples balance.
 */
#include "account.h"
#include "unit.h"

#define CALLS_MOST 200u
#define INTERVAL   1000u /* ms */
#define MS         1000000u

static struct account given;
static uint64_t dice;

struct variant {
    uint32_t flags;
    bool pprof;
    bool transport;
    int error;
};

static const struct variant variants[] = {
    {0, false, true, -EIO},
    {0, true, true, -ENOMEM},
    {0, false, false, -EAGAIN},
    {EP_MANUAL, false, true, -EIO},
    {EP_MANUAL, true, true, -EAGAIN},
    {EP_MANUAL, false, false, -EIO},
    {0, false, true, -EBUSY},
    {EP_MANUAL, false, true, -EBUSY},
    {EP_LAZY_THREADS, false, true, -EAGAIN},
    {EP_LAZY_THREADS, true, true, -EIO},
    {EP_LAZY_THREADS, false, false, -EAGAIN},
};

/* Chooses the variant's format, too. */
static struct ep_config config_of(const struct variant *v)
{
    unit_pprof(v->pprof);
    return (struct ep_config){
        .memory = account_memory(EP_MEMORY_DEFAULT),
        .memory_size = EP_MEMORY_DEFAULT,
        .service = "unit",
        .tags = "a=b,c=",
        .rate_hz = 100,
        .interval_ms = INTERVAL,
        .transport = v->transport ? &receiver_transport : NULL,
        .flags = v->flags,
    };
}

static void begin_case(unsigned fail_at, int error)
{
    ep_sim_reset();
    receiver_reset();
    receiver.fails = ep_sim_fails;
    ep_sim.fail_at = fail_at;
    ep_sim.fail_error = error;
    given = (struct account){0};
}

/* After a stop: nothing runs or touches the memory. */
static void assert_gone(void)
{
    const uint16_t stack[] = {1, 2, 3};

    account_memory_gone();
    assert_null(ep_running());
    assert_false(ep_held());
    assert_false(ep_sim.sampling);
    assert_false(ep_sim_alive(EP_ROLE_COLLECT));
    assert_false(ep_sim_alive(EP_ROLE_DELIVER));
    assert_int_equal(receiver.opened, receiver.closed);
    assert_false(ep_sim_tick(1, 1, stack, 3));
    assert_false(ep_sim_rest(1, 1000));
    assert_int_equal(ep_flush(), -ESRCH);
    assert_int_equal(ep_collect(), -ESRCH);
    assert_int_equal(ep_deliver(1), -ESRCH);
    assert_int_equal(ep_stop(10), -ESRCH);
    ep_sim_run(5000ull * MS);
}

static void sample(unsigned count)
{
    uint16_t stack[12];

    for (unsigned i = 0; i < count; i++) {
        unsigned depth = 1 + unit_random(&dice) % 12, ticks = 1 + unit_random(&dice) % 3;
        for (unsigned f = 0; f < depth; f++)
            stack[f] = (uint16_t)(unit_random(&dice) % 50);
        assert_true(ep_sim_tick(1 + i % 3, ticks, stack, depth));
        given.samples++;
        given.ticks += ticks;
    }
}

static void rest(int64_t ns)
{
    assert_true(ep_sim_rest(9, ns));
    given.rest_ns += ns;
}

static void pass(const struct variant *v, unsigned ms)
{
    for (unsigned at = 0; at < ms; at += 100) {
        ep_sim_run(100ull * MS);
        if (v->flags & EP_MANUAL) {
            assert_int_equal(ep_collect(), 0);
            (void)ep_deliver(50);
        }
    }
}

static void stop(uint32_t deadline_ms)
{
    ep_sim.rest_ns[0] = 25 * (int64_t)MS;
    ep_sim.rest_ns[1] = -(int64_t)MS;
    ep_sim.rests = 2;
    given.rest_ns += ep_sim.rest_ns[0] + ep_sim.rest_ns[1];
    int error = ep_stop(deadline_ms);
    assert_true(error == 0 || error == -ETIMEDOUT);
}

/* One complete run. False when it could not start. */
static bool live(const struct variant *v, uint32_t deadline_ms)
{
    struct ep_config config = config_of(v);
    unsigned failed_before = ep_sim.failed != NULL;
    int error = ep_start(&config);

    if (error) {
        assert_true(!failed_before && ep_sim.failed != NULL);
        assert_int_equal(error, ep_sim.fail_error);
        assert_true(ep_start_error()[0] != 0);
        assert_gone();
        return false;
    }
    assert_int_equal(ep_start(&config), -EALREADY);
    sample(40);
    rest(4 * MS);
    rest(-3 * (int64_t)MS);
    rest(15 * MS);
    pass(v, 2500);
    sample(1);
    assert_int_equal(ep_flush(), 0);
    pass(v, 300);
    sample(20);
    stop(deadline_ms);
    return true;
}

static void check_ended(const struct variant *v, bool last)
{
    struct ep_stats s;

    assert_gone();
    assert_int_equal(ep_stats_get(&s), 0);
    assert_int_equal(s.samples, 61);
    if (v->transport)
        account_check(&given, 1);
    /* Without threads stop makes only one attempt, so a failed send may have been the last. */
    if (v->transport && last && !v->pprof && !(v->flags & EP_MANUAL))
        assert_int_equal(receiver.lasts, receiver.segments);
}

/* Until the n-th call does not happen any more. */
static void permute(void (*scenario)(const struct variant *, unsigned))
{
    for (size_t i = 0; i < sizeof variants / sizeof variants[0]; i++) {
        unsigned n = 1;
        for (; n < CALLS_MOST; n += unit_part()) {
            dice = n;
            begin_case(n, variants[i].error);
            scenario(&variants[i], n);
            if (!ep_sim.failed)
                break;
        }
        assert_true(n > 2 && n < CALLS_MOST);
    }
}

static void scenario_life(const struct variant *v, unsigned n)
{
    (void)n;
    if (live(v, 5000))
        check_ended(v, true);
}

TEST(test_nothing_before_the_first_start)
{
    struct ep_stats stats;

    begin_case(0, 0);
    assert_int_equal(ep_stats_get(&stats), -ESRCH);
    (void)account_memory(64);
    assert_gone();
}

TEST(test_start_work_stop)
{
    permute(scenario_life);
}

/* A failed start or stop does not prevent the next start. */
static void scenario_again(const struct variant *v, unsigned n)
{
    (void)n;
    for (int i = 0; i < 3; i++) {
        given = (struct account){0};
        receiver.ns = receiver.samples = receiver.bytes = receiver.accepted = 0;
        if (live(v, 5000))
            check_ended(v, false);
    }
}

TEST(test_start_again)
{
    permute(scenario_again);
}

/* No time for delivery: messages are dropped and counted. */
static void scenario_hasty(const struct variant *v, unsigned n)
{
    (void)n;
    if (live(v, 0))
        check_ended(v, false);
}

TEST(test_stop_without_time)
{
    permute(scenario_hasty);
}

/* The receiver never answers: stop keeps its deadline. */
static void scenario_dead_receiver(const struct variant *v, unsigned n)
{
    (void)n;
    receiver.always = -ECONNREFUSED;
    struct ep_config config = config_of(v);
    if (ep_start(&config) != 0) {
        assert_gone();
        return;
    }
    sample(30);
    pass(v, 3000);
    sample(30);
    uint64_t before = ep_sim.uptime_ns;
    int error = ep_stop(2000);
    assert_true(error == (v->transport ? -ETIMEDOUT : 0));
    assert_true(ep_sim.uptime_ns - before <= 2100ull * MS);
    assert_gone();
    if (v->transport)
        account_check(&given, 1);
}

TEST(test_dead_receiver)
{
    permute(scenario_dead_receiver);
}

/* In the child of a fork: nothing runs, the memory is free, and it can start again; the parent's threads do not exist.
 */
static void scenario_fork(const struct variant *v, unsigned n)
{
    struct ep_config config = config_of(v);

    (void)n;
    if (ep_start(&config) != 0) {
        assert_gone();
        return;
    }
    sample(10);
    pass(v, 300);
    ep_sim_fork();
    receiver.closed = receiver.opened; /* the parent's copy */
    assert_gone();
    receiver_reset();
    receiver.fails = ep_sim_fails;
    given = (struct account){0};
    if (live(v, 5000))
        check_ended(v, true);
}

TEST(test_fork_child)
{
    permute(scenario_fork);
}

/* A port whose scan returns how many modules it saw is told so in one line. */
TEST(test_scan_returns_a_count)
{
    struct ep_config config = config_of(&variants[0]);
    bool scanned = false;

    for (unsigned call = 1; call < 40 && !scanned; call++) {
        begin_case(call, 4);
        const int error = ep_start(&config);
        scanned = ep_sim.failed && strcmp(ep_sim.failed, "modules_scan") == 0;
        if (scanned)
            assert_int_equal(error, -EINVAL);
        if (scanned)
            assert_non_null(strstr(ep_start_error(), "ep_port_modules_scan()"));
        if (error == 0)
            (void)ep_stop(0);
    }
    assert_true(scanned);
}

/* ---- running handlers ---- */

static unsigned waits;

static void leave_on_third_wait(void)
{
    if (++waits == 3)
        ep_release();
}

static void enter_and_stay(void)
{
    assert_true(ep_hold());
}

/* A run with a thread that has not left. */
static void start_and_stay(struct ep_config *config)
{
    *config = config_of(&variants[0]);
    begin_case(0, 0);
    assert_int_equal(ep_start(config), 0);
    sample(10);
    assert_true(ep_hold());
}

/* Stop waits for handlers. If one does not return, stop fails, and a later stop succeeds. */
TEST(test_stop_waits_for_handlers)
{
    struct ep_config config;

    start_and_stay(&config);
    assert_int_equal(ep_stop(1000), -EBUSY);
    assert_null(ep_running());
    assert_false(ep_sim.sampling);
    waits = 0;
    ep_sim.on_wait = leave_on_third_wait;
    assert_int_equal(ep_stop(1000), 0);
    assert_true(waits >= 3);
    ep_sim.on_wait = NULL;
    assert_gone();
    account_check(&given, 1);
}

/* A record that a thread has begun when it is stopped in the middle. */
struct begun {
    struct ep *held;
    int at;
};
#define BEGUN_WORDS (EP_SAMPLE_WORDS + 8)

static struct begun record_begin(void)
{
    struct begun begun = {.held = ep_hold()};
    bool wake;

    assert_non_null(begun.held);
    begun.at = ep_ring_reserve(&begun.held->ring, BEGUN_WORDS, 0, &wake);
    assert_true(begun.at > 0);
    return begun;
}

static void record_end(const struct begun *begun)
{
    const struct ep_record record = {.kind = EP_RECORD_SAMPLE, .count = EP_SAMPLE_WORDS};
    atomic_uintptr_t *payload = ep_ring_payload(&begun->held->ring, begun->at);

    payload[EP_WORD_TID] = 1;
    payload[EP_WORD_INFO] = EP_KIND_CPU << EP_INFO_KIND_SHIFT;
    payload[EP_WORD_VALUE] = MS;
    ep_ring_commit(&begun->held->ring, begun->at, BEGUN_WORDS, ep_ring_header(&record));
    ep_release();
}

/* A thread stays in the profiler, as one does that a debugger or a long pause has stopped: stop keeps to its deadline
 * and delivers what there is. The memory stays in use until that thread has left; what it records late is lost and
 * counted, and so are the samples behind it in the ring. */
TEST(test_stop_while_held)
{
    for (size_t i = 0; i < sizeof variants / sizeof variants[0]; i++) {
        struct ep_config config = config_of(&variants[i]);
        begin_case(0, 0);
        assert_int_equal(ep_start(&config), 0);
        const uint64_t busy = account_stats().busy_stops;
        sample(10);
        struct begun begun = record_begin();
        sample(2);
        uint64_t from_ns = ep_sim.uptime_ns;
        assert_int_equal(ep_stop(300), -EBUSY);
        assert_true(ep_sim.uptime_ns - from_ns < 600ull * MS);
        assert_true(!variants[i].transport || receiver.ns > 0);
        assert_non_null(strstr(ep_start_error(), "a thread still uses"));
        assert_int_equal(account_stats().busy_stops, busy + 1);
        assert_int_equal(account_stats().samples, 10);
        assert_int_equal(account_stats().lost_count[EP_LOSS_STOPPED], 0);
        assert_int_equal(ep_flush(), -ESRCH);
        assert_int_equal(ep_level_set(EP_LEVEL_HIGH), -ESRCH);
        assert_int_equal(ep_start(&config), -EBUSY);
        record_end(&begun);
        assert_int_equal(ep_stop(0), -ETIMEDOUT);
        assert_int_equal(account_stats().lost_count[EP_LOSS_STOPPED], 3);
        assert_gone();
    }
}

/* A start takes over from a stop that was left alone. */
TEST(test_start_after_held)
{
    struct ep_config config;

    start_and_stay(&config);
    assert_int_equal(ep_stop(300), -EBUSY);
    ep_release();
    given = (struct account){0};
    receiver_reset();
    assert_int_equal(ep_start(&config), 0);
    sample(10);
    assert_int_equal(ep_stop(1000), 0);
    assert_gone();
    account_check(&given, 1);
}

/* A start that fails after the first handlers have run must wait for them, too. */
TEST(test_failed_start_waits_for_handlers)
{
    for (size_t i = 0; i < sizeof variants / sizeof variants[0]; i++) {
        begin_case(0, -EMFILE);
        struct ep_config config = config_of(&variants[i]);
        ep_sim.on_sampling_start = enter_and_stay;
        ep_sim.on_wait = leave_on_third_wait;
        waits = 0;
        ep_sim.fail_at = (variants[i].transport ? 1u : 0u) + (variants[i].flags & EP_MANUAL ? 0u : 2u) + 2u;
        assert_int_equal(ep_start(&config), -EMFILE);
        assert_string_equal(ep_sim.failed, "sampling_start");
        assert_true(waits >= 3);
        ep_sim.on_wait = NULL;
        assert_gone();
    }
}

TEST_MAIN
