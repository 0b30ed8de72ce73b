/*
 * The live heap (core/features/live/live.c): objects that a hook tracks. Properties: while the table has room, live
 * objects are exact to the byte, and dead ones are not reported. Beyond that the total is accurate to a few strata,
 * without bias between stacks; tracked objects compensate for untracked ones. Objects are reported only after a
 * collection. Stacks survive when the tree is emptied.
 */

#include "account.h"
#include "unit.h"

#define MS     1000000ull
#define PLACES 256u
#define SIZE   600000u /* more than the allocation period: every object is a sample */

static atomic_uintptr_t reference[PLACES];
static struct ep_live_place place[PLACES];
static atomic_uint collections;
static uint64_t allocated_before, in_use_now; /* what the runtime says */
static uint64_t told[64];                     /* by stack */
static uint32_t stack_frame[64];
static unsigned depth_wrong;

static uint64_t allocated(void)
{
    return allocated_before;
}

static uint64_t in_use(void)
{
    return in_use_now;
}

static void begin(size_t memory)
{
    const struct ep_live_table table = {
        .place = place, .places = PLACES, .collections = &collections, .allocated = allocated, .in_use = in_use};

    for (unsigned i = 0; i < PLACES; i++)
        place[i].object = &reference[i];
    atomic_store(&collections, 0);
    account_afresh();
    assert_int_equal(ep_live_attach(&table), 0);
    account_start((struct ep_config){
        .memory_size = memory, .kinds = EP_KIND_BIT(EP_KIND_LIVE) | EP_KIND_BIT(EP_KIND_ALLOC), .flags = EP_MANUAL});
}

static void end(void)
{
    account_end();
}

static uint32_t make_many(unsigned stack, uint64_t size, uint32_t count)
{
    const uint16_t frames[] = {3, (uint16_t)(10 + stack)};
    uint32_t token = ep_live_take(0);
    const struct ep_hook_event event = {.kind = EP_KIND_ALLOC, .count = count, .value = size, .token = token};

    if (token)
        atomic_store(&reference[token - 1], 1);
    ep_sim_here(frames, 2);
    if (ep_hook_event(&event) < 0 && token)
        ep_live_drop(token);
    assert_int_equal(ep_collect(), 0);
    return token;
}

static uint32_t make(unsigned stack, uint64_t size)
{
    return make_many(stack, size, 1);
}

static void die(uint32_t token)
{
    atomic_store(&reference[token - 1], 0);
}

/* The live bytes, at the end of an interval. */
static uint64_t live(void)
{
    struct ep_stats stats;

    ep_sim.uptime_ns += 1000 * MS;
    assert_int_equal(ep_collect(), 0);
    assert_int_equal(ep_deliver(100), 0);
    assert_int_equal(ep_stats_get(&stats), 0);
    return stats.kind_value[EP_KIND_LIVE];
}

TEST(test_exact_while_table_has_room)
{
    uint32_t token[100];

    begin(EP_MEMORY_DEFAULT);
    for (unsigned i = 0; i < 100; i++)
        token[i] = make(i % 7, SIZE + i);
    assert_int_equal(live(), 100ull * SIZE + 99 * 50);
    assert_int_equal(live(), 100ull * SIZE + 99 * 50); /* a level, not a sum */
    for (unsigned i = 0; i < 100; i += 2)
        die(token[i]);
    assert_int_equal(live(), 50ull * SIZE + 50 * 50);
    for (unsigned i = 1; i < 100; i += 2)
        die(token[i]);
    assert_int_equal(live(), 0);
    assert_int_equal(account_stats().lost_count[EP_LOSS_LIVE_FULL], 0);
    end();
}

/* Switched off, objects are dropped, but the last interval has the final state. */
TEST(test_stopped_and_switched_off)
{
    begin(EP_MEMORY_DEFAULT);
    make(1, SIZE);
    assert_int_equal(ep_kinds_change(0, EP_KIND_BIT(EP_KIND_LIVE)), 0);
    assert_int_equal(live(), 0);
    assert_int_equal(ep_kinds_change(EP_KIND_BIT(EP_KIND_LIVE), 0), 0);
    assert_int_equal(ep_collect(), 0);
    make(1, 2 * SIZE);
    ep_level_end(); /* as in ep_stop(), before the collect thread knows */
    assert_int_equal(live(), 2 * SIZE);
    end();
    assert_int_equal(account_stats().kind_value[EP_KIND_LIVE], 2 * SIZE);
}

