/*
 * Incidents on the simulated port: a trigger freezes what came before it and a tail, and delivers each sample once,
 * with time, thread and stack; profiles are as they would be without; limits hold, and what they suppress is counted.
 */
#include "account.h"
#include "unit.h"
#include "wire.h"

#define MS     1000000ull
#define SECOND (1000 * MS)
#define MOST   20000u

static _Alignas(8) uint8_t memory[256 * 1024];

static struct {
    unsigned messages, parts, samples, threads, kinds[16];
    uint64_t id, number[32]; /* of the last: by field */
    char name[128];
    uint64_t tick[MOST], duration[MOST];
    unsigned kind[MOST], depth[MOST];
    uint32_t tid[300];
    unsigned thread[MOST];
} got;

static uint64_t columns[5][MOST];
static uint32_t parents[MOST];

static unsigned column_read(struct wire bytes, uint64_t *to)
{
    unsigned count = 0;

    while (bytes.at < bytes.end && count < MOST && wire_varint(&bytes, &to[count]))
        count++;
    return count;
}

static void nodes_read(struct wire bytes)
{
    struct wire_field f;
    unsigned count = 0;
    uint64_t back;

    while (wire_next(&bytes, &f))
        while (f.tag == 1 && f.bytes.at < f.bytes.end && wire_varint(&f.bytes, &back)) {
            count++;
            parents[count] = back ? count - (uint32_t)back : 0;
        }
}

static void timeline_read(struct wire bytes)
{
    struct wire_field f, inner;
    unsigned count[5] = {0}, threads = 0;
    uint64_t tick = 0, last[16] = {0};

    memset(got.number, 0, sizeof got.number);
    while (wire_next(&bytes, &f)) {
        if (f.tag < 32 && f.type != 2)
            got.number[f.tag] = f.number;
        if (f.tag == 5)
            snprintf(got.name, sizeof got.name, "%.*s", (int)(f.bytes.end - f.bytes.at), (const char *)f.bytes.at);
        while (f.tag == 13 && wire_next(&f.bytes, &inner))
            if (inner.tag == 1)
                got.tid[threads++] = (uint32_t)inner.number;
        if (f.tag >= 15 && f.tag <= 18)
            count[f.tag - 15] = column_read(f.bytes, columns[f.tag - 15]);
    }
    assert_true(count[0] == count[1] && count[1] == count[2] && count[2] == count[3]);
    got.threads = threads;
    got.parts = got.number[1] == got.id ? got.parts + 1 : 1;
    got.samples = got.number[1] == got.id ? got.samples : 0;
    got.messages += got.number[1] != got.id;
    got.id = got.number[1];
    assert_int_equal(got.number[2] + 1, got.parts);
    tick = got.number[14];
    for (unsigned i = 0; i < count[0]; i++, got.samples++) {
        unsigned at = got.samples, kind = columns[1][i] & 15;
        tick += columns[0][i];
        got.tick[at] = tick;
        got.kind[at] = kind;
        got.kinds[kind]++;
        got.thread[at] = got.tid[columns[1][i] >> 4];
        last[kind] = got.duration[at] = columns[3][i] ? columns[3][i] : last[kind];
        got.depth[at] = 0;
        for (uint32_t node = (uint32_t)columns[2][i]; node; node = parents[node])
            got.depth[at]++;
        assert_true(at == 0 || got.tick[at] >= got.tick[at - 1]);
    }
}

static void on_send(const struct ep_message *message, const struct ep_deadline *deadline)
{
    struct wire wire = wire_open(message->data, message->size);
    struct wire_field f;

    (void)deadline;
    if (receiver.always)
        return;
    while (wire_next(&wire, &f)) {
        if (f.tag == 5)
            nodes_read(f.bytes);
        if (f.tag == 14)
            timeline_read(f.bytes);
    }
    assert_false(wire.bad);
}

