/* Arrays with gaps: values by any id, and pages that stay where they are. */
#include "tools/lib/pages.h"
#include "tests/unit/test.h"

static uint64_t dice_state = 1;
static uint64_t dice(uint64_t sides)
{
    dice_state = dice_state * 6364136223846793005u + 1442695040888963407u;
    return (dice_state >> 33) % sides;
}

/* Close to 0, at the end of the table of near pages, far, and at the end of the numbers. */
static uint64_t any_id(void)
{
    static const uint64_t bases[] = {0, (uint64_t)ET_PAGE_VALUES << 19, (uint64_t)1 << 40, UINT64_MAX - 2000};
    uint64_t base = bases[dice(4)];
    return base - (base && base < UINT64_MAX / 2 ? 1000 : 0) + dice(2000);
}

TEST(values_are_those_of_a_map)
{
    struct et_pages pages = {0};
    struct et_map map = {0};
    for (int i = 0; i < 20000; i++) {
        uint64_t id = any_id(), *value = et_pages_at(&pages, id, sizeof *value), *wanted = et_map_at(&map, id);
        assert_true(*value == *wanted);
        *value = *wanted = 1 + dice(1000);
        uint64_t other = any_id(), *there = et_pages_find(&pages, other, sizeof *there);
        const uint64_t *known = et_map_find(&map, other);
        assert_true((there ? *there : 0) == (known ? *known : 0));
        assert_ptr_equal(et_pages_at(&pages, id, sizeof *value), value);
    }
    assert_true(pages.bytes > 4 * ET_PAGE_VALUES * sizeof(uint64_t) && pages.bytes < 6 << 20);
    et_pages_free(&pages);
    et_map_free(&map);
}

/* Few of many rows, as of one device of a fleet. */
TEST(distant_values_take_little)
{
    enum { COUNT = 20000, APART = 500 };
    struct et_pages pages = {0};
    for (uint64_t i = 0; i < COUNT; i++) {
        (void)et_pages_at(&pages, i * APART, 16);
    }
    assert_true(pages.bytes < 32 << 20);
    et_pages_free(&pages);
}

TEST(nothing_is_found_in_an_empty_array)
{
    struct et_pages pages = {0};
    assert_null(et_pages_find(&pages, 0, 8));
    assert_null(et_pages_find(&pages, UINT64_MAX, 8));
    et_pages_free(&pages);
}

TEST_MAIN
