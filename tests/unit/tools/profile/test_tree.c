/* The tree: sums, recursion, inlined calls, pruning; JSON and SVG with hostile names; parsing of times and names. */
#include "tools/formats/html.h"
#include "tools/lib/labels.h"
#include "tools/formats/json.h"
#include "tools/formats/report.h"
#include "tools/formats/speedscope.h"
#include "tools/profile/callers.h"
#include "tools/profile/granularity.h"
#include "tools/profile/tree.h"
#include "tools/lib/time_text.h"
#include "tools/store/query_builder.h"
#include "tests/unit/test.h"

/* A frame of one named function. */
static uint32_t frame(struct et_profile *p, const char *name)
{
    uint32_t index = et_profile_frame(p, (struct et_frame){0});
    et_profile_line(p, &p->frames[index], name, "", 0);
    return index;
}

static uint32_t node(struct et_profile *p, uint32_t parent, const char *name, uint64_t self)
{
    uint32_t index = et_profile_node(p, parent, frame(p, name));
    p->nodes[index].self = self;
    p->total += self;
    return index;
}

static const struct et_function *row(const struct et_profile *p, const struct et_table *table, const char *name)
{
    for (size_t i = 0; i < table->count; i++) {
        if (strcmp(et_text(&p->strings, table->rows[i].function), name) == 0) {
            return &table->rows[i];
        }
    }
    fail_msg("no row %s", name);
    return NULL;
}

TEST(sums_and_recursion)
{
    struct et_profile *p = et_profile_new();
    struct et_table table;
    uint32_t a = node(p, 0, "a", 1), b = node(p, a, "b", 2), again = node(p, b, "a", 4);
    node(p, again, "c", 8);
    node(p, a, "b", 16); /* another address of b */
    et_table_make(p, &table);
    assert_int_equal(table.count, 3);
    assert_int_equal(row(p, &table, "a")->self, 5);
    assert_int_equal(row(p, &table, "a")->total, 31); /* not 31 + 12 */
    assert_int_equal(row(p, &table, "b")->self, 18);
    assert_int_equal(row(p, &table, "b")->total, 30);
    assert_int_equal(row(p, &table, "c")->total, 8);
    assert_string_equal(et_text(&p->strings, table.rows[0].function), "b");
    struct et_tree tree;
    et_tree_make(p, 100, &tree);
    assert_int_equal(tree.count, 5); /* root, a, b, a, c: both b are one */
    assert_int_equal(tree.calls[0].total, 31);
    et_tree_free(&tree);
    et_table_free(&table);
    et_profile_free(p);
}

TEST(inlined_lines_are_calls)
{
    struct et_profile *p = et_profile_new();
    uint32_t index = et_profile_frame(p, (struct et_frame){0});
    et_profile_line(p, &p->frames[index], "innermost", "x.c", 3);
    et_profile_line(p, &p->frames[index], "outermost", "x.c", 9);
    uint32_t leaf = et_profile_node(p, 0, index);
    p->nodes[leaf].self = p->total = 7;
    struct et_buf out = {0};
    et_report_folded(p, &out);
    assert_string_equal(out.data, "outermost;innermost 7\n");
    et_buf_free(&out);
    et_profile_free(p);
}

/* A node at one line of a function. */
static uint32_t at_line(struct et_profile *p, uint32_t parent, const char *name, uint32_t line, uint64_t self)
{
    uint32_t index = et_profile_frame(p, (struct et_frame){0});
    et_profile_line(p, &p->frames[index], name, "x.c", line);
    uint32_t leaf = et_profile_node(p, parent, index);
    p->nodes[leaf].self = self;
    p->total += self;
    return leaf;
}

