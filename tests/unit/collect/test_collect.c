/*
 * collect.c: all samples in the ring arrive in messages, even if the outbox is full (intervals merge), the tree is full
 * (a new segment starts), messages must be split, the ring is full (a special frame), or residual CPU time has either
 * sign. The receiver decodes everything.
 */
#include "account.h"
#include "unit.h"

#define MS 1000000ull

static struct account given;

static struct ep *begin(size_t memory, bool pprof, uint32_t flags)
{
    account_afresh();
    unit_pprof(pprof);
    given = (struct account){0};
    account_start((struct ep_config){.memory_size = memory, .rate_hz = 100, .flags = flags});
    return ep_running();
}

static void end(int exact)
{
    (void)ep_stop(20000);
    account_memory_gone();
    account_check(&given, exact);
}

static void tick(const uint16_t *stack, unsigned depth, uint32_t ticks)
{
    assert_true(ep_sim_tick(1, ticks, stack, depth));
    given.samples++;
    given.ticks += ticks;
}

static void random_ticks(uint64_t *dice, unsigned count, unsigned variety, unsigned deepest)
{
    uint16_t stack[100];

    for (unsigned i = 0; i < count; i++) {
        unsigned depth = 1 + unit_random(dice) % deepest;
        for (unsigned f = 0; f < depth; f++)
            stack[f] = (uint16_t)(unit_random(dice) % variety);
        tick(stack, depth, 1 + unit_random(dice) % 4);
        if (i % 8 == 7)
            ep_sim_run(MS);
    }
}

/* ---- the right stacks ---- */

static uint64_t sums[64];

static uint32_t linear_of(unsigned function)
{
    return EP_FRAME_FIRST_ADDRESS +
           (uint32_t)(ep_sim_pc(function) - (ep_sim_pc(0) & ~(uintptr_t)(EP_SIM_FUNCTION - 1)));
}

/* Stacks of this test are {f, f % 8 + 70, 90}. The leaf is the interrupted address; the others are return addresses -
 * 1. */
static void sum_stack(const uint32_t *frames, unsigned depth, uint64_t ns)
{
    assert_int_equal(depth, 3);
    for (unsigned f = 0; f < 64; f++) {
        if (frames[0] == linear_of(f)) {
            assert_int_equal(frames[1], linear_of(f % 8 + 70) - 1);
            assert_int_equal(frames[2], linear_of(90) - 1);
            sums[f] += ns;
            return;
        }
    }
    fail_msg("a stack that was never sampled");
}

TEST(test_stacks_arrive)
{
    uint64_t expected[64] = {0}, dice = 1;

    memset(sums, 0, sizeof sums);
    (void)begin(EP_MEMORY_DEFAULT, false, 0);
    receiver.on_stack = sum_stack;
    for (unsigned i = 0; i < 2000; i++) {
        uint16_t f = (uint16_t)(unit_random(&dice) % 64), stack[] = {f, (uint16_t)(f % 8 + 70), 90};
        uint32_t ticks = 1 + unit_random(&dice) % 5;
        tick(stack, 3, ticks);
        expected[f] += ticks * 10 * MS;
        ep_sim_run(5 * MS);
    }
    end(1);
    assert_true(receiver.accepted >= 10);
    assert_int_equal(receiver.segments, 1);
    assert_memory_equal(sums, expected, sizeof sums);
}

/* Stacks that share callers: the function at depth d from the root is one of eight, LEVEL * d and up. */
#define LEVEL   64u
#define DEEPEST 45u /* beyond EP_PATH_FRAMES */
static uint64_t shared_sum;

static uint64_t weigh(uint64_t sum, uint32_t frame)
{
    return (sum ^ frame) * 1099511628211u;
}

static void sum_levels(const uint32_t *frames, unsigned depth, uint64_t ns)
{
    uint64_t sum = 1;

    for (unsigned d = 0; d < depth; d++) {
        uint32_t frame = frames[depth - 1 - d], low = linear_of(LEVEL * d) - 1;
        if (frame >= EP_FRAME_FIRST_ADDRESS)
            assert_in_range(frame, low, low + 8 * EP_SIM_FUNCTION);
        sum = weigh(sum, frame);
    }
    shared_sum += sum * ns;
}