static void begin_with(struct ep_incident_config incident, size_t block)
{
    account_afresh();
    memset(&got, 0, sizeof got);
    receiver.on_send = on_send;
    incident.memory = memory;
    incident.memory_size = incident.memory_size ? incident.memory_size : EP_INCIDENT_MEMORY;
    assert_int_equal(ep_incident_start(&incident), 0);
    account_start((struct ep_config){.memory_size = block, .rate_hz = 100, .interval_ms = 10000, .flags = EP_MANUAL});
}

static void begin(struct ep_incident_config incident)
{
    begin_with(incident, EP_MEMORY_DEFAULT);
}

static void end(void)
{
    account_end();
    assert_null(receiver.broken);
    assert_int_equal(ep_incident_start(NULL), 0);
}

static void pass(uint64_t ns)
{
    ep_sim.uptime_ns += ns;
    assert_int_equal(ep_collect(), 0);
    (void)ep_deliver(100);
}

static void ticks(unsigned count, uint32_t tid)
{
    for (unsigned i = 0; i < count; i++) {
        const uint16_t stack[] = {(uint16_t)(i % 7), 10, 11, 12};
        assert_true(ep_sim_tick(tid, 1, stack, 4));
        pass(10 * MS);
    }
}

static void wait_for(uint64_t ns, uint32_t tid)
{
    const uint16_t stack[] = {5, 6, 7};

    ep_sim.tid = tid;
    ep_sim_here(stack, 3);
    ep_wait_begin(EP_WAIT_LOCK);
    ep_sim.uptime_ns += ns;
    ep_wait_end();
}

static struct ep_incident_stats stats(void)
{
    struct ep_incident_stats s;

    ep_incident_stats_get(&s);
    return s;
}

TEST(test_before_and_after)
{
    struct ep_incident_stats was = stats();

    begin((struct ep_incident_config){.tail_ms = 500});
    ticks(300, 71);
    uint64_t at = ep_sim.uptime_ns;
    assert_int_equal(ep_incident("a slow order"), 0);
    ticks(40, 72);
    assert_int_equal(got.messages, 0);
    ticks(60, 72);
    assert_int_equal(got.messages, 1);
    assert_string_equal(got.name, "a slow order");
    assert_int_equal(got.number[4], EP_INCIDENT_CALL);
    assert_int_equal(got.number[7], at);
    assert_true(got.kinds[EP_KIND_CPU] >= 350 && got.kinds[EP_KIND_CPU] < 355);
    assert_int_equal(got.thread[0], 71);
    assert_int_equal(got.thread[got.samples - 1], 72);
    for (unsigned i = 0; i < got.samples; i++)
        assert_true(got.depth[i] == 4 && got.duration[i] == 10 * MS >> 16);
    assert_true(got.tick[got.samples - 1] - got.tick[0] > 3400 * MS >> 20);
    end();
    assert_int_equal(stats().captured, was.captured + 1);
    assert_int_equal(receiver.samples, 400); /* the profile has all of them */
}

/* Waits that only the history wants are in no profile. */
TEST(test_waits_of_the_history)
{
    begin((struct ep_incident_config){.tail_ms = 100});
    ticks(10, 71);
    wait_for(300 * MS, 72);
    pass(0);
    assert_int_equal(ep_incident(NULL), 0);
    ticks(20, 71);
    assert_int_equal(got.messages, 1);
    assert_int_equal(got.kinds[EP_KIND_WAIT], 1);
    for (unsigned i = 0; i < got.samples; i++)
        if (got.kind[i] == EP_KIND_WAIT)
            assert_true(got.thread[i] == 72 && got.duration[i] == 300 * MS >> 16 && got.depth[i] > 3);
    end();
    assert_int_equal(receiver.kind_value[EP_KIND_WAIT], 0);
    assert_int_equal(receiver.kind_value[EP_KIND_THREAD], 0);
    assert_int_equal(ep_kinds_get(), 0);
}