TEST(test_objects_before_any_collection)
{
    begin(EP_MEMORY_DEFAULT);
    make(1, SIZE);
    assert_int_equal(live(), SIZE); /* no collection has happened */
    atomic_store(&collections, 1);
    make(1, SIZE);
    assert_int_equal(live(), SIZE);
    atomic_store(&collections, 2);
    assert_int_equal(live(), 2 * SIZE);
    end();
}

static void forget(void)
{
    memset(told, 0, sizeof told);
    memset(stack_frame, 0, sizeof stack_frame);
    depth_wrong = 0;
}

static void on_entry(const struct receiver_stack *stack)
{
    unsigned i = 0;

    if (stack->kind != EP_KIND_LIVE)
        return;
    depth_wrong += stack->depth != 2;
    while (i < 63 && stack_frame[i] && stack_frame[i] != stack->frame[1])
        i++;
    stack_frame[i] = stack->frame[1];
    told[i] += stack->value;
}

/* Far more objects than places, from two stacks in the proportion 1 to 3, with dead objects in between. */
TEST(test_more_objects_than_places)
{
    const unsigned objects = 6000;
    double sum = 0, worst = 0, minor = 0;

    for (unsigned run = 0; run < 20; run++) {
        uint64_t kept = 0;
        begin(EP_MEMORY_DEFAULT);
        for (unsigned i = 0; i < objects; i++) {
            uint32_t token = make(i % 8 == 0, SIZE + i % 8);
            if (i % 2)
                die(token);
            else
                kept += SIZE + i % 8;
        }
        receiver.on_entry = on_entry;
        forget();
        double off = (double)live() / (double)kept - 1;
        sum += off;
        worst = off * off > worst * worst ? off : worst;
        double all = 0;
        for (unsigned i = 0; i < 64; i++)
            all += (double)told[i];
        for (unsigned i = 0; i < 64; i++)
            if (told[i] && (double)told[i] < 0.45 * all)
                minor += (double)told[i] / all / 20;
        end();
    }
    printf("             total off by %.2f %% at worst, %.2f %% in the mean; a quarter is told as %.3f\n", 100 * worst,
           5 * sum, minor);
    assert_true(worst < 0.25 && worst > -0.25); /* about 150 places: at least 5 standard errors */
    assert_true(sum / 20 < 0.06 && sum / 20 > -0.06);
    assert_true(minor > 0.2 && minor < 0.3);
}

/* The table is full of objects not collected yet: others represent the untracked ones. */
TEST(test_full_table)
{
    unsigned taken = 0;

    begin(EP_MEMORY_DEFAULT);
    for (unsigned i = 0; i < 100 * PLACES; i++)
        taken += ep_live_take(0) != 0;
    assert_int_equal(taken, PLACES);
    for (unsigned i = 0; i < 20; i++)
        assert_int_equal(make(1, SIZE), 0);
    assert_int_equal(account_stats().lost_count[EP_LOSS_LIVE_FULL], 20);
    for (uint32_t i = 1; i <= PLACES; i++)
        ep_live_drop(i);
    for (unsigned i = 0; i < 40; i++)
        assert_int_not_equal(make(1, SIZE), 0);
    assert_int_equal(live(), 60ull * SIZE);
    end();
}

/* So many stacks that the tree is emptied several times: live objects keep their stacks. */
TEST(test_stacks_survive)
{
    uint64_t dice = 5;

    begin(EP_MEMORY_MIN);
    receiver.on_entry = on_entry;
    for (unsigned i = 0; i < 12; i++)
        make(i, SIZE);
    for (unsigned round = 0; round < 60; round++) {
        for (unsigned i = 0; i < 40; i++) {
            uint16_t frames[24];
            for (unsigned j = 0; j < 24; j++)
                frames[j] = (uint16_t)(unit_random(&dice) % 60);
            const struct ep_hook_event event = {.kind = EP_KIND_ALLOC, .count = 1, .value = 1};
            ep_sim_here(frames, 24);
            (void)ep_hook_event(&event);
            assert_int_equal(ep_collect(), 0);
            assert_int_equal(ep_deliver(100), 0);
        }
        forget();
        assert_int_equal(live(), 12ull * SIZE);
        unsigned stacks = 0;
        for (unsigned i = 0; i < 64; i++)
            stacks += told[i] == SIZE;
        assert_int_equal(stacks, 12);
        assert_int_equal(depth_wrong, 0);
    }
    assert_true(account_stats().intervals_early > 0);
    end();
}

static uint64_t live_if_in_use(uint64_t bytes)
{
    uint64_t told;

    in_use_now = bytes;
    told = live();
    in_use_now = 0;
    return told;
}

/* Samples that stand for many objects are scaled to what the runtime says is in use, as far as that cannot be older
 * than the first object that was followed. Objects that stand for themselves stay exact. */