/* The next stack keeps a part of the last one, from the root on. Returns its weight. */
static uint64_t tick_shared(uint64_t *dice, uint8_t *choice)
{
    unsigned depth = 1 + unit_random(dice) % DEEPEST, kept = unit_random(dice) % (depth + 1);
    uint16_t stack[DEEPEST];
    uint64_t sum = 1;

    for (unsigned d = kept; d < depth; d++)
        choice[d] = (uint8_t)(unit_random(dice) % 8);
    for (unsigned d = 0; d < depth; d++) {
        stack[depth - 1 - d] = (uint16_t)(LEVEL * d + choice[d]);
        sum = weigh(sum, linear_of(LEVEL * d + choice[d]) - (d + 1 < depth));
    }
    tick(stack, depth, 1);
    return sum * 10 * MS;
}

TEST(test_stacks_share_callers)
{
    uint64_t dice = 4, expected = 0;
    uint8_t choice[DEEPEST] = {0};

    shared_sum = 0;
    (void)begin(64 * 1024, false, 0);
    receiver.on_stack = sum_levels;
    for (unsigned i = 0; i < 20000; i++) {
        expected += tick_shared(&dice, choice);
        ep_sim_run(5 * MS);
    }
    end(1);
    assert_true(receiver.segments > 3); /* nodes have changed their ids */
    assert_int_equal(account_stats().lost_count[EP_LOSS_TREE_FULL], 0);
    assert_true(shared_sum == expected);
}

/* The same while nothing can be sent and detail is given up: whatever is left is where it belongs. */
TEST(test_folded_stacks_share_callers)
{
    uint64_t dice = 4;
    uint8_t choice[DEEPEST] = {0};

    (void)begin(64 * 1024, false, 0);
    receiver.on_stack = sum_levels;
    for (unsigned i = 0; i < 6000; i++) {
        receiver.always = i % 2000 < 1500 ? -ENETDOWN : 0;
        (void)tick_shared(&dice, choice);
        ep_sim_run(20 * MS);
    }
    receiver.always = 0;
    end(1);
    assert_true(account_stats().degraded_frames > 0);
}

static uint64_t deep_ns;

static void sum_deep(const uint32_t *frames, unsigned depth, uint64_t ns)
{
    if (depth > EP_MAX_DEPTH / 2 && frames[EP_MAX_DEPTH / 2] == EP_FRAME_DEEP)
        deep_ns += ns;
}

/* A recursion of which the middle is missing shares all addresses with one that is there to its root. */
TEST(test_deeper_frames_are_not_shared)
{
    uint16_t stack[EP_MAX_DEPTH + 50] = {0};

    (void)begin(64 * 1024, false, 0);
    deep_ns = 0;
    receiver.on_stack = sum_deep;
    for (unsigned i = 0; i < 10; i++) {
        tick(stack, EP_MAX_DEPTH + 50, 1);
        tick(stack, EP_MAX_DEPTH - 50, 1);
        ep_sim_run(5 * MS);
    }
    end(1);
    assert_int_equal(deep_ns, 10 * 10 * MS);
}

/* Hundreds of spans in an interval, more than there are label sets, are one pprof all the same. */
TEST(test_pprof_of_many_spans)
{
    uint64_t dice = 9;

    (void)begin(EP_MEMORY_DEFAULT, true, 0);
    for (unsigned i = 0; i < 400; i++) {
        ep_span_set(i + 1, 7, i + 1);
        random_ticks(&dice, 1, 30, 8);
        ep_sim_run(MS);
    }
    ep_span_set(0, 0, 0);
    end(1);
    assert_int_equal(receiver.accepted, 1);
    assert_true(receiver.bytes < 400 * 100);
}

/* One profile per interval, and none without samples. */
TEST(test_intervals)
{
    const uint16_t stack[] = {1};

    (void)begin(EP_MEMORY_DEFAULT, false, 0);
    ep_sim_run(60000 * MS);
    assert_int_equal(receiver.sends, 0);
    for (unsigned i = 1; i <= 20; i++) {
        tick(stack, 1, 1);
        ep_sim_run(1000 * MS);
        assert_int_equal(receiver.accepted, i);
    }
    tick(stack, 1, 1);
    assert_int_equal(ep_flush(), 0);
    ep_sim_run(MS);
    assert_int_equal(receiver.accepted, 21);
    end(1);
}

