/*
 * fold.c compared with a model: a list of samples with their whole stacks. Whatever is folded, in any order, the sums
 * of each kind are exact, siblings differ, parents precede children, and each sample's weight is at the node that its
 * stack folds to. Ids that ep_tree_fold() gives for old ones lead to the folded stack of the old one.
 */
#include "unit.h"

#include "shape.h"

#include "core/profile/fold.h"

#define MEMORY  (64u * 1024)
#define DEPTH   10u
#define SAMPLES 400u

static _Alignas(16) uint8_t memory[MEMORY];
static struct ep_tree tree;

static struct sample {
    uint32_t frame[DEPTH];
    unsigned depth, label, node;
    enum ep_kind kind;
    uint64_t value;
} sample[SAMPLES];
static unsigned samples;

static uint32_t tens(void *argument, uint32_t frame)
{
    (void)argument;
    return frame < EP_FRAME_FIRST_ADDRESS ? frame : frame / 10 * 10 + EP_FRAME_FIRST_ADDRESS % 10;
}

/* What a stack is after the fold, whose first `marked` nodes are marked. */
static void fold_model(struct sample *s, unsigned marked, const struct ep_fold *fold)
{
    for (unsigned i = marked; i < s->depth; i++) {
        if (fold->depth && i >= fold->depth)
            s->frame[i] = EP_FRAME_TRUNCATED;
        else if (fold->frame)
            s->frame[i] = tens(NULL, s->frame[i]);
        if (s->frame[i] == EP_FRAME_TRUNCATED)
            s->depth = i + 1;
    }
    if (fold->labels)
        s->label = 0;
}

static void check_stack(unsigned node, const struct sample *s)
{
    for (unsigned i = s->depth; i-- > 0; node = tree.node[node].parent)
        assert_int_equal(tree.node[node].frame, s->frame[i]);
    assert_int_equal(node, 0);
}

static unsigned node_of(const struct sample *s)
{
    unsigned node = 0, nodes = tree.nodes;

    for (unsigned i = 0; i < s->depth; i++)
        node = ep_tree_child(&tree, node, s->frame[i]);
    assert_int_equal(tree.nodes, nodes); /* it was there */
    return node;
}

/* Each sample's weight is taken away from where it must be; nothing is left. */
static void check_weights(void)
{
    struct ep_sums sums;

    for (unsigned i = 0; i < samples; i++) {
        struct ep_entry *entry = ep_tree_entry(&tree, node_of(&sample[i]), sample[i].kind, sample[i].label);
        assert_non_null(entry);
        assert_true(entry->count >= 1 && entry->value >= sample[i].value);
        entry->count--;
        entry->value -= sample[i].value;
    }
    ep_tree_sum(&tree, tree.nodes, &sums);
    assert_int_equal(sums.kinds, 0);
    for (unsigned i = 0; i < samples; i++)
        assert_true(ep_tree_add(&tree, node_of(&sample[i]), sample[i].kind, sample[i].label, 1, sample[i].value));
}

static void add_samples(uint64_t *dice, unsigned count)
{
    for (; count && samples < SAMPLES && !ep_tree_is_full(&tree); count--) {
        struct sample *s = &sample[samples++];
        *s = (struct sample){.depth = unit_random(dice) % (DEPTH + 1),
                             .kind = unit_random(dice) % 2 ? EP_KIND_CPU : EP_KIND_ALLOC,
                             .label = (unsigned)(unit_random(dice) % 3),
                             .value = unit_random(dice) % 1000};
        for (unsigned i = 0; i < s->depth; i++)
            s->frame[i] = EP_FRAME_FIRST_ADDRESS + 4 + (uint32_t)(unit_random(dice) % 30);
        for (unsigned i = 0; i < s->depth; i++)
            assert_true(ep_tree_descend(&tree, &s->node, s->frame[i]));
        assert_true(ep_tree_add(&tree, s->node, s->kind, s->label, 1, s->value));
    }
}

static unsigned marked_depth(unsigned node)
{
    unsigned depth = 0;

    for (; node; node = tree.node[node].parent)
        depth += ep_tree_is_marked(&tree, node);
    return depth;
}

static void fold_now(const struct ep_fold *fold)
{
    unsigned before[SAMPLES], marked[SAMPLES];

    for (unsigned i = 0; i < samples; i++)
        before[i] = node_of(&sample[i]);
    ep_tree_unmark(&tree);
    for (unsigned i = 0; i < samples; i += 3) /* these stay as they are */
        (void)ep_tree_mark(&tree, before[i]);
    for (unsigned i = 0; i < samples; i++)
        marked[i] = marked_depth(before[i]);
    ep_tree_fold(&tree, fold);
    for (unsigned i = 0; i < samples; i++) {
        fold_model(&sample[i], marked[i], fold);
        check_stack(before[i] ? tree.node[before[i]].entry : 0, &sample[i]);
    }
    ep_tree_folded(&tree, fold);
    check_shape(&tree);
    assert_int_equal(tree.node[tree.truncated].frame, EP_FRAME_TRUNCATED);
    check_weights();
}

TEST(test_folds_in_any_order)
{
    for (uint64_t seed = 1; seed <= 200; seed++) {
        uint64_t dice = seed;
        ep_tree_init(&tree, memory, 2048 + unit_random(&dice) % (sizeof memory - 2048));
        samples = 0;
        for (unsigned round = 0; round < 5; round++) {
            add_samples(&dice, 60);
            struct ep_fold fold = {.labels = unit_random(&dice) % 2,
                                   .frame = unit_random(&dice) % 2 ? tens : NULL,
                                   .depth = unit_random(&dice) % 2 ? 1 + (unsigned)(unit_random(&dice) % DEPTH) : 0};
            fold_now(&fold);
        }
    }
}

/* Folding labels leaves one entry for a stack and kind. */
TEST(test_entries_become_free)
{
    const struct ep_fold fold = {.labels = true};
    unsigned node = 0;

    ep_tree_init(&tree, memory, sizeof memory);
    unsigned reserved = tree.entries;
    assert_true(ep_tree_descend(&tree, &node, 1000));
    for (unsigned label = 0; label < 100; label++)
        assert_true(ep_tree_add(&tree, node, EP_KIND_CPU, label, 1, 10));
    assert_int_equal(tree.entries, reserved + 100);
    ep_tree_fold(&tree, &fold);
    ep_tree_folded(&tree, &fold);
    assert_int_equal(tree.entries, reserved + 1);
}

TEST(test_used_nodes_are_marked)
{
    for (uint64_t seed = 1; seed <= 50; seed++) {
        uint64_t dice = seed;
        ep_tree_init(&tree, memory, sizeof memory);
        samples = 0;
        add_samples(&dice, 50);
        ep_tree_clear_entries(&tree);
        unsigned old = samples;
        add_samples(&dice, 20);
        ep_tree_unmark(&tree);
        unsigned marked = ep_tree_mark_used(&tree);
        ep_tree_keep(&tree);
        ep_tree_clear_entries(&tree);
        check_shape(&tree);
        assert_int_equal(tree.node[tree.truncated].frame, EP_FRAME_TRUNCATED);
        assert_in_range(tree.nodes, marked, marked + 1u + 1u);
        for (unsigned i = old; i < samples; i++)
            (void)node_of(&sample[i]);
    }
}

TEST_MAIN