/* main calls work from its lines 3 and 5. Work is first seen at its line 10, and spends most time in line 12. */
static struct et_profile *profile_with_lines(bool reversed)
{
    struct et_profile *p = et_profile_new();
    for (int i = 0; i < 2; i++) {
        bool hot = (i == 1) != reversed;
        uint32_t caller = at_line(p, 0, "main", hot ? 5 : 3, 0);
        if (hot) {
            at_line(p, caller, "work", 0, 40); /* code that no line is known of */
            at_line(p, caller, "work", 12, 20);
        }
        at_line(p, caller, "work", 10, hot ? 3 : 1);
        if (hot) {
            at_line(p, caller, "work", 12, 10); /* another address of the line */
        }
    }
    return p;
}

TEST(functions_have_their_hottest_line)
{
    for (int reversed = 0; reversed < 2; reversed++) {
        struct et_profile *p = profile_with_lines(reversed);
        struct et_table table;
        struct et_tree tree;
        struct et_callers callers;
        et_table_make(p, &table);
        assert_int_equal(row(p, &table, "work")->line, 12);
        assert_int_equal(row(p, &table, "main")->line, 5);
        et_tree_make(p, 100, &tree);
        assert_int_equal(tree.count, 3);
        assert_int_equal(tree.calls[1].line, 5);
        assert_int_equal(tree.calls[2].line, 12);
        et_callers_make(p, "work", 100, &callers);
        assert_int_equal(callers.called_by.rows[0].line, 5);
        et_callers_free(&callers);
        et_callers_make(p, "main", 100, &callers);
        assert_int_equal(callers.calls.rows[0].line, 12);
        et_callers_free(&callers);
        et_tree_free(&tree);
        et_table_free(&table);
        et_profile_free(p);
    }
}

/* speedscope has one frame for a function that two others call. */
TEST(frames_of_speedscope_have_it_too)
{
    struct et_profile *p = et_profile_new();
    struct et_buf out = {0};
    at_line(p, at_line(p, 0, "first", 3, 0), "work", 10, 1);
    at_line(p, at_line(p, 0, "second", 4, 0), "work", 12, 30);
    et_speedscope(p, &out);
    assert_non_null(strstr(out.data, "{\"name\":\"work\",\"file\":\"x.c\",\"line\":12}"));
    et_buf_free(&out);
    et_profile_free(p);
}

/* A stack counts once in a line's total, however often the line is in it. */
TEST(recursion_counts_once_in_a_line)
{
    struct et_profile *p = et_profile_new();
    struct et_table table;
    uint32_t once = at_line(p, 0, "f", 5, 1), twice = at_line(p, once, "f", 5, 2);
    at_line(p, at_line(p, twice, "g", 7, 4), "f", 9, 8);
    et_table_make(p, &table);
    const struct et_function *f = row(p, &table, "f");
    const struct et_hot_line *lines = &table.lines[f->first_line];
    assert_int_equal(f->total, 15);
    assert_int_equal(f->line_count, 2);
    assert_true(lines[0].line == 5 && lines[0].self == 3 && lines[0].total == 15);
    assert_true(lines[1].line == 9 && lines[1].self == 8 && lines[1].total == 8);
    et_table_free(&table);
    et_profile_free(p);
}

/* As go tool pprof -lines names them. */
TEST(lines_have_names)
{
    struct et_profile *p = profile_with_lines(false);
    struct et_table table;
    et_profile_name_lines(p, ET_GRANULARITY_FUNCTION);
    assert_false(p->by_line);
    et_profile_name_lines(p, ET_GRANULARITY_LINE);
    assert_true(p->by_line);
    et_table_make(p, &table);
    assert_int_equal(table.count, 5);
    assert_int_equal(row(p, &table, "work x.c")->self, 40);
    assert_int_equal(row(p, &table, "work x.c:12")->self, 30);
    assert_int_equal(row(p, &table, "main x.c:5")->total, 73);
    et_table_free(&table);
    et_profile_free(p);
}