/* No wakeups when idle. */
TEST(test_idle_wakeups)
{
    (void)begin(EP_MEMORY_DEFAULT, false, 0);
    ep_running()->interval_ns = 10000 * MS;
    ep_sim_run(20000 * MS);
    uint64_t before = account_stats().wakeups;
    ep_sim_run(600000 * MS);
    assert_true(account_stats().wakeups - before <= 300); /* 30 a minute */
    end(1);
}

/* ---- the outbox is full ---- */

TEST(test_intervals_merge)
{
    uint64_t dice = 4;

    for (unsigned pprof = 0; pprof < 2; pprof++) {
        (void)begin(EP_MEMORY_MIN, pprof, 0);
        receiver.always = -ECONNREFUSED;
        for (unsigned i = 0; i < 100; i++) {
            random_ticks(&dice, 40, 20, 6);
            ep_sim_run(1000 * MS);
        }
        struct ep_stats s = account_stats();
        assert_true(s.intervals_merged > 0);
        assert_int_equal(receiver.accepted, 0);
        receiver.always = 0;
        ep_sim_run(130000 * MS);
        end(1);
        s = account_stats();
        assert_int_equal(s.lost_ns[EP_LOSS_STOPPED], 0);
        assert_int_equal(s.lost_ns[EP_LOSS_TOO_LARGE], 0);
    }
}

/* ---- messages that do not fit ---- */

/* Deep, distinct stacks: their dictionary is larger than the outbox. */
TEST(test_split_messages)
{
    uint64_t dice = 6;

    for (unsigned pprof = 0; pprof < 2; pprof++) {
        for (size_t memory = EP_MEMORY_MIN; memory <= 2 * EP_MEMORY_DEFAULT; memory += 40 * 1024 * unit_part()) {
            (void)begin(memory, pprof, 0);
            random_ticks(&dice, 1500, 4000, 30);
            unsigned before = receiver.sends;
            ep_sim_run(2000 * MS);
            assert_true(receiver.sends < before + 300); /* each message has contents */
            random_ticks(&dice, 50, 4000, 30);
            end(1);
            assert_int_equal(account_stats().lost_ns[EP_LOSS_TOO_LARGE], 0);
            assert_true(receiver.accepted > 1);
        }
    }
}

/* The same with an intermittent link. */
TEST(test_split_messages_on_a_bad_link)
{
    static const int answers[] = {0, -EIO, 0, 0, -EIO, -EIO, 0, -ESTALE, 0, -EIO, 0, 0, -EBADMSG, 0, -EIO};
    uint64_t dice = 6;

    for (unsigned pprof = 0; pprof < 2; pprof++) {
        (void)begin(EP_MEMORY_MIN, pprof, 0);
        receiver.answers = answers;
        receiver.answer_count = sizeof answers / sizeof answers[0];
        for (unsigned i = 0; i < 20; i++) {
            random_ticks(&dice, 200, 1000, 20);
            ep_sim_run(3000 * MS);
        }
        ep_sim_run(300000 * MS);
        end(0);
        assert_true(receiver.sends < 2000);
    }
}

/* A path larger than the whole outbox: its weight is lost and counted; later messages are readable. */
TEST(test_path_larger_than_outbox)
{
    static char path[64 * 1024];
    static struct ep_module_info two[2];
    const uint16_t stack[] = {1, 2}, other[] = {3000, 3001};

    memset(path, 'p', sizeof path - 1);
    (void)begin(EP_MEMORY_MIN, false, 0);
    (void)ep_stop(0);
    two[0] = (struct ep_module_info){.start = ep_sim_pc(0) - 8, .end = ep_sim_pc(1000) - 8, .path = "/fine"};
    two[1] = (struct ep_module_info){.start = ep_sim_pc(1000) - 8, .end = ep_sim_pc(4095), .path = path};
    ep_sim_reset();
    receiver_reset();
    given = (struct account){0};
    ep_sim.modules = two;
    ep_sim.module_count = 2;
    account_start((struct ep_config){.memory_size = EP_MEMORY_MIN, .rate_hz = 100});
    for (unsigned i = 0; i < 10; i++) {
        tick(stack, 2, 1);
        if (i % 3 == 1)
            tick(other, 2, 1);
        ep_sim_run(1000 * MS);
    }
    struct ep_stats s = account_stats();
    assert_true(s.lost_ns[EP_LOSS_TOO_LARGE] >= 3 * 10 * MS);
    assert_true(receiver.samples >= 7);
    end(1);
}

