/* Selectors: accepted forms, errors, and the cost of hostile expressions. */
#include "tools/lib/selector.h"
#include "tests/unit/test.h"

#include <time.h>

static bool matches(const char *text, const char *value)
{
    struct et_selector selector = {0};
    const char *why = NULL;
    if (!et_selector_parse(&selector, text, &why)) {
        fail_msg("%s: %s", text, why);
    }
    bool found = et_matcher_matches(&selector.matchers[0], value, strlen(value));
    et_selector_free(&selector);
    return found;
}

TEST(each_form_is_understood)
{
    static const struct {
        const char *text, *name, *key, *value;
        enum et_match how;
        size_t count;
    } cases[] = {
        {"svc", "svc", NULL, NULL, 0, 0},
        {"svc{}", "svc", NULL, NULL, 0, 0},
        {"{a=b}", "", "a", "b", ET_MATCH_EQUAL, 1},
        {"s{version=1.2.3}", "s", "version", "1.2.3", ET_MATCH_EQUAL, 1},
        {"s{version=\"1.2.3\",}", "s", "version", "1.2.3", ET_MATCH_EQUAL, 1},
        {"s{ a != b , c = d }", "s", "a", "b", ET_MATCH_NOT_EQUAL, 2},
        {"s{a=~\"pi-.*\",b!~x}", "s", "a", "pi-.*", ET_MATCH_REGEX, 2},
        {"s{a!~`\\w+`}", "s", "a", "\\w+", ET_MATCH_NOT_REGEX, 1},
        {"s{\"a.b\"='q\\'\\\\\"}'}", "s", "a.b", "q'\\\"}", ET_MATCH_EQUAL, 1},
        {"s{a=\"\"}", "s", "a", "", ET_MATCH_EQUAL, 1},
        {"s{a=}", "s", "a", "", ET_MATCH_EQUAL, 1},
        {"s{a=x=y~z}", "s", "a", "x=y~z", ET_MATCH_EQUAL, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct et_selector s = {0};
        const char *why = NULL;
        if (!et_selector_parse(&s, cases[i].text, &why)) {
            fail_msg("%s: %s", cases[i].text, why);
        }
        assert_string_equal(s.name, cases[i].name);
        assert_int_equal(s.count, cases[i].count);
        if (s.count) {
            assert_string_equal(s.matchers[0].name, cases[i].key);
            assert_string_equal(s.matchers[0].value, cases[i].value);
            assert_int_equal(s.matchers[0].how, cases[i].how);
        }
        struct et_buf text = {0}, again = {0};
        et_selector_print(s.name, s.matchers, s.count, &text);
        struct et_selector second = {0};
        assert_true(et_selector_parse(&second, text.data, &why));
        et_selector_print(second.name, second.matchers, second.count, &again);
        assert_string_equal(text.data, again.data);
        et_buf_free(&text);
        et_buf_free(&again);
        et_selector_free(&second);
        et_selector_free(&s);
    }
}

TEST(selector_errors_are_described)
{
    static const char *const wrong[] = {
        "s{",          "s{a}",         "s{a=b",           "s{=b}",       "s{a=\"b}",
        "s{a=b}x",     "s{a=b;c=d",    "s{a=b}}",         "s{a=\"b\"c}", "s{a~b}",
        "s{a=~\"(\"}", "s{a=\"\\q\"}", "s{a=~\"\\\\C\"}", "s{,}",        "s{a=~\"((a{1,255}){1,255}){1,255}\"}"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct et_selector selector = {0};
        const char *why = NULL;
        if (et_selector_parse(&selector, wrong[i], &why)) {
            fail_msg("'%s' was understood", wrong[i]);
        }
        assert_non_null(why);
        et_selector_free(&selector);
    }
}

TEST(values_match)
{
    assert_true(matches("{a=x}", "x") && !matches("{a=x}", "xy") && !matches("{a=x}", ""));
    assert_true(matches("{a!=x}", "") && matches("{a!=x}", "y") && !matches("{a!=x}", "x"));
    assert_true(matches("{a=~\"pi-.*\"}", "pi-7") && !matches("{a=~\"pi-.*\"}", "a-pi-7"));
    assert_true(matches("{a=~\"a|ab\"}", "ab") && !matches("{a=~\"a|ab\"}", "abc"));
    assert_true(!matches("{a!~\"\\\\d+\"}", "12") && matches("{a!~\"\\\\d+\"}", "1x"));
    assert_true(matches("{a=~\".*\"}", "a\nb") && matches("{a=~\".*\"}", "\xff") == false);
}

/* The limit counts steps, so the time is compared only loosely with that of a harmless expression: without the limit 30
 * bytes of this expression take 2^30 steps. */
TEST(hostile_expressions_end)
{
    clock_t start = clock();
    assert_false(matches("{a=~\"(a+)+$\"}", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab"));
    assert_false(matches("{a=~\"(x+x+)+y\"}", "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"));
    assert_true(clock() - start < 5 * CLOCKS_PER_SEC);
}

/* The value matches the second alternative, after 2^20 steps of the first. */
TEST(expressions_cannot_raise_the_limits)
{
    assert_true(matches("{a=~\"(?:(?:a+)+b|a+)\"}", "aaa"));
    assert_false(matches("{a=~\"(?:(?:a+)+b|a+)\"}", "aaaaaaaaaaaaaaaaaaaa"));
    assert_false(matches("{a=~\"(*LIMIT_MATCH=4000000000)(?:(?:a+)+b|a+)\"}", "aaaaaaaaaaaaaaaaaaaa"));
    assert_false(matches("{a=~\"(*LIMIT_MATCH=4000000000)(*LIMIT_DEPTH=4000000000)(*LIMIT_HEAP=4000000000)"
                         "(?:(?:a+)+b|a+)\"}",
                         "aaaaaaaaaaaaaaaaaaaa"));
    assert_false(matches("{a=~\"(*LIMIT_MATCH=1)(?:(?:a+)+b|a+)\"}", "aaa"));
}

TEST_MAIN