static uint64_t waits_lost(uint32_t kinds, uint64_t *value)
{
    struct ep_stats after;

    begin((struct ep_incident_config){.tail_ms = 100});
    if (kinds)
        assert_int_equal(ep_kinds_change(kinds, 0), 0);
    pass(0);
    for (unsigned i = 0; i < 1000; i++) /* more than the ring holds */
        wait_for(300 * MS, 72);
    pass(0);
    ticks(10, 71);
    assert_int_equal(ep_stats_get(&after), 0);
    assert_true(after.exact + after.gap + after.cut >= after.samples);
    if (!kinds)
        assert_int_equal(after.exact + after.gap + after.cut, after.samples);
    end();
    *value = receiver.kind_value[EP_KIND_WAIT] + receiver.kind_value[EP_KIND_LOCK];
    return after.lost_count[EP_LOSS_RING_FULL];
}

/* Waits of the history alone that found no room are no loss of the profile, and not in it. */
TEST(test_losses_of_the_history)
{
    uint64_t value;

    assert_int_equal(waits_lost(0, &value), 0);
    assert_int_equal(value, 0);
    assert_true(waits_lost(EP_KIND_BIT(EP_KIND_WAIT), &value) > 100);
    assert_true(value == 1000ull * 300 * MS);
    assert_true(waits_lost(EP_KIND_BIT(EP_KIND_LOCK), &value) > 100); /* each could have been a lock */
}

/* While the link is down the history stays as it was, and the newest samples of before are kept. */
TEST(test_frozen)
{
    begin((struct ep_incident_config){.tail_ms = 100});
    receiver.always = -EIO;
    ticks(1100, 71); /* messages wait in the outbox */
    uint64_t at = ep_sim.uptime_ns >> 20;
    assert_int_equal(ep_incident("x"), 0);
    ticks(4000, 73);
    receiver.always = 0;
    for (unsigned i = 0; i < 200 && !got.messages; i++)
        pass(SECOND);
    assert_int_equal(got.messages, 1);
    assert_true(got.tick[0] < at && got.tick[got.samples - 1] < at + 60000);
    assert_true(got.kinds[EP_KIND_CPU] > 500);
    end();
}

TEST(test_limits)
{
    struct ep_incident_stats was = stats();

    begin((struct ep_incident_config){.tail_ms = 1, .gap_ms = 60000, .per_day = 3});
    for (unsigned i = 0; i < 10; i++) {
        assert_int_equal(ep_incident("x"), 0);
        ticks(2, 71);
        pass(3 * SECOND);
    }
    assert_int_equal(got.messages, 1);
    assert_int_equal(stats().suppressed, was.suppressed + 9);
    for (unsigned i = 0; i < 10; i++) {
        pass(61 * SECOND);
        assert_int_equal(ep_incident("y"), 0);
        ticks(2, 71);
        pass(3 * SECOND);
    }
    assert_int_equal(got.messages, 3);
    assert_int_equal(got.number[10], 0);
    assert_int_equal(ep_incident_span_begin("s", 0) != 0, 1); /* another cause has its own limit */
    pass(5 * SECOND);
    pass(5 * SECOND);
    assert_int_equal(got.messages, 4);
    assert_int_equal(got.number[10], 8); /* told */
    pass(86400 * SECOND);
    assert_int_equal(ep_incident("z"), 0);
    ticks(2, 71);
    pass(3 * SECOND);
    assert_int_equal(got.messages, 5);
    end();
}

