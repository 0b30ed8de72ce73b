/*
 * room.c: as long as messages leave, no stack, label or span is lost, in any size of memory; profiles just become
 * shorter. When none can leave, detail is given up in order (labels, addresses, frames), and totals stay exact.
 */
#include "account.h"
#include "unit.h"

#define MS 1000000ull

static void begin(size_t memory)
{
    account_afresh();
    account_start(
        (struct ep_config){.memory_size = memory,
                           .interval_ms = 10000,
                           .kinds = EP_KIND_BIT(EP_KIND_CPU) | EP_KIND_BIT(EP_KIND_ALLOC) | EP_KIND_BIT(EP_KIND_WAIT),
                           .flags = EP_MANUAL | EP_THREAD_LABELS});
}

static void pass(uint64_t ns)
{
    ep_sim.uptime_ns += ns;
    assert_int_equal(ep_collect(), 0);
    assert_int_equal(ep_deliver(100), 0);
}

/* An event of a request: its span, and a stack of `deepest` frames at most, of `variety` addresses. */
static void event(uint64_t *dice, unsigned deepest, unsigned variety, uint64_t span)
{
    uint16_t stack[100];
    unsigned depth = 1 + (unsigned)(unit_random(dice) % deepest);
    const struct ep_hook_event e = {
        .kind = unit_random(dice) % 2 ? EP_KIND_ALLOC : EP_KIND_WAIT, .count = 1, .value = 1 + unit_random(dice) % 100};

    for (unsigned i = 0; i < depth; i++)
        stack[i] = (uint16_t)(unit_random(dice) % (i + 2 < depth ? variety : 4)); /* few roots, as in any program */
    ep_span_set(span, 1, span);
    ep_sim_here(stack, depth);
    assert_int_equal(ep_hook_event(&e), 0);
}

static unsigned truncated, without_span;

static void on_entry(const struct receiver_stack *stack)
{
    for (unsigned i = 0; i < stack->depth; i++)
        truncated += stack->frame[i] == EP_FRAME_TRUNCATED;
    without_span += stack->with.span_id == 0;
}

static void link_is_up(size_t memory, unsigned deepest, unsigned variety, unsigned per_span)
{
    uint64_t dice = memory + deepest + variety;

    begin(memory);
    truncated = without_span = 0;
    receiver.on_entry = on_entry;
    for (unsigned i = 0; i < 2500; i++) {
        event(&dice, deepest, variety, 1 + i / per_span);
        pass(MS + unit_random(&dice) % (20 * MS));
    }
    account_end();
    struct ep_stats s = account_stats();
    assert_int_equal(s.lost_count[EP_LOSS_TREE_FULL], 0);
    assert_int_equal(s.lost_count[EP_LOSS_ENTRIES_FULL], 0);
    assert_int_equal(s.lost_count[EP_LOSS_LABELS], 0);
    assert_int_equal(s.degraded_labels + s.degraded_addresses + s.degraded_frames, 0);
    assert_int_equal(truncated, 0);
    assert_int_equal(without_span, 0);
    assert_int_equal(receiver.kind_value[EP_KIND_ALLOC], s.kind_value[EP_KIND_ALLOC]);
    assert_int_equal(receiver.kind_value[EP_KIND_WAIT], s.kind_value[EP_KIND_WAIT]);
    print_message("             %zu bytes, %u frames of %u, %u a span: %llu messages\n", memory, deepest, variety,
                  per_span, (unsigned long long)s.messages);
}

TEST(test_nothing_is_lost_while_messages_leave)
{
    for (size_t memory = 64 * 1024; memory <= 256 * 1024; memory *= unit_part() > 1 ? 8 : 2) {
        link_is_up(memory, 20, 50, 1);     /* a span each event: label sets and entries */
        link_is_up(memory, 60, 4000, 50);  /* no stack twice: nodes */
        link_is_up(memory, 6, 8, 6000);    /* few stacks */
        link_is_up(memory, 100, 4000, 50); /* deep ones */
    }
}

static void link_is_down(size_t memory, unsigned deepest, unsigned variety)
{
    uint64_t dice = memory + deepest, value = 0;
    struct ep_stats s = {0};

    begin(memory);
    receiver.always = -ENETDOWN;
    for (unsigned i = 0; i < 3600; i++) { /* an hour */
        for (unsigned j = 0; j < 5; j++)
            event(&dice, deepest, variety, 1 + i);
        ep_sim.uptime_ns += 1000 * MS;
        assert_int_equal(ep_collect(), 0);
        (void)ep_deliver(100);
        s = account_stats();
        if (s.degraded_frames)
            assert_true(s.degraded_addresses > 0);
        if (s.degraded_addresses)
            assert_true(s.degraded_labels > 0);
        if (s.lost_count[EP_LOSS_TREE_FULL])
            assert_true(s.degraded_frames > 0);
    }
    assert_true(s.degraded_labels > 0);
    value = s.kind_value[EP_KIND_ALLOC] + s.kind_value[EP_KIND_WAIT];
    print_message(
        "             %zu bytes: given up %llu times labels, %llu addresses, %llu frames; then %llu samples %s\n",
        memory, (unsigned long long)s.degraded_labels, (unsigned long long)s.degraded_addresses,
        (unsigned long long)s.degraded_frames, (unsigned long long)s.lost_count[EP_LOSS_TREE_FULL], "truncated");
    receiver.always = 0;
    ep_sim.uptime_ns += 3600 * 1000 * MS;
    for (unsigned i = 0; i < 4; i++)
        pass(10000 * MS);
    account_end();
    assert_int_equal(receiver.kind_value[EP_KIND_ALLOC] + receiver.kind_value[EP_KIND_WAIT], value);
    assert_int_equal(account_stats().lost_count[EP_LOSS_ENTRIES_FULL], 0);
}

TEST(test_detail_goes_in_order_while_the_link_is_down)
{
    link_is_down(64 * 1024, 20, 50);
    if (unit_part() > 1)
        return;
    link_is_down(128 * 1024, 40, 4000);
    link_is_down(256 * 1024, 8, 300);
}

TEST_MAIN
