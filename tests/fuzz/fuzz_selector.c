/*
 * Any bytes as a selector: tools/lib/selector.c.
 *
 * Checked: what is refused has a reason; what is read is printed as something that reads and prints the same; a matcher
 * and its opposite never agree, whatever the value; memory is bounded by the input's size and given back; CPU time is
 * bounded, also of regular expressions.
 */
#include "spend.h"
#include "tools/lib/selector.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* pcre2 compiles a few bytes to kilobytes: "a{200}". */
enum { MEMORY_FIXED = 2097152, MEMORY_PER_BYTE = 65536 };

static void print(const struct et_selector *selector, struct et_buf *out)
{
    et_selector_print(selector->name, selector->matchers, selector->count, out);
    et_buf_char(out, '\0');
}

static void printed_again(const struct et_selector *selector)
{
    struct et_selector other = {.strict = selector->strict};
    struct et_buf text = {0}, again = {0};
    const char *why = NULL;
    print(selector, &text);
    REQUIRE(et_selector_parse(&other, text.data, &why));
    print(&other, &again);
    REQUIRE(other.count == selector->count && strcmp(text.data, again.data) == 0);
    et_selector_free(&other);
    et_buf_free(&text);
    et_buf_free(&again);
}

static void match(const struct et_selector *selector, const char *text)
{
    for (size_t i = 0; i < selector->count && i < 4; i++) {
        const struct et_matcher *m = &selector->matchers[i];
        bool matches = et_matcher_matches(m, text, strlen(text));
        (void)et_matcher_matches(m, "", 0);
        if (m->how == ET_MATCH_EQUAL || m->how == ET_MATCH_NOT_EQUAL) {
            REQUIRE(matches == ((strcmp(text, m->value) == 0) == (m->how == ET_MATCH_EQUAL)));
        }
    }
}

static void parse(const char *text, bool strict)
{
    struct et_selector selector = {.strict = strict};
    const char *why = NULL;
    bool ok = et_selector_parse(&selector, text, &why);
    REQUIRE(ok || (why && why[0]));
    if (ok) {
        printed_again(&selector);
        match(&selector, text);
    }
    et_selector_free(&selector);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const long long began = fuzz_begin();
    char *text = strndup((const char *)data, size);
    REQUIRE(text);
    parse(text, false);
    parse(text, true);
    free(text);
    return fuzz_end(began, size, MEMORY_FIXED + MEMORY_PER_BYTE * size);
}
