/*
 * tree.c compared with a simple model without limits: added stacks are present while there is room. When nodes or
 * entries run out, the totals stay correct, each stored stack is a prefix of the real one, ids ascend, and parents
 * precede their children.
 */
#include "unit.h"

#include "shape.h"

#define MEMORY (256u * 1024)
#define DEPTH  12u

static _Alignas(16) uint8_t memory[MEMORY + 64];
static struct ep_tree tree;

static void check_totals(uint64_t count, uint64_t value)
{
    struct ep_sums sums;

    ep_tree_sum(&tree, tree.nodes, &sums);
    assert_int_equal(sums.count[EP_KIND_CPU], count);
    assert_int_equal(sums.value[EP_KIND_CPU], value);
}

static void start_tree(size_t size)
{
    memset(memory, 0xa5, sizeof memory);
    ep_tree_init(&tree, memory, size);
    check_totals(0, 0);
    check_shape(&tree);
}

/* Like collect: the path as far as there are nodes, then [truncated]. */
static unsigned walk(const uint32_t *frames, unsigned depth)
{
    unsigned node = 0;

    for (unsigned i = 0; i < depth; i++) {
        unsigned child = ep_tree_child(&tree, node, frames[i]);
        if (!child) {
            unsigned truncated = ep_tree_child(&tree, node, EP_FRAME_TRUNCATED);
            return truncated ? truncated : tree.truncated;
        }
        node = child;
    }
    return node;
}

/* The tree must contain at least a prefix of the stack. */
static void check_prefix(unsigned node, const uint32_t *frames, unsigned depth)
{
    uint32_t path[DEPTH + 2];
    unsigned length = 0;

    for (; node; node = tree.node[node].parent)
        path[length++] = tree.node[node].frame;
    assert_true(length > 0 && length <= depth + 1);
    bool cut = path[0] == EP_FRAME_TRUNCATED;
    assert_true(cut || length == depth);
    for (unsigned i = 0; i + cut < length; i++)
        assert_int_equal(path[length - 1 - i], frames[i]);
}

static unsigned random_stack(uint64_t *dice, uint32_t *frames, unsigned variety)
{
    unsigned depth = 1 + unit_random(dice) % DEPTH;

    for (unsigned i = 0; i < depth; i++)
        frames[i] = EP_FRAME_FIRST_ADDRESS + unit_random(dice) % variety;
    return depth;
}

static void fill(size_t size, unsigned variety, unsigned stacks)
{
    uint64_t dice = size + variety, count = 0, value = 0;
    uint32_t frames[DEPTH];
    bool lost = false;

    start_tree(size);
    for (unsigned i = 0; i < stacks; i++) {
        unsigned depth = random_stack(&dice, frames, variety), n = unit_random(&dice) % 3;
        unsigned ticks = 1 + unit_random(&dice) % 1000, node = walk(frames, depth);
        check_prefix(node, frames, depth);
        lost |= !ep_tree_add(&tree, node, EP_KIND_CPU, 0, n, ticks);
        count += n;
        value += ticks;
        assert_true(!lost || tree.full);
        if (i % 64 == 0)
            check_totals(count, value);
    }
    check_totals(count, value);
    check_shape(&tree);
    for (unsigned i = 0; i < 64; i++)
        assert_int_equal(memory[size + i], 0xa5);
}

TEST(test_totals_when_nodes_run_out)
{
    for (unsigned groups = 2; groups <= 9; groups++) /* two have room for entries of every kind */
        fill(516u * groups, 20, 3000);
    assert_true(tree.full);
    fill(MEMORY, 4, 3000);
    fill(MEMORY, 100, 20000);
    assert_true(tree.full);
}

TEST(test_totals_when_entries_run_out)
{
    uint64_t value = 0;

    start_tree(516 * 4);
    /* Wide and flat: one entry per node; there are four times as many nodes. */
    for (unsigned i = 0; i < 100; i++) {
        unsigned node = ep_tree_child(&tree, 0, EP_FRAME_FIRST_ADDRESS + i);
        bool placed = ep_tree_add(&tree, node ? node : tree.truncated, EP_KIND_CPU, 0, 1, 10);
        assert_true(placed || tree.full);
        value += 10;
        check_totals(i + 1, value);
    }
    assert_true(tree.entries < tree.entry_capacity);
    assert_true(tree.entry[tree.node[tree.truncated].entry - 1].value > 0);
    check_shape(&tree);
}