/* What does not fit counts with its samples, of every kind. */
TEST(test_too_large_counts_every_kind)
{
    static char path[64 * 1024];
    static struct ep_module_info one[1];
    const struct ep_hook_event event = {.kind = EP_KIND_EXCEPTION, .count = 1, .value = 1};
    const uint16_t stack[] = {1, 2};

    memset(path, 'p', sizeof path - 1);
    one[0] = (struct ep_module_info){.start = ep_sim_pc(0) - 8, .end = ep_sim_pc(4095), .path = path};
    account_afresh();
    ep_sim.modules = one;
    ep_sim.module_count = 1;
    account_start((struct ep_config){.memory_size = EP_MEMORY_MIN,
                                     .rate_hz = 100,
                                     .kinds = EP_KIND_BIT(EP_KIND_CPU) | EP_KIND_BIT(EP_KIND_EXCEPTION)});
    ep_sim_here(stack, 2);
    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(ep_hook_event(&event), 0);
        assert_true(ep_sim_tick(1, 1, stack, 2));
        ep_sim_run(1000 * MS);
    }
    assert_int_equal(ep_stop(0), 0);
    assert_int_equal(account_stats().kind_count[EP_KIND_EXCEPTION], 5);
    assert_int_equal(account_stats().lost_count[EP_LOSS_TOO_LARGE], 10);
}

/* ---- the tree is full ---- */

TEST(test_segments_roll_over)
{
    uint64_t dice = 8;

    for (unsigned pprof = 0; pprof < 2; pprof++) {
        (void)begin(EP_MEMORY_MIN, pprof, 0);
        for (unsigned i = 0; i < 20; i++) {
            random_ticks(&dice, 300, 4000, 12);
            ep_sim_run(1000 * MS);
        }
        struct ep_stats s = account_stats();
        assert_true(s.intervals_early + s.degraded_frames > 0);
        if (!pprof) {
            assert_true(receiver.segments > 5);
            /* giving up detail begins a segment, too */
            assert_true(receiver.lasts + 1 + s.degraded_labels + s.degraded_addresses + s.degraded_frames >=
                        receiver.segments);
        }
        end(1);
    }
}

/* Without a receiver the tree becomes empty with each interval, and the totals stay correct. */
TEST(test_no_transport)
{
    uint64_t dice = 8;
    struct ep_sums sums;
    struct ep_stats stats;
    struct ep_config c = {
        .memory = account_memory(EP_MEMORY_MIN), .memory_size = EP_MEMORY_MIN, .rate_hz = 100, .interval_ms = 1000};

    ep_sim_reset();
    given = (struct account){0};
    assert_int_equal(ep_start(&c), 0);
    for (unsigned i = 0; i < 20; i++) {
        random_ticks(&dice, 200, 4000, 12);
        ep_sim_run(1000 * MS);
    }
    struct ep *ep = ep_running();
    ep_tree_sum(&ep->collect->tree, ep->collect->tree.nodes, &sums);
    assert_true(sums.count[EP_KIND_CPU] <= given.samples / 10);
    assert_int_equal(ep_stats_get(&stats), 0);
    assert_int_equal(stats.samples, given.samples);
    assert_int_equal(stats.weight_ns, given.ticks * ep_sim.period_ns);
    for (unsigned i = 0; i < EP_LOSS_REASONS; i++)
        assert_int_equal(stats.lost_count[i], 0);
    assert_int_equal(ep_stop(0), 0);
}