/* As long as the values of labels, of which a span's endpoint is one; a cut character is left out. */
TEST(test_long_names)
{
    static const char name[] =
        "POST /customers/{customerId}/orders/{orderId}/items/{itemId}/prices of a customer, 95 bytes: "
        "1\u00e4\u00e4";
    char cut[sizeof name] = "";

    memcpy(cut, name, strcspn(name, "\xc3"));
    begin((struct ep_incident_config){.tail_ms = 1, .span_ms = 1000, .gap_ms = 1});
    assert_int_equal(ep_incident(name), 0);
    pass(4 * SECOND);
    assert_int_equal(got.messages, 1);
    assert_string_equal(got.name, cut);
    uint32_t span = ep_incident_span_begin(name, 0);
    ep_sim.uptime_ns += 1200 * MS;
    ep_incident_span_end(span);
    pass(MS);
    pass(4 * SECOND);
    assert_int_equal(got.messages, 2);
    assert_string_equal(got.name, cut);
}

TEST(test_spans)
{
    begin((struct ep_incident_config){.tail_ms = 1, .span_ms = 1000, .gap_ms = 1});
    uint32_t quick = ep_incident_span_begin("quick", 0), slow = ep_incident_span_begin("no name yet", 5000);
    ep_incident_span_name(slow, "slow");
    ep_sim.uptime_ns += 900 * MS;
    ep_incident_span_end(quick);
    ticks(5, 71);
    pass(4 * SECOND);
    ep_incident_span_end(quick); /* a token of the past */
    ep_incident_span_name(quick, "quick");
    assert_int_equal(got.messages, 0);
    for (unsigned i = 0; i < 20; i++)
        pass(100 * MS);
    pass(3 * SECOND);
    assert_int_equal(got.messages, 1);
    assert_string_equal(got.name, "slow");
    assert_int_equal(got.number[4], EP_INCIDENT_OPEN_SPAN);
    assert_true(got.number[8] >= 5000 * MS && got.number[8] < 6100 * MS);
    ep_incident_span_end(slow); /* noted already */
    pass(4 * SECOND);
    assert_int_equal(got.messages, 1);
    slow = ep_incident_span_begin("at its end", 0);
    ep_sim.uptime_ns += 1200 * MS;
    ep_incident_span_end(slow);
    pass(MS);
    pass(4 * SECOND);
    assert_int_equal(got.messages, 2);
    assert_int_equal(got.number[4], EP_INCIDENT_SPAN);
    assert_int_equal(got.number[8], 1200 * MS);
    for (unsigned i = 0; i < 64; i++)
        assert_true(ep_incident_span_begin("many", 0));
    assert_false(ep_incident_span_begin("too many", 0));
    end();
    assert_false(ep_incident_span_begin("off", 0));
    assert_int_equal(ep_incident("off"), -ESRCH);
}

TEST(test_other_triggers)
{
    begin((struct ep_incident_config){
        .tail_ms = 1, .gap_ms = 1, .heartbeat_ms = 5000, .cpu_pct = 90, .memory_bytes = 1 << 20, .for_ms = 3000});
    for (unsigned i = 0; i < 20; i++, pass(SECOND))
        ep_heartbeat();
    assert_int_equal(got.messages, 0);
    for (unsigned i = 0; i < 12; i++)
        pass(SECOND);
    assert_int_equal(got.messages, 1); /* once for a missing heartbeat */
    assert_int_equal(got.number[4], EP_INCIDENT_HEARTBEAT);
    ep_sim.resident = 2 << 20;
    for (unsigned i = 0; i < 12; i++)
        pass(SECOND);
    assert_int_equal(got.messages, 2);
    assert_int_equal(got.number[4], EP_INCIDENT_RESIDENT);
    assert_int_equal(got.number[8], 2 << 20);
    for (unsigned i = 0; i < 12; i++) {
        ep_sim.process_cpu_ns += i % 3 ? SECOND : 0; /* not long enough */
        pass(SECOND);
    }
    assert_int_equal(got.messages, 2);
    for (unsigned i = 0; i < 12; i++) {
        ep_sim.process_cpu_ns += 950 * MS;
        pass(SECOND);
    }
    assert_int_equal(got.messages, 3);
    assert_int_equal(got.number[4], EP_INCIDENT_CPU);
    assert_int_equal(got.number[8], 95);
    const uint16_t stack[] = {5, 6};
    ep_sim_here(stack, 2);
    struct ep_hook_event pause = {.kind = EP_KIND_GC, .frame = EP_FRAME_GC0, .count = 1, .value = 250 * MS};
    assert_int_equal(ep_hook_event(&pause), 0);
    pass(MS);
    pass(4 * SECOND);
    assert_int_equal(got.messages, 4);
    assert_int_equal(got.number[4], EP_INCIDENT_GC);
    end();
}

