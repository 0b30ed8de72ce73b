/* The list of optional features (core/sample/feature.h). */
#include "unit.h"

#include "core/sample/feature.h"

static void stop_note(struct ep *ep, uint64_t deadline_ns)
{
    (void)ep;
    (void)deadline_ns;
}

static void forked_note(void) {}

static const struct ep_feature stops = {.name = "stops", .stop = stop_note},
                               both = {.stop = stop_note, .forked = forked_note},
                               forks = {.name = "forks", .forked = forked_note};

static unsigned stopping(void)
{
    unsigned count = 0;

    EP_EACH_FEATURE (at, stop) {
        assert_ptr_equal(at.feature->stop, stop_note);
        count++;
    }
    return count;
}

static int empty(void **state)
{
    (void)state;
    ep_feature_remove(&stops);
    ep_feature_remove(&both);
    ep_feature_remove(&forks);
    return 0;
}

TEST_WITH(test_only_features_with_the_moment, empty, NULL)
{
    assert_false(EP_HAS_FEATURE(stop));
    assert_int_equal(ep_feature_add(&forks), 0);
    assert_false(EP_HAS_FEATURE(stop));
    assert_true(EP_HAS_FEATURE(forked));
    assert_int_equal(ep_feature_add(&stops), 0);
    assert_int_equal(ep_feature_add(&both), 0);
    assert_int_equal(stopping(), 2);
}

TEST_WITH(test_order_is_that_of_registration, empty, NULL)
{
    struct ep_feature_walk walk = {0};

    (void)ep_feature_add(&both);
    (void)ep_feature_add(&stops);
    assert_true(ep_feature_next(&walk, offsetof(struct ep_feature, stop)));
    assert_ptr_equal(walk.feature, &both);
    assert_true(ep_feature_next(&walk, offsetof(struct ep_feature, stop)));
    assert_ptr_equal(walk.feature, &stops);
    assert_false(ep_feature_next(&walk, offsetof(struct ep_feature, stop)));
}

TEST_WITH(test_add_is_idempotent, empty, NULL)
{
    for (unsigned i = 0; i < 2 * EP_FEATURES; i++)
        assert_int_equal(ep_feature_add(&stops), 0);
    assert_int_equal(stopping(), 1);
    ep_feature_remove(&stops);
    assert_int_equal(stopping(), 0);
    ep_feature_remove(&stops);
    (void)ep_feature_add(&stops);
    (void)ep_feature_add(&both);
    ep_feature_remove(&stops);
    assert_int_equal(ep_feature_add(&both), 0); /* behind a free place */
    assert_int_equal(stopping(), 1);
}

TEST_WITH(test_list_is_bounded, empty, NULL)
{
    struct ep_feature many[EP_FEATURES + 1];

    for (unsigned i = 0; i <= EP_FEATURES; i++)
        many[i] = (struct ep_feature){.stop = stop_note};
    for (unsigned i = 0; i < EP_FEATURES; i++)
        assert_int_equal(ep_feature_add(&many[i]), 0);
    assert_int_equal(ep_feature_add(&many[EP_FEATURES]), -ENOSPC);
    assert_int_equal(stopping(), EP_FEATURES);
    ep_feature_remove(&many[3]);
    assert_int_equal(ep_feature_add(&many[EP_FEATURES]), 0); /* a free place is used again */
    for (unsigned i = 0; i <= EP_FEATURES; i++)
        ep_feature_remove(&many[i]);
    assert_int_equal(stopping(), 0);
}

/* A feature that leaves in its own moment ends no walk. */
TEST_WITH(test_removal_within_a_walk, empty, NULL)
{
    unsigned count = 0;

    (void)ep_feature_add(&stops);
    (void)ep_feature_add(&both);
    EP_EACH_FEATURE (at, stop) {
        ep_feature_remove(at.feature);
        count++;
    }
    assert_int_equal(count, 2);
    assert_int_equal(stopping(), 0);
}

TEST_MAIN
