/* The dictionary in memory: what it holds when nobody reads. */
#include "tools/store/resident.h"
#include "tests/unit/test.h"

enum { MOST = 32 << 20 };

/* As a profile with many nodes does. */
static void fill(struct et_resident *resident)
{
    for (uint64_t id = 1; resident->nodes.bytes <= MOST; id += ET_PAGE_VALUES) {
        (void)et_pages_at(&resident->nodes, id, sizeof(struct et_resident_node));
    }
}

static bool is_empty(struct et_residents *residents)
{
    struct et_resident *taken = et_resident_take(residents);
    bool empty = taken->nodes.bytes == 0;
    et_resident_release(residents, taken);
    return empty;
}

TEST(a_large_one_ends_with_its_user)
{
    struct et_residents *residents = et_residents_new();
    struct et_resident *first = et_resident_take(residents), *second = et_resident_take(residents);
    assert_ptr_equal(first, second);
    fill(first);
    et_resident_release(residents, first);
    assert_int_equal(second->users, 1); /* nobody but this one holds it */
    assert_true(et_pages_find(&second->nodes, 1, sizeof(struct et_resident_node)) != NULL);
    et_resident_release(residents, second);
    assert_true(is_empty(residents));
    et_residents_free(residents);
}

TEST(a_small_one_stays)
{
    struct et_residents *residents = et_residents_new();
    struct et_resident *taken = et_resident_take(residents);
    (void)et_pages_at(&taken->nodes, 1, sizeof(struct et_resident_node));
    et_resident_release(residents, taken);
    assert_false(is_empty(residents));
    et_residents_free(residents);
}

TEST_MAIN