/* Equal stacks become one, with the sums of each set of labels. */
TEST(stacks_are_merged)
{
    static const struct {
        enum et_granularity granularity;
        size_t nodes, entries;
    } cases[] = {{ET_GRANULARITY_DEFAULT, 8, 6}, {ET_GRANULARITY_LINE, 7, 5}, {ET_GRANULARITY_FUNCTION, 3, 2}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct et_profile *p = profile_with_lines(false);
        uint32_t labels = et_intern(&p->strings, "step=a\n");
        uint64_t sum = 0;
        for (uint32_t i = 1; i < p->node_count; i++) {
            if (p->nodes[i].self) {
                et_profile_entry(p, &(struct et_entry){.node = i, .value = p->nodes[i].self});
            }
        }
        et_profile_entry(p, &(struct et_entry){.node = 2, .labels = labels, .value = 5});
        p->nodes[2].self += 5;
        et_profile_aggregate(p, cases[k].granularity);
        assert_int_equal(p->node_count, cases[k].nodes);
        assert_int_equal(p->entry_count, cases[k].entries);
        for (uint32_t i = 0; i < p->node_count; i++) {
            assert_true(i == 0 || p->nodes[i].parent < i);
            sum += p->nodes[i].self;
        }
        assert_int_equal(sum, 79);
        assert_int_equal(p->entries[p->entry_count - 1].labels, labels);
        et_profile_free(p);
    }
}

TEST(pruning_keeps_the_largest)
{
    struct et_profile *p = et_profile_new();
    for (uint64_t i = 1; i <= 1000; i++) {
        char name[16];
        snprintf(name, sizeof name, "f%u", (unsigned)i);
        uint32_t outer = node(p, 0, name, 0);
        node(p, outer, "leaf", i);
    }
    struct et_tree tree;
    et_tree_make(p, 101, &tree);
    assert_int_equal(tree.count, 101);
    assert_int_equal(tree.pruned, 2001 - 101);
    assert_int_equal(tree.calls[0].total, 500500);
    uint64_t before = UINT64_MAX, seen = 0;
    for (uint32_t call = tree.calls[0].first_child; call; call = tree.calls[call].next) {
        assert_true(tree.calls[call].total <= before);
        before = tree.calls[call].total;
        seen++;
        assert_true(tree.calls[call].total >= 951);
        assert_int_equal(tree.calls[call].parent, 0);
    }
    assert_int_equal(seen, 50);
    et_tree_free(&tree);
    et_profile_free(p);
}

TEST(deep_stacks_are_written)
{
    struct et_profile *p = et_profile_new();
    uint32_t at = 0;
    for (int i = 0; i < 5000; i++) {
        at = node(p, at, "deep", i == 4999);
    }
    struct et_buf json = {0}, svg = {0};
    et_json_profile(&json, p, 10);
    et_flame_svg(p, &svg);
    size_t open = 0, close = 0;
    for (size_t i = 0; i < json.size; i++) {
        open += json.data[i] == '{' || json.data[i] == '[';
        close += json.data[i] == '}' || json.data[i] == ']';
    }
    assert_int_equal(open, close);
    assert_true(open > 10000);
    et_buf_free(&json);
    et_buf_free(&svg);
    et_profile_free(p);
}

TEST(names_are_never_markup)
{
    struct et_profile *p = et_profile_new();
    node(p, 0, "</script><script>alert(\"1\")</script>&'\\", 5);
    struct et_buf html = {0}, svg = {0};
    et_flame_html(p, &html);
    et_flame_svg(p, &svg);
    assert_null(strstr(html.data, "<script>alert"));
    assert_null(strstr(svg.data, "<script"));
    assert_non_null(strstr(html.data, "\\u003c/script\\u003e"));
    assert_non_null(strstr(svg.data, "&lt;/script&gt;"));
    et_buf_free(&html);
    et_buf_free(&svg);
    et_profile_free(p);
}

