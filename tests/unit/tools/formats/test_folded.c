/* Folded text: sums are independent of the order of lines, stacks survive a round trip, names select kinds, errors name
 * the line. */
#include "tools/formats/folded.h"
#include "tools/formats/report.h"
#include "tests/unit/test.h"

static const struct et_folded bytes = {.kind = "alloc", .unit = "bytes"};
static uint32_t seed;

static uint32_t any(uint32_t below)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % below;
}

static struct et_profile *parse(const char *text, bool lines, const struct et_folded *what)
{
    struct et_buf why = {0};
    struct et_profile *profile = et_folded_parse(text, strlen(text), lines, what, &why);
    if (!profile) {
        fail_msg("%s: %s", text, why.data);
    }
    et_buf_free(&why);
    return profile;
}

/* Converts back to folded text; each frame's name is its line. */
static char *unparsed(struct et_profile *p)
{
    struct et_buf out = {0};
    for (size_t i = 1; i < p->frame_count; i++) {
        struct et_frame frame = p->frames[i];
        char special[32];
        et_special_name(frame.address, special);
        char *name = et_strdup(frame.name ? et_text(&p->strings, frame.name) : special);
        et_profile_line(p, &frame, name, "", 0);
        p->frames[i] = frame;
        free(name);
    }
    et_report_folded(p, &out);
    return out.data ? out.data : et_strdup("");
}

