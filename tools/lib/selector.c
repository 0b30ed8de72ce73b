/* See selector.h. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "tools/lib/selector.h"

#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

/* The MATCH limits bound the cost of a hostile expression such as (a+)+$ for one value: steps, nesting, KiB. Limits
 * that an expression sets itself, as in (*LIMIT_MATCH=1000000), can only be lower. */
enum { EXPRESSION_LIMIT = 1000, MATCH_STEPS = 20000, MATCH_DEPTH = 200, MATCH_HEAP = 1000 };

static const char *const OPERATORS[] = {
    [ET_MATCH_EQUAL] = "=", [ET_MATCH_NOT_EQUAL] = "!=", [ET_MATCH_REGEX] = "=~", [ET_MATCH_NOT_REGEX] = "!~"};

static bool is_regex(enum et_match how)
{
    return how == ET_MATCH_REGEX || how == ET_MATCH_NOT_REGEX;
}

static bool compile(struct et_matcher *matcher, const char **why)
{
    int code;
    size_t at;
    if (strlen(matcher->value) > EXPRESSION_LIMIT) {
        *why = "a regular expression is longer than 1000 bytes";
        return false;
    }
    matcher->code = pcre2_compile((PCRE2_SPTR)matcher->value, strlen(matcher->value),
                                  PCRE2_ANCHORED | PCRE2_ENDANCHORED | PCRE2_UTF | PCRE2_NEVER_BACKSLASH_C |
                                      PCRE2_DOLLAR_ENDONLY | PCRE2_DOTALL,
                                  &code, &at, NULL);
    matcher->limits = matcher->code ? pcre2_match_context_create(NULL) : NULL;
    if (matcher->limits) {
        pcre2_set_match_limit(matcher->limits, MATCH_STEPS);
        pcre2_set_depth_limit(matcher->limits, MATCH_DEPTH);
        pcre2_set_heap_limit(matcher->limits, MATCH_HEAP);
    }
    *why = matcher->code ? *why : "invalid regular expression, or it is too large";
    return matcher->code != NULL;
}

static bool add_matcher(struct et_selector *selector, struct et_matcher matcher, const char **why)
{
    if (!matcher.name[0]) {
        *why = "a name is missing before the operator";
    } else if (!is_regex(matcher.how) || compile(&matcher, why)) {
        selector->matchers =
            et_reserve(selector->matchers, &selector->capacity, selector->count + 1, sizeof *selector->matchers);
        selector->matchers[selector->count++] = matcher;
        return true;
    }
    free(matcher.name);
    free(matcher.value);
    return false;
}

static void skip_blanks(const char **at)
{
    *at += strspn(*at, " \t\n");
}

static bool read_operator(const char **at, enum et_match *how)
{
    static const enum et_match longest_first[] = {ET_MATCH_REGEX, ET_MATCH_NOT_REGEX, ET_MATCH_NOT_EQUAL,
                                                  ET_MATCH_EQUAL};
    for (size_t i = 0; i < sizeof longest_first / sizeof *longest_first; i++) {
        const char *text = OPERATORS[longest_first[i]];
        if (strncmp(*at, text, strlen(text)) == 0) {
            *how = longest_first[i];
            *at += strlen(text);
            return true;
        }
    }
    return false;
}

/* The character for an escape, '\0' for an invalid escape. */
static char escaped(char c)
{
    static const char names[] = "nrt\\\"'`", meanings[] = "\n\r\t\\\"'`";
    const char *found = c ? strchr(names, c) : NULL;
    return found ? meanings[found - names] : '\0';
}

static bool read_quoted(const char **at, struct et_buf *out)
{
    char quote = *(*at)++;
    for (; **at && **at != quote; (*at)++) {
        char c = **at;
        if (c == '\\' && quote != '`') {
            c = escaped(*++*at);
            if (!c) {
                return false;
            }
        }
        et_buf_char(out, c);
    }
    bool closed = **at == quote;
    *at += closed;
    return closed;
}

/* A name or a value. ends: characters that end an unquoted word. free() the result. NULL: invalid quote or escape. */
static char *read_word(const char **at, const char *ends)
{
    struct et_buf word = {0};
    char *clean = NULL;
    skip_blanks(at);
    bool quoted = **at && strchr("\"'`", **at);
    if (!quoted || read_quoted(at, &word)) {
        if (!quoted) {
            size_t size = strcspn(*at, ends);
            et_buf_add(&word, *at, size);
            *at += size;
            while (word.size && strchr(" \t\n", word.data[word.size - 1])) {
                word.size--;
            }
        }
        clean = et_clean(word.data ? word.data : "", word.size);
    }
    et_buf_free(&word);
    skip_blanks(at);
    return clean;
}

