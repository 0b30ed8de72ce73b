/* Flamebearers: the levels form a tree, sums, "other" for small nodes, two sides, empty profiles. */
#include "tools/formats/flamebearer.h"
#include "tests/unit/test.h"

static uint32_t node(struct et_profile *p, uint32_t parent, const char *name, uint64_t self)
{
    uint32_t frame = et_profile_frame(p, (struct et_frame){0});
    et_profile_line(p, &p->frames[frame], name, "", 0);
    uint32_t index = et_profile_node(p, parent, frame);
    p->nodes[index].self = self;
    p->total += self;
    return index;
}

static struct et_profile *small(void)
{
    struct et_profile *p = et_profile_new();
    uint32_t a = node(p, 0, "a", 1), b = node(p, a, "b", 2);
    node(p, b, "a", 4);
    node(p, a, "c", 8);
    node(p, 0, "d", 16);
    return p;
}

TEST(levels_match_clients_format)
{
    struct et_profile *p = small();
    struct et_flamebearer f;
    struct et_buf json = {0};
    et_flamebearer_make(p, 0, &f);
    et_flamebearer_json(&f, &json);
    assert_string_equal(json.data, "{\"names\":[\"total\",\"d\",\"a\",\"c\",\"b\"],\"levels\":[[0,31,0,0],"
                                   "[0,15,1,2,0,16,16,1],[1,6,2,4,0,8,8,3],[3,4,4,2]],\"numTicks\":31,\"maxSelf\":16}");
    et_buf_free(&json);
    et_flamebearer_free(&f);
    et_profile_free(p);
}

/* Every node lies within one node of the level above. A node's total is its self plus its children's totals. */
static void check_nesting(const struct et_flamebearer *f, int width, int side)
{
    for (size_t level = 0; level + 1 < f->level_count; level++) {
        const struct et_level *above = &f->levels[level], *below = &f->levels[level + 1];
        int64_t start = 0, at = 0;
        size_t k = 0;
        for (size_t i = 0; i < above->count; i += (size_t)width) {
            const int64_t *bar = &above->values[i + (size_t)side * 3];
            start += bar[0];
            int64_t end = start + bar[1], sum = bar[2];
            while (k < below->count &&
                   at + below->values[k + (size_t)side * 3] + below->values[k + (size_t)side * 3 + 1] <= end) {
                const int64_t *child = &below->values[k + (size_t)side * 3];
                assert_true(child[0] >= 0 && child[1] >= child[2] && child[2] >= 0);
                at += child[0];
                assert_true(at >= start);
                at += child[1];
                sum += child[1];
                k += (size_t)width;
            }
            assert_int_equal(sum, bar[1]);
            start = end;
        }
        assert_int_equal(k, below->count);
    }
}

static uint64_t seed = 5;

static unsigned any(unsigned below)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)((seed >> 33) % below);
}

static struct et_profile *random_profile(unsigned nodes)
{
    struct et_profile *p = et_profile_new();
    for (unsigned i = 0; i < nodes; i++) {
        char name[16];
        snprintf(name, sizeof name, "f%u", any(20));
        node(p, any((unsigned)p->node_count), name, 1 + any(1000));
    }
    p->nodes[0].self = 77;
    p->total += 77;
    return p;
}

static size_t nodes_of(const struct et_flamebearer *f, size_t width, uint32_t but)
{
    size_t nodes = 0;
    for (size_t i = 1; i < f->level_count; i++) {
        for (size_t k = width - 1; k < f->levels[i].count; k += width) {
            nodes += f->levels[i].values[k] != but;
        }
    }
    return nodes;
}

TEST(small_nodes_become_other)
{
    struct et_profile *p = random_profile(3000);
    static const uint64_t most[] = {1, 2, 10, 300, 2000, 1000000};
    size_t before = 0;
    for (size_t i = 0; i < sizeof most / sizeof *most; i++) {
        struct et_flamebearer f;
        et_flamebearer_make(p, most[i], &f);
        assert_int_equal(f.levels[0].count, 4);
        assert_int_equal(f.levels[0].values[1], p->total);
        check_nesting(&f, 4, 0);
        size_t nodes = nodes_of(&f, 4, et_intern(&f.names, "other"));
        assert_true(nodes >= before &&
                    nodes <= most[i] + most[i] / 5 + 2); /* nodes equal to the smallest, and [no stack] */
        before = nodes;
        et_flamebearer_free(&f);
    }
    assert_true(before > 2000);
    et_profile_free(p);
}

TEST(two_sides)
{
    struct et_profile *left = random_profile(500), *right = random_profile(800);
    struct et_flamebearer f;
    for (uint64_t most = 50; most <= 5000; most *= 10) {
        et_flamebearer_diff(left, right, most, &f);
        assert_int_equal(f.levels[0].count, 7);
        assert_int_equal(f.levels[0].values[1], left->total);
        assert_int_equal(f.levels[0].values[4], right->total);
        assert_int_equal(f.total[ET_LEFT], left->total);
        check_nesting(&f, 7, 0);
        check_nesting(&f, 7, 1);
        et_flamebearer_free(&f);
    }
    et_profile_free(left);
    et_profile_free(right);
}

TEST(empty_profile_has_a_level)
{
    struct et_profile *p = et_profile_new();
    struct et_flamebearer f;
    struct et_buf json = {0};
    et_flamebearer_make(p, 0, &f);
    et_flamebearer_json(&f, &json);
    assert_string_equal(json.data, "{\"names\":[\"total\"],\"levels\":[[0,0,0,0]],\"numTicks\":0,\"maxSelf\":0}");
    assert_int_equal(f.tree.size, 0);
    et_flamebearer_free(&f);
    et_flamebearer_diff(p, p, 0, &f);
    assert_int_equal(f.level_count, 1);
    assert_int_equal(f.levels[0].count, 7);
    et_flamebearer_free(&f);
    et_buf_free(&json);
    et_profile_free(p);
}

/* Reads the bytes like Pyroscope: sums and depths of the nodes. */
TEST(tree_bytes)
{
    struct et_profile *p = random_profile(400);
    struct et_flamebearer f;
    et_flamebearer_make(p, 100, &f);
    const uint8_t *at = (const uint8_t *)f.tree.data, *end = at + f.tree.size;
    uint64_t left[1100] = {1}, size, self, children, sum = 0;
    size_t depth = 1, nodes = 0;
    while (depth) {
        if (left[depth - 1]-- == 0) {
            depth--;
            continue;
        }
        assert_true(et_varint_get(&at, end, &size) && size <= (uint64_t)(end - at));
        at += size;
        assert_true(et_varint_get(&at, end, &self) && et_varint_get(&at, end, &children));
        sum += self;
        nodes++;
        left[depth++] = children;
        assert_true(depth < 1100);
    }
    assert_true(at == end);
    assert_int_equal(sum, p->total);
    assert_int_equal(nodes, 1 + nodes_of(&f, 4, UINT32_MAX));
    et_flamebearer_free(&f);
    et_profile_free(p);
}

TEST_MAIN
