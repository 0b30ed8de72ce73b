/* See pattern.h. */
#include "tools/lib/pattern.h"

#include <stdlib.h>
#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

struct et_pattern {
    pcre2_code *code;
    pcre2_match_data *match;
};

struct et_pattern *et_pattern_new(const char *text, struct et_buf *why)
{
    int error = 0;
    PCRE2_SIZE at = 0;
    pcre2_code *code =
        pcre2_compile((PCRE2_SPTR)text, PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_MATCH_INVALID_UTF, &error, &at, NULL);
    if (!code) {
        PCRE2_UCHAR words[200] = "";
        pcre2_get_error_message(error, words, sizeof words);
        et_buf_printf(why, "%s at character %zu", (const char *)words, (size_t)at + 1);
        return NULL;
    }
    struct et_pattern *pattern = et_alloc(1, sizeof *pattern);
    pattern->code = code;
    pattern->match = pcre2_match_data_create_from_pattern(code, NULL);
    return pattern;
}

bool et_pattern_matches(const struct et_pattern *pattern, const char *text)
{
    return pcre2_match(pattern->code, (PCRE2_SPTR)text, strlen(text), 0, 0, pattern->match, NULL) >= 0;
}

void et_pattern_free(struct et_pattern *pattern)
{
    if (pattern) {
        pcre2_match_data_free(pattern->match);
        pcre2_code_free(pattern->code);
        free(pattern);
    }
}