TEST(stacks_survive_a_round_trip)
{
    struct et_profile *p =
        parse("main;a b;c 3\nmain;d 4\r\n\nmain;a b;c 5\nmain 7  \nx;; y;z 0\nmain;a b 1", false, &bytes);
    char *out = unparsed(p);
    assert_non_null(strstr(out, "main;a b;c 8\n"));
    assert_non_null(strstr(out, "main;d 4\n"));
    assert_non_null(strstr(out, "main;a b 1\n"));
    assert_null(strstr(out, "x;"));
    assert_int_equal(p->total, 20);
    assert_int_equal(p->entry_count, 4);
    free(out);
    et_profile_free(p);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Sorts the lines of a text. */
static char *sorted(char *text)
{
    char *lines[64], *rest = text, *line;
    size_t count = 0;
    struct et_buf out = {0};
    while ((line = strsep(&rest, "\n")) && count < 64) {
        lines[count++] = line;
    }
    qsort(lines, count, sizeof *lines, by_text);
    for (size_t i = 0; i < count; i++) {
        et_buf_printf(&out, "%s\n", lines[i]);
    }
    free(text);
    return out.data;
}

TEST(order_does_not_matter)
{
    for (uint32_t round = 1; round < 200; round++) {
        char stacks[24][32];
        struct et_buf forth = {0}, back = {0};
        seed = round;
        for (size_t i = 0; i < 24; i++) {
            snprintf(stacks[i], sizeof stacks[i], "f%u;f%u;f%u %u\n", any(3), any(3), any(3), any(50));
        }
        for (size_t i = 0; i < 24; i++) {
            et_buf_text(&forth, stacks[i]);
            et_buf_text(&back, stacks[23 - i]);
        }
        struct et_profile *a = parse(forth.data, false, &bytes), *b = parse(back.data, false, &bytes);
        char *x = sorted(unparsed(a)), *y = sorted(unparsed(b));
        assert_string_equal(x, y);
        assert_int_equal(a->total, b->total);
        free(x);
        free(y);
        et_profile_free(a);
        et_profile_free(b);
        et_buf_free(&forth);
        et_buf_free(&back);
    }
}

TEST(lines_count_one_each)
{
    struct et_folded cpu;
    size_t size;
    assert_true(et_folded_kind("app.cpu", &size, "", false, 100, &cpu));
    struct et_profile *p = parse("a;b\na;b\na;c 7\n", true, &cpu);
    char *out = unparsed(p);
    assert_non_null(strstr(out, "a;b 20000000\n"));
    assert_non_null(strstr(out, "a;c 7 10000000\n"));
    assert_int_equal(p->samples, 3);
    assert_int_equal(p->counts, 3);
    assert_int_equal(p->period, 10000000);
    free(out);
    et_profile_free(p);
}

TEST(names_and_units_select_the_kind)
{
    static const struct {
        const char *name, *units;
        bool average;
        const char *kind;
        size_t service;
        bool count;
        uint64_t period;
    } cases[] = {
        {"app", "", false, "cpu", 3, true, 10000000},
        {"app.cpu", "bytes", false, "cpu", 3, true, 10000000},
        {"a.b.itimer", "", false, "cpu", 3, true, 10000000},
        {"app.wall", "", false, "wall", 3, true, 10000000},
        {"app.alloc_objects", "", false, "alloc", 3, true, 0},
        {"app.alloc_space", "", false, "alloc", 3, false, 0},
        {"app.inuse_objects", "", true, "live", 3, true, 0},
        {"app.inuse_space", "", true, "live", 3, false, 0},
        {"app.goroutines", "", true, "thread", 3, false, 0},
        {"app.mutex_count", "", false, "lock", 3, true, 0},
        {"app.mutex_duration", "", false, "lock", 3, false, 0},
        {"app.block_count", "", false, "wait", 3, true, 0},
        {"app.block_duration", "", false, "wait", 3, false, 0},
        {"app.exceptions", "", false, "exception", 3, false, 0},
        {"my.app", "", false, "cpu", 6, true, 10000000},
        {"my.app", "objects", false, "alloc", 6, true, 0},
        {"my.app", "objects", true, "live", 6, true, 0},
        {"my.app", "bytes", true, "live", 6, false, 0},
        {"my.app", "bytes", false, "alloc", 6, false, 0},
        {"my.app", "lock_nanoseconds", false, "lock", 6, false, 0},
        {"my.app", "lock_samples", false, "lock", 6, true, 0},
        {"my.app", "goroutines", false, "thread", 6, false, 0},
        {".cpu", "", false, "cpu", 4, true, 10000000},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct et_folded what;
        size_t service = 0;
        bool known = et_folded_kind(cases[i].name, &service, cases[i].units, cases[i].average, 100, &what);
        if (!known || strcmp(what.kind, cases[i].kind) != 0 || service != cases[i].service ||
            what.count != cases[i].count || what.period != cases[i].period) {
            fail_msg("%s, %s: %s, %zu, %d, %llu", cases[i].name, cases[i].units, what.kind, service, what.count,
                     (unsigned long long)what.period);
        }
    }
    struct et_folded what;
    size_t service;
    assert_false(et_folded_kind("app", &service, "parsecs", false, 100, &what));
}

TEST(deep_stacks_keep_their_leaf)
{
    struct et_buf text = {0};
    for (int i = 0; i < 3000; i++) {
        et_buf_printf(&text, "f%d;", i);
    }
    et_buf_text(&text, "leaf 5\n");
    struct et_profile *p = parse(text.data, false, &bytes);
    size_t depth = 0;
    uint32_t top = 0;
    assert_string_equal(et_text(&p->strings, p->frames[p->nodes[p->entries[0].node].frame].name), "leaf");
    for (uint32_t node = p->entries[0].node; node; node = p->nodes[node].parent) {
        depth++;
        top = node;
    }
    assert_int_equal(depth, ET_MAX_DEPTH);
    assert_int_equal(p->frames[p->nodes[top].frame].address, 3);
    et_profile_free(p);
    et_buf_free(&text);
}

TEST(errors_name_the_line)
{
    struct et_folded cpu;
    size_t size;
    assert_true(et_folded_kind("app", &size, "", false, 1, &cpu));
    static const struct {
        const char *text, *why;
    } cases[] = {
        {"a 1\nb", "line 2: expected a;b;c 42"},
        {"a;b 1\nc;d x\n", "line 2: expected a;b;c 42"},
        {"a -1", "line 1: expected a;b;c 42"},
        {"a 1.5x", "line 1: expected a;b;c 42"},
        {"a .5", "line 1: expected a;b;c 42"},
        {"a 1.2.3", "line 1: expected a;b;c 42"},
        {" 1", "line 1: expected a;b;c 42"},
        {"17", "line 1: expected a;b;c 42"},
        {"a 9999999999999999999999", "line 1: expected a;b;c 42"},
        {"a 999999999999999999", "line 1: the number is too large"},
        {"a 9000000000\na 9000000000", "line 2: the sum"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct et_buf why = {0};
        assert_null(et_folded_parse(cases[i].text, strlen(cases[i].text), false, &cpu, &why));
        if (!strstr(why.data, cases[i].why)) {
            fail_msg("%s: %s", cases[i].text, why.data);
        }
        et_buf_free(&why);
    }
}

TEST(numbers_may_have_decimals)
{
    struct et_folded cpu;
    size_t size;
    struct et_profile *p = parse("a 1.5\nb 2.\nc 0.4\nd 0.25", false, &bytes);
    assert_int_equal(p->values, 2 + 2);
    et_profile_free(p);
    assert_true(et_folded_kind("app", &size, "", false, 100, &cpu));
    p = parse("a 1.5\nb 0.25\nc 0.000000001", false, &cpu);
    assert_int_equal(p->values, 17500000);
    assert_int_equal(p->counts, 2);
    et_profile_free(p);
}

TEST(a_bad_line_costs_itself)
{
    struct et_buf why = {0};
    const char text[] = "a 1\nb;c\nd 2\ne 3";
    struct et_profile *p = et_folded_parse(text, strlen(text), false, &bytes, &why);
    assert_non_null(p);
    assert_int_equal(p->values, 6);
    assert_string_equal(why.data, "folded text, line 2: expected a;b;c 42; 1 of 4 lines are left out");
    et_buf_free(&why);
    et_profile_free(p);
}

TEST(many_calls_are_bounded)
{
    struct et_buf text = {0}, why = {0};
    for (int line = 0; line < 1200; line++) {
        et_buf_printf(&text, "%d", line);
        for (int i = 0; i < 1000; i++) {
            et_buf_text(&text, ";x");
        }
        et_buf_text(&text, " 1\n");
    }
    assert_null(et_folded_parse(text.data, text.size, false, &bytes, &why));
    assert_non_null(strstr(why.data, "more than a million calls"));
    et_buf_free(&text);
    et_buf_free(&why);
}

TEST_MAIN