TEST(test_total_is_the_runtimes)
{
    allocated_before = 5 * SIZE;
    begin(EP_MEMORY_DEFAULT);
    atomic_store(&collections, 1);
    make(1, 7 * SIZE);
    for (unsigned i = 0; i < 10; i++)
        make_many(2 + i % 2, SIZE, 1000);
    assert_int_equal(live_if_in_use(20 * SIZE), 0); /* too new */
    atomic_store(&collections, 2);
    receiver.on_entry = on_entry;
    assert_int_equal(live_if_in_use(0), 17 * SIZE); /* nothing is known */
    assert_int_equal(live_if_in_use(19 * SIZE), 17 * SIZE);
    assert_int_equal(live_if_in_use(27 * SIZE), 22 * SIZE);
    forget();
    assert_int_equal(live_if_in_use(12 * SIZE), 12 * SIZE);
    assert_int_equal(told[0] + told[1] + told[2], 12 * SIZE);
    assert_true(told[0] == 7 * SIZE && told[1] == told[2]);
    assert_int_equal(account_stats().kind_count[EP_KIND_LIVE], 5001);
    assert_in_range(live_if_in_use(SIZE), 7 * SIZE + 10 * SIZE / 16 - 10, 7 * SIZE + 10 * SIZE / 16 + 10);
    assert_in_range(live_if_in_use(10000 * SIZE), 7 * SIZE + 160 * SIZE - 10, 7 * SIZE + 160 * SIZE + 10);
    end();
    allocated_before = 0;
}

/* Objects that were allocated while the kind was off may be in use: nothing is scaled up any more. */
TEST(test_switched_on_late)
{
    begin(EP_MEMORY_DEFAULT);
    atomic_store(&collections, 1);
    assert_int_equal(ep_kinds_change(0, EP_KIND_BIT(EP_KIND_LIVE)), 0);
    assert_int_equal(live(), 0);
    assert_int_equal(ep_kinds_change(EP_KIND_BIT(EP_KIND_LIVE), 0), 0);
    assert_int_equal(ep_collect(), 0);
    make_many(1, SIZE, 1000);
    atomic_store(&collections, 2);
    assert_int_equal(live_if_in_use(20 * SIZE), SIZE);
    assert_int_equal(live_if_in_use(SIZE / 2), SIZE / 2);
    end();
}

/* A block of native memory: of the second table, which no collection and no total of the runtime concern. */
static uint32_t make_block(unsigned stack, uint64_t size, atomic_uintptr_t *block)
{
    const uint16_t frames[] = {3, (uint16_t)(10 + stack)};
    uint32_t token = ep_live_take(1);
    const struct ep_hook_event event = {.kind = EP_KIND_ALLOC, .count = 1, .value = size, .token = token};

    assert_true(token > EP_LIVE_PLACES_MOST);
    atomic_store(&block[EP_LIVE_PLACE(token)], 1);
    ep_sim_here(frames, 2);
    assert_int_equal(ep_hook_event(&event), 0);
    assert_int_equal(ep_collect(), 0);
    return token;
}

/* Last, because the second table stays. */
TEST(test_two_tables)
{
    enum { BLOCKS = 16 };
    static atomic_uintptr_t block[BLOCKS];
    static struct ep_live_place block_place[BLOCKS];
    static const atomic_uint none;
    const struct ep_live_table second = {.place = block_place, .places = BLOCKS, .collections = &none};
    static struct ep_live_place third_place[BLOCKS];
    const struct ep_live_table third = {.place = third_place, .places = BLOCKS, .collections = &none};
    uint32_t token[4];

    begin(EP_MEMORY_DEFAULT);
    end();
    assert_false(ep_live_is_shared());
    for (unsigned i = 0; i < BLOCKS; i++)
        block_place[i].object = &block[i];
    assert_int_equal(ep_live_attach(&second), 1);
    assert_true(ep_live_is_shared());
    assert_int_equal(ep_live_attach(&third), -ENOSPC);
    begin(EP_MEMORY_DEFAULT);
    atomic_store(&collections, 1);
    make_many(1, SIZE, 1000); /* no collection has seen it */
    for (unsigned i = 0; i < 4; i++)
        token[i] = make_block(2, SIZE + i, block);
    assert_int_equal(live(), 4 * SIZE + 6);
    atomic_store(&collections, 2);
    assert_int_equal(live_if_in_use(SIZE / 2), SIZE / 2 + 4 * SIZE + 6);
    atomic_store(&block[EP_LIVE_PLACE(token[1])], 0);
    assert_int_equal(live_if_in_use(SIZE / 2), SIZE / 2 + 3 * SIZE + 5);
    end();
}

TEST_MAIN
