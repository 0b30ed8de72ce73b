/* The shape of a tree: each node but the root comes once among its parent's children, after it, and no two of them have
 * one frame. */
#ifndef SHAPE_H
#define SHAPE_H

static inline void check_shape(const struct ep_tree *tree)
{
    assert_true(tree->nodes <= tree->node_capacity && tree->entries <= tree->entry_capacity);
    assert_int_equal(tree->node[0].parent, 0);
    for (unsigned id = 1; id < tree->nodes; id++) {
        unsigned parent = tree->node[id].parent, found = 0;
        assert_true(parent < id);
        for (unsigned child = tree->node[parent].child; child; child = tree->node[child].sibling) {
            assert_true(child < tree->nodes && tree->node[child].parent == parent);
            found += child == id;
            assert_true(child == id || tree->node[child].frame != tree->node[id].frame);
        }
        assert_int_equal(found, 1);
    }
}

#endif