TEST(text_is_cleaned)
{
    static const struct {
        const char *dirty, *clean;
    } cases[] = {
        {"plain", "plain"},
        {"\x1b[31mred", "?[31mred"},
        {"a\nb\tc\x7f", "a?b?c?"},
        {"gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f"},
        {"\xff\xc3", "??"},
        {"\xc0\xaf", "??"},
        {"\xed\xa0\x80", "???"},
        {"\xe2\x80\xae", "???"},
        {"\xf0\x9f\x94\xa5", "\xf0\x9f\x94\xa5"},
        {"\xf4\x90\x80\x80", "????"},
        {"\xc2\x9b", "??"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *clean = et_clean(cases[i].dirty, strlen(cases[i].dirty));
        assert_string_equal(clean, cases[i].clean);
        free(clean);
    }
}

TEST(times_are_understood)
{
    int64_t ns, now = et_now();
    assert_true(et_parse_time("1700000000", &ns) && ns == 1700000000000000000);
    assert_true(et_parse_time("1700000000.25", &ns) && ns == 1700000000250000000);
    assert_true(et_parse_time("1700000000123", &ns) && ns == 1700000000123000000);
    assert_true(et_parse_time("1700000000123456789", &ns) && ns == 1700000000123456789);
    assert_true(et_parse_time("2023-11-14T22:13:20Z", &ns) && ns == 1700000000000000000);
    assert_true(et_parse_time("2023-11-14T22:13", &ns) && ns == 1699999980000000000);
    assert_true(et_parse_time("2023-11-14", &ns) && ns == 1699920000000000000);
    assert_true(et_parse_time("now", &ns) && ns >= now);
    assert_true(et_parse_time("now-1h", &ns) && ns >= now - 3600000000000 && ns < now);
    static const char *const wrong[] = {"",
                                        "x",
                                        "now-",
                                        "now-0s",
                                        "now-5",
                                        "1.2.3",
                                        "12x",
                                        "2023-13-45",
                                        "-5",
                                        "99999999999999999999999",
                                        "1700000000.",
                                        "now-9999999d",
                                        "1e9"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        if (et_parse_time(wrong[i], &ns)) {
            fail_msg("'%s' was understood", wrong[i]);
        }
    }
    assert_true(et_parse_duration("90s", &ns) && ns == 90000000000);
    assert_true(et_parse_duration("7d", &ns) && ns == 604800000000000);
    assert_false(et_parse_duration("7", &ns) || et_parse_duration("d", &ns) || et_parse_duration("-1s", &ns) ||
                 et_parse_duration("1w", &ns) || et_parse_duration("1ss", &ns));
}

TEST(services_with_tags_are_understood)
{
    struct et_query_builder wanted = {0};
    assert_true(et_query_builder_name(&wanted, "svc{a=b,c=\"d,e}\"}"));
    assert_string_equal(wanted.query.service, "svc");
    assert_int_equal(wanted.query.matcher_count, 2);
    assert_string_equal(wanted.query.matchers[0].value, "b");
    assert_string_equal(wanted.query.matchers[1].value, "d,e}");
    assert_true(et_query_builder_name(&wanted, "svc{}"));
    assert_true(et_query_builder_name(&wanted, "plain"));
    static const char *const wrong[] = {"s{", "s{a}", "s{a=b", "s{=b}", "s{a=\"b}", "s{a=b}x", "s{a=b;c=d", "s{a=b}}"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        if (et_query_builder_name(&wanted, wrong[i])) {
            fail_msg("'%s' was understood", wrong[i]);
        }
    }
    et_query_builder_free(&wanted);
}

TEST(tags_are_sorted_and_unique)
{
    struct et_labels tags = {0};
    et_labels_add(&tags, "b", "1");
    et_labels_add(&tags, "a", "x\ny");
    et_labels_add(&tags, "b", "2");
    et_labels_add(&tags, "ab", "3");
    char *lines = et_labels_join(&tags);
    assert_string_equal(lines, "a=x?y\nab=3\nb=2\n");
    free(lines);
}

TEST_MAIN