/* A pprof in pieces of any size has the same bytes as in one. */
TEST(test_pprof_in_pieces)
{
    static uint8_t whole[1 << 20], pieces[sizeof whole];
    const size_t sizes[] = {13, 100, 1023, 16384, sizeof pieces};
    uint64_t dice = 21;

    struct ep *ep = begin(EP_MEMORY_DEFAULT, true, EP_MANUAL);
    random_ticks(&dice, 60, 50, 9);
    ep_collect_drain(ep);
    struct ep_encoding encoding = {.data = whole,
                                   .size = sizeof whole,
                                   .tree = &ep->collect->tree,
                                   .labels = &ep->collect->labels,
                                   .table = &ep->unwinder.modules,
                                   .modules = atomic_load(&ep->unwinder.modules.count),
                                   .tags = &ep->tags,
                                   .kinds = EP_KIND_BIT(EP_KIND_CPU)};
    const uint32_t size = ep_encode_pprof_piece(&encoding, 0);
    assert_true(size > 1000);
    assert_int_equal(ep_encode_pprof_size(&encoding), size);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint64_t at = 0;
        memset(pieces, 0, sizeof pieces);
        do {
            encoding.data = pieces + at;
            encoding.size = (uint32_t)(sizes[i] < sizeof pieces - at ? sizes[i] : sizeof pieces - at);
            at += ep_encode_pprof_piece(&encoding, at);
        } while (at < (uint64_t)size);
        assert_int_equal(at, size);
        assert_int_equal(ep_encode_pprof_piece(&encoding, at), 0);
        assert_memory_equal(pieces, whole, (size_t)size);
    }
    end(1);
}

/* ---- the ring is full ---- */

/* Whatever a full ring has no room for is in a later sample of its thread, or in its residual CPU time. */
TEST(test_full_ring_loses_no_tick)
{
    const uint16_t stack[] = {1, 2, 3, 4, 5, 6, 7, 8};

    for (unsigned round = 0; round < 5; round++) {
        struct ep *ep = begin(EP_MEMORY_DEFAULT, false, EP_MANUAL);
        for (unsigned i = 0; i < 20; i++) {
            for (unsigned n = 0; n < ep->ring.mask / 4; n++)
                tick(stack, 1 + n % 8, 1 + n % 3);
            ep_sim.uptime_ns += 1000 * MS;
            assert_int_equal(ep_collect(), 0);
            assert_int_equal(ep_deliver(10), 0);
        }
        struct ep_stats s = account_stats();
        assert_true(s.lost_count[EP_LOSS_RING_FULL] > 100);
        assert_int_equal(s.lost_ns[EP_LOSS_RING_FULL], 0);
        assert_int_equal(receiver.special_ns[EP_FRAME_LOST_RING], 0);
        uint64_t carried = ep_sim.carried_ns[1];
        assert_int_equal(receiver.ns + carried, given.ticks * 10 * MS);
        end(1);
        assert_int_equal(receiver.ns, given.ticks * 10 * MS);
    }
}

/* A full ring wakes the collect thread: a burst loses only what did not fit. */
TEST(test_ring_recovers)
{
    const uint16_t stack[] = {1, 2, 3};
    struct ep *ep;

    ep = begin(EP_MEMORY_DEFAULT, false, 0);
    for (unsigned n = 0; n < ep->ring.mask; n++)
        tick(stack, 3, 1);
    ep_sim_run(MS);
    uint64_t lost = account_stats().lost_count[EP_LOSS_RING_FULL];
    assert_true(lost > 0);
    for (unsigned n = 0; n < 500; n++) {
        tick(stack, 3, 1);
        ep_sim_run(MS);
    }
    assert_int_equal(account_stats().lost_count[EP_LOSS_RING_FULL], lost);
    end(1);
}

/* ---- residual CPU time ---- */

static void rest(int64_t ns)
{
    assert_true(ep_sim_rest(7, ns));
    given.rest_ns += ns;
}