/* Whether a word is next that Prometheus reads there. */
static bool is_legal(const char *at, bool value)
{
    static const char rest[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
    size_t size = strspn(at, rest);
    bool quoted = *at && strchr("\"'`", *at);
    return quoted || (!value && size && (*at < '0' || *at > '9') && strchr(" \t\n=!~,}", at[size]));
}

static bool read_matcher(struct et_selector *selector, const char **at, const char **why)
{
    *why = "a name with other characters than letters, digits and _ needs quotes";
    if (selector->strict && !is_legal(*at, false)) {
        return false;
    }
    struct et_matcher matcher = {.name = read_word(at, "=!~,{}\"")};
    *why = "an operator is missing: =, !=, =~ or !~";
    if (matcher.name && read_operator(at, &matcher.how)) {
        *why = "unclosed quote, or unknown escape";
        skip_blanks(at);
        if (selector->strict && !is_legal(*at, true)) {
            *why = "a value needs quotes";
            free(matcher.name);
            return false;
        }
        matcher.value = read_word(at, ",{}\"");
        if (matcher.value) {
            return add_matcher(selector, matcher, why);
        }
    }
    free(matcher.name);
    return false;
}

bool et_selector_parse(struct et_selector *selector, const char *text, const char **why)
{
    size_t size = strcspn(text, "{");
    const char *at = text + size;
    free(selector->name);
    selector->name = et_clean(text, size);
    if (!*at) {
        return true;
    }
    at++;
    skip_blanks(&at);
    while (*at != '}') {
        if (!read_matcher(selector, &at, why)) {
            return false;
        }
        *why = "a comma or a closing brace is missing";
        if (*at != ',' && *at != '}') {
            return false;
        }
        at += *at == ',';
        skip_blanks(&at);
    }
    at++;
    skip_blanks(&at);
    *why = "unexpected text after the closing brace";
    return *at == '\0';
}

bool et_selector_add(struct et_selector *selector, const char *text, bool process, const char **why)
{
    const char *at = text + strcspn(text, "=!");
    struct et_matcher matcher = {.process = process};
    size_t size = (size_t)(at - text);
    if (!read_operator(&at, &matcher.how)) {
        *why = "an operator is missing: =, !=, =~ or !~";
        return false;
    }
    matcher.name = et_clean(text, size);
    matcher.value = et_clean(at, strlen(at));
    return add_matcher(selector, matcher, why);
}

void et_selector_free(struct et_selector *selector)
{
    for (size_t i = 0; i < selector->count; i++) {
        free(selector->matchers[i].name);
        free(selector->matchers[i].value);
        pcre2_code_free(selector->matchers[i].code);
        pcre2_match_context_free(selector->matchers[i].limits);
    }
    free(selector->matchers);
    free(selector->name);
    *selector = (struct et_selector){0};
}

static void print_quoted(const char *text, struct et_buf *out)
{
    et_buf_char(out, '"');
    for (; *text; text++) {
        if (*text == '"' || *text == '\\') {
            et_buf_char(out, '\\');
        }
        et_buf_char(out, *text);
    }
    et_buf_char(out, '"');
}

void et_selector_print(const char *name, const struct et_matcher *matchers, size_t count, struct et_buf *out)
{
    const char *before = "{";
    et_buf_text(out, name);
    for (size_t i = 0; i < count; i++) {
        if (!matchers[i].process) {
            et_buf_text(out, before);
            print_quoted(matchers[i].name, out);
            et_buf_text(out, OPERATORS[matchers[i].how]);
            print_quoted(matchers[i].value, out);
            before = ",";
        }
    }
    et_buf_text(out, *before == ',' ? "}" : "");
}

void et_matcher_print(const struct et_matcher *matcher, struct et_buf *out)
{
    et_buf_printf(out, "%s%s%s", matcher->name, OPERATORS[matcher->how], matcher->value);
}

static bool regex_matches(const struct et_matcher *matcher, const char *value, size_t size)
{
    pcre2_match_data *data = matcher->limits ? pcre2_match_data_create(1, NULL) : NULL;
    int found =
        data ? pcre2_match(matcher->code, (PCRE2_SPTR)value, size, 0, 0, data, matcher->limits) : PCRE2_ERROR_NOMEMORY;
    pcre2_match_data_free(data);
    return found >= 0;
}

bool et_matcher_matches(const struct et_matcher *matcher, const char *value, size_t size)
{
    bool negative = matcher->how == ET_MATCH_NOT_EQUAL || matcher->how == ET_MATCH_NOT_REGEX;
    bool same = is_regex(matcher->how) ? regex_matches(matcher, value, size)
                                       : strlen(matcher->value) == size && memcmp(matcher->value, value, size) == 0;
    return same != negative;
}