/* Losses have reserved entries and are summed separately, whatever is full. */
TEST(test_room_for_what_was_lost)
{
    static const uint32_t lost[] = {EP_FRAME_LOST_RING, EP_FRAME_LOST_REFUSED, EP_FRAME_LOST_SEGMENT};
    struct ep_sums sums;

    start_tree(516 * 4);
    for (unsigned i = 0; i < 200; i++) {
        unsigned node = ep_tree_child(&tree, 0, EP_FRAME_FIRST_ADDRESS + i);
        unsigned below = node ? ep_tree_child(&tree, node, EP_FRAME_TRUNCATED) : 0;
        (void)ep_tree_add(&tree, below ? below : tree.truncated, EP_KIND_CPU, 0, 1, 10);
        for (unsigned up = 1; up < tree.nodes && !node; up++)
            (void)ep_tree_child(&tree, up, EP_FRAME_TRUNCATED);
    }
    for (unsigned i = 0; i < 3; i++) {
        unsigned node = ep_tree_child(&tree, 0, lost[i]);
        assert_true(node && ep_tree_add(&tree, node, EP_KIND_CPU, 0, 0, 7));
        (void)ep_tree_add(&tree, node, EP_KIND_ALLOC, 0, 0, 1000);
    }
    ep_tree_sum(&tree, tree.nodes, &sums);
    assert_int_equal(sums.lost_ns, 3 * 7);
    assert_int_equal(sums.value[EP_KIND_CPU], 200 * 10 + 3 * 7);
    check_shape(&tree);
}

/* With room for all, every stack has its own sum. */
TEST(test_against_the_model)
{
    static uint64_t sums[4 * 4 * 4 * 4];
    uint64_t dice = 5;

    memset(sums, 0, sizeof sums);
    start_tree(MEMORY);
    for (unsigned i = 0; i < 5000; i++) {
        uint32_t frames[4];
        unsigned key = unit_random(&dice) % 256;
        for (unsigned f = 0; f < 4; f++)
            frames[f] = EP_FRAME_FIRST_ADDRESS + (key >> 2 * f & 3);
        sums[key] += i;
        assert_true(ep_tree_add(&tree, walk(frames, 4), EP_KIND_CPU, 0, 1, i));
    }
    for (unsigned key = 0; key < 256; key++) {
        uint32_t frames[4];
        for (unsigned f = 0; f < 4; f++)
            frames[f] = EP_FRAME_FIRST_ADDRESS + (key >> 2 * f & 3);
        unsigned before = tree.nodes, node = walk(frames, 4), entry = tree.node[node].entry;
        if (sums[key])
            assert_int_equal(tree.nodes, before);
        assert_int_equal(entry ? tree.entry[entry - 1].value : 0, sums[key]);
    }
    assert_false(tree.full);
}

/* Partial sums and clearing, at every limit. */
TEST(test_limits)
{
    uint64_t dice = 9;
    struct ep_sums all, low, rest;
    uint32_t frames[DEPTH];

    for (unsigned limit = 1; limit < 200; limit += 7) {
        start_tree(MEMORY);
        for (unsigned i = 0; i < 300; i++) {
            unsigned depth = random_stack(&dice, frames, 3);
            (void)ep_tree_add(&tree, walk(frames, depth), EP_KIND_CPU, 0, 1, i);
        }
        ep_tree_sum(&tree, tree.nodes, &all);
        ep_tree_sum(&tree, limit, &low);
        unsigned entries = tree.entries;
        ep_tree_zero_entries(&tree, limit, EP_KIND_BIT(EP_KIND_CPU));
        ep_tree_sum(&tree, limit, &rest);
        assert_int_equal(rest.kinds, 0);
        check_totals(all.count[EP_KIND_CPU] - low.count[EP_KIND_CPU], all.value[EP_KIND_CPU] - low.value[EP_KIND_CPU]);
        assert_int_equal(tree.entries, entries);
        unsigned nodes = tree.nodes;
        ep_tree_clear_entries(&tree);
        check_totals(0, 0);
        assert_int_equal(tree.nodes, nodes);
        ep_tree_clear(&tree);
        assert_int_equal(tree.nodes, 2);
        check_shape(&tree);
    }
}

/* After a clear the tree is as new, whatever was full. */
TEST(test_clear_after_full)
{
    fill(516 * 4, 50, 3000);
    assert_true(tree.full);
    ep_tree_clear(&tree);
    assert_false(tree.full);
    check_totals(0, 0);
    check_shape(&tree);
    unsigned node = ep_tree_child(&tree, 0, EP_FRAME_FIRST_ADDRESS);
    assert_true(node && ep_tree_add(&tree, node, EP_KIND_CPU, 0, 1, 2));
    check_totals(1, 2);
}

TEST_MAIN