/* Whole periods become [thread exit]; the remainder may be negative. The long-term sum is exact. */
TEST(test_residual_cpu_time)
{
    const int64_t period = 10 * (int64_t)MS;
    uint64_t dice = 2;
    int64_t sum = 0;

    (void)begin(EP_MEMORY_DEFAULT, false, 0);
    rest(-5 * period);
    rest(4 * period);
    ep_sim_run(1000 * MS);
    assert_int_equal(account_stats().thread_exit_ns, 0);
    rest(2 * period + 1);
    ep_sim_run(1000 * MS);
    assert_int_equal(account_stats().thread_exit_ns, period);
    for (unsigned i = 0; i < 1000; i++) {
        int64_t ns = (int64_t)(unit_random(&dice) % 20000000) - 9000000;
        sum += ns;
        rest(ns);
        ep_sim_run(20 * MS);
    }
    uint64_t exit_ns = account_stats().thread_exit_ns;
    int64_t left = period + 1 + sum - (int64_t)exit_ns;
    assert_true(left < period);
    rest((int64_t)1 << 40); /* a thread of 18 minutes without a sample */
    ep_sim_run(2000 * MS);
    assert_true(account_stats().thread_exit_ns - exit_ns > (1ull << 40) - 2 * (uint64_t)period);
    assert_int_equal(receiver.special_ns[EP_FRAME_THREAD_EXIT], account_stats().thread_exit_ns);
    end(1);
}

/* ---- other frames ---- */

/* Code outside all modules is [unknown]. After its module is found, its stacks are complete. */
TEST(test_module_found_late)
{
    static struct ep_module_info two[2];
    const uint16_t stack[] = {2000, 2001, 5, 6};
    struct ep_stats s;

    (void)begin(EP_MEMORY_DEFAULT, false, 0);
    (void)ep_stop(0);
    two[0] = (struct ep_module_info){.start = ep_sim_pc(0) - 8, .end = ep_sim_pc(1000), .path = "/first"};
    two[1] = (struct ep_module_info){.start = ep_sim_pc(1000), .end = ep_sim_pc(4095), .path = "/late"};
    ep_sim_reset();
    receiver_reset();
    given = (struct account){0};
    ep_sim.modules = two;
    ep_sim.module_count = 1;
    account_start((struct ep_config){.memory_size = EP_MEMORY_DEFAULT, .rate_hz = 100});
    tick(stack, 4, 1);
    ep_sim_run(1500 * MS);
    assert_int_equal(receiver.special_ns[EP_FRAME_UNKNOWN], 10 * MS);
    s = account_stats();
    assert_int_equal(s.cut + s.gap, 1); /* a gap where the simulated words lead to a caller in the first module */
    ep_sim.module_count = 2;
    ep_sim.modules_generation++;
    ep_sim_run(1500 * MS);
    for (unsigned i = 0; i < 10; i++)
        tick(stack, 4, 1);
    ep_sim_run(1500 * MS);
    s = account_stats();
    assert_in_range(s.gap + s.exact, 10, 11); /* with tables the stacks are exact */
    assert_int_equal(s.cut + s.gap + s.exact, 11);
    end(1);
}

/* Stacks beyond the maximum depth keep the leaf side and the root side, with [deeper frames] between them. */
static uint32_t deep_frames[EP_MAX_DEPTH + 8];
static unsigned deep_depth;

static void note_deep(const uint32_t *frames, unsigned depth, uint64_t ns)
{
    (void)ns;
    assert_in_range(depth, 1, EP_MAX_DEPTH);
    memcpy(deep_frames, frames, depth * sizeof *frames);
    deep_depth = depth;
}

TEST(test_deep_stacks)
{
    uint16_t stack[EP_SIM_DEPTH];

    for (unsigned i = 0; i < EP_SIM_DEPTH; i++)
        stack[i] = (uint16_t)i;
    for (unsigned depth = EP_MAX_DEPTH - 1; depth < EP_SIM_DEPTH; depth += depth < EP_MAX_DEPTH + 70 ? 1 : 37) {
        (void)begin(EP_MEMORY_DEFAULT, false, 0);
        receiver.on_stack = note_deep;
        tick(stack, depth, 1);
        ep_sim_run(1500 * MS);
        assert_int_equal(deep_depth, depth <= EP_MAX_DEPTH ? depth : EP_MAX_DEPTH);
        assert_int_equal(deep_frames[0], linear_of(0));
        for (unsigned i = 1; i < deep_depth; i++) {
            if (depth > EP_MAX_DEPTH && i == EP_MAX_DEPTH / 2)
                assert_int_equal(deep_frames[i], EP_FRAME_DEEP);
            else
                assert_int_equal(deep_frames[i], linear_of(i > EP_MAX_DEPTH / 2 ? depth - deep_depth + i : i) - 1);
        }
        end(1);
    }
    (void)begin(EP_MEMORY_DEFAULT, false, 0);
    tick(stack, EP_SIM_DEPTH, 1);
    end(1);
}