/* A history that is larger than a message has parts; each sample is in one of them. */
TEST(test_parts)
{
    begin_with((struct ep_incident_config){.tail_ms = 1, .memory_size = sizeof memory}, EP_MEMORY_MIN);
    ticks(6000, 71);
    assert_int_equal(ep_incident("x"), 0);
    ticks(1, 71);
    for (unsigned i = 0; i < 30; i++)
        pass(SECOND);
    assert_int_equal(got.messages, 1);
    assert_true(got.parts > 1);
    assert_true(got.kinds[EP_KIND_CPU] >= 6000 && got.kinds[EP_KIND_CPU] <= 6002);
    assert_int_equal(got.number[3], 0); /* no more */
    end();
    assert_int_equal(receiver.samples, 6001);
}

TEST(test_stop)
{
    begin((struct ep_incident_config){.tail_ms = 10000});
    ticks(50, 71);
    assert_int_equal(ep_incident("at the end"), 0);
    end();
    assert_int_equal(got.messages, 1);
    assert_int_equal(got.kinds[EP_KIND_CPU], 50);
}

TEST(test_wrong)
{
    struct ep_incident_config wrong = {.memory = memory, .memory_size = EP_INCIDENT_MEMORY_MIN - 1};

    account_afresh();
    assert_int_equal(ep_incident_start(&wrong), -ENOMEM);
    wrong.memory_size = EP_INCIDENT_MEMORY;
    wrong.kinds = EP_KIND_BIT(EP_KIND_LIVE);
    assert_int_equal(ep_incident_start(&wrong), -EINVAL);
    static const char *const environment[] = {"EDGEPROF_INCIDENT=1", "EDGEPROF_INCIDENT_LIMITS=span=250,memory=64",
                                              "WATCHDOG_USEC=30000000", NULL};
    struct ep_incident_config from = {.gc_ms = 7};
    ep_sim.environment = environment;
    assert_int_equal(ep_incident_from_env(&from), 1);
    assert_true(from.span_ms == 250 && from.memory_bytes == 64 << 20 && from.heartbeat_ms == 15000 && from.gc_ms == 7);
    static const char *const inherited[] = {"WATCHDOG_USEC=30000000", "WATCHDOG_PID=71", NULL};
    ep_sim.environment = inherited;
    for (unsigned own = 0; own < 2; own++) {
        ep_sim.identity.pid = 70 + own;
        from.heartbeat_ms = 0;
        assert_int_equal(ep_incident_from_env(&from), 0);
        assert_int_equal(from.heartbeat_ms, own ? 15000 : 0);
    }
    static const char *const bad[] = {"EDGEPROF_INCIDENT_LIMITS=spam=250", NULL};
    ep_sim.environment = bad;
    assert_int_equal(ep_incident_from_env(&from), -EINVAL);
}

/* One more thread than a message has places for: its samples belong to nobody. */
TEST(test_more_threads_than_places)
{
    begin((struct ep_incident_config){.memory_size = sizeof memory, .tail_ms = 100});
    for (uint32_t tid = 1000; tid < 1300; tid++)
        ticks(1, tid);
    assert_int_equal(ep_incident("many"), 0);
    ticks(30, 1000);
    assert_int_equal(got.messages, 1);
    assert_true(got.threads > 200 && got.threads < 256);
    assert_true(got.samples >= 300);
    end();
}

TEST_MAIN