/* Threads that are not sampled are counted by reason, with the cause and three names. */
TEST(test_refused_threads)
{
    (void)begin(EP_MEMORY_DEFAULT, false, 0);
    assert_true(ep_hold());
    ep_sim.thread_name = "born";
    for (unsigned i = 0; i < 5; i++)
        ep_thread_refused(EP_LOSS_NO_TIMER, 100 + i, -EAGAIN, 10);
    ep_thread_refused(EP_LOSS_NO_SLOT, 200, 0, EP_THREADS);
    ep_thread_refused(EP_LOSS_SIGNAL_BLOCKED, 300, 0, 27);
    ep_thread_refused(EP_LOSS_RING_FULL, 400, 0, 0); /* not a reason for refused threads */
    ep_thread_refused(EP_LOSS_REASONS, 400, 0, 0);   /* an invalid reason is not used as an index */
    ep_thread_refused(UINT32_MAX, 400, 0, 0);
    ep_thread_residual(0, 30 * MS);
    ep_release();
    ep_sim.thread_name = "a\x01\"\\\xff\xc3\xa9z"; /* named after its start; invalid characters are cleaned for JSON */
    ep_sim_run(1500 * MS);
    struct ep_stats s = account_stats();
    assert_int_equal(s.lost_count[EP_LOSS_NO_TIMER], 5);
    assert_int_equal(s.lost_count[EP_LOSS_NO_SLOT], 1);
    assert_int_equal(s.lost_count[EP_LOSS_SIGNAL_BLOCKED], 1);
    assert_int_equal(s.unsampled_ns, 30 * MS);
    assert_int_equal(s.unsampled[0].reason, EP_LOSS_NO_TIMER);
    assert_int_equal(s.unsampled[0].error, -EAGAIN);
    assert_int_equal(s.unsampled[0].limit, 10);
    assert_int_equal(s.unsampled[1].limit, EP_THREADS);
    assert_int_equal(s.unsampled[2].limit, 27);
    for (unsigned i = 0; i < 3; i++)
        assert_string_equal(s.unsampled[0].name[i], "a????\xc3\xa9z");
    assert_string_equal(s.unsampled[1].name[1], "");
    /* The name of an ended thread stays; another thread with the same number does not get it. */
    assert_true(ep_hold());
    ep_thread_unsampled_ends(200);
    ep_release();
    ep_sim.thread_name = "";
    ep_sim_run(1500 * MS);
    ep_sim.thread_name = "another";
    ep_sim_run(1500 * MS);
    s = account_stats();
    assert_string_equal(s.unsampled[0].name[2], "a????\xc3\xa9z");
    assert_string_equal(s.unsampled[1].name[0], "a????\xc3\xa9z");
    /* An overcount is corrected, but no value becomes negative. */
    assert_true(ep_hold());
    ep_thread_residual(0, -50 * (int64_t)MS);
    ep_release();
    ep_sim_run(1500 * MS);
    assert_int_equal(account_stats().unsampled_ns, 0);
    ep_sim.thread_name = NULL;
    assert_true(ep_hold());
    ep_thread_residual(0, 60 * MS);
    ep_release();
    (void)ep_stop(20000);
    account_memory_gone();
    /* The receiver has the same values. */
    assert_null(receiver.broken);
    assert_int_equal(receiver.told[14], 40 * MS);
    assert_int_equal(receiver.told[15] + receiver.told[16], 40 * MS);
    assert_int_equal(receiver.loss[EP_LOSS_NO_TIMER].number[2], 5);
    assert_int_equal(receiver.loss[EP_LOSS_NO_TIMER].threads, 3);
    assert_int_equal(receiver.loss[EP_LOSS_NO_TIMER].number[5], EAGAIN);
    assert_int_equal(receiver.loss[EP_LOSS_NO_TIMER].number[6], 10);
    assert_string_equal(receiver.loss[EP_LOSS_NO_TIMER].thread, "a????\xc3\xa9z");
    assert_int_equal(receiver.loss[EP_LOSS_SIGNAL_BLOCKED].number[6], 27);
}

TEST_MAIN
