/* See query_builder.h. */
#include "tools/store/query_builder.h"
#include "tools/lib/labels.h"

#include <stdlib.h>
#include <string.h>

/* False: an id that no stack can have. */
static bool is_possible(const struct et_matcher *matcher, const char **why)
{
    bool span = strcmp(matcher->name, ET_SPAN_ID) == 0, trace = strcmp(matcher->name, ET_TRACE_ID) == 0;
    if (matcher->how != ET_MATCH_EQUAL || !(span || trace)) {
        return true;
    }
    size_t digits = strspn(matcher->value, "0123456789abcdefABCDEF");
    *why = span ? "span_id must be 16 hexadecimal digits" : "trace_id must be 32 hexadecimal digits";
    return matcher->value[digits] == '\0' && digits == (span ? 16 : 32);
}

static bool update_query(struct et_query_builder *wanted, bool ok)
{
    for (size_t i = 0; ok && i < wanted->selector.count; i++) {
        ok = is_possible(&wanted->selector.matchers[i], &wanted->why);
    }
    wanted->query.service = wanted->selector.name;
    wanted->query.matchers = wanted->selector.matchers;
    wanted->query.matcher_count = wanted->selector.count;
    return ok;
}

bool et_query_builder_tag(struct et_query_builder *wanted, const char *tag)
{
    return update_query(wanted, et_selector_add(&wanted->selector, tag, true, &wanted->why));
}

bool et_query_builder_label(struct et_query_builder *wanted, const char *label)
{
    return update_query(wanted, et_selector_add(&wanted->selector, label, false, &wanted->why));
}

bool et_query_builder_name(struct et_query_builder *wanted, const char *name)
{
    return update_query(wanted, et_selector_parse(&wanted->selector, name, &wanted->why));
}

void et_query_builder_group(struct et_query_builder *wanted, const char *key)
{
    struct et_buf keys = {0};
    char *own = et_clean(key, strlen(key));
    if (*own && !et_group_has(wanted->group, own)) {
        et_buf_printf(&keys, "%s%s%s", wanted->group ? wanted->group : "", wanted->group ? "\n" : "", own);
        free(wanted->group);
        wanted->group = keys.data;
    }
    wanted->query.group = wanted->group;
    free(own);
}

bool et_query_builder_measure(struct et_query_builder *wanted, const char *word)
{
    static const struct {
        const char *word;
        enum et_measure measure;
    } words[] = {{"", ET_MEASURE_DEFAULT},      {"value", ET_MEASURE_VALUE},       {"bytes", ET_MEASURE_VALUE},
                 {"time", ET_MEASURE_VALUE},    {"delay", ET_MEASURE_VALUE},       {"count", ET_MEASURE_COUNT},
                 {"objects", ET_MEASURE_COUNT}, {"contentions", ET_MEASURE_COUNT}, {"waits", ET_MEASURE_COUNT},
                 {"samples", ET_MEASURE_COUNT}, {"pauses", ET_MEASURE_COUNT}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(word, words[i].word) == 0) {
            wanted->query.measure = words[i].measure;
            return true;
        }
    }
    return false;
}

void et_query_builder_kind(struct et_query_builder *wanted, const char *kind)
{
    free(wanted->kind);
    wanted->kind = et_clean(kind, strlen(kind));
    wanted->query.kind = wanted->kind;
}

void et_query_builder_free(struct et_query_builder *wanted)
{
    et_selector_free(&wanted->selector);
    free(wanted->group);
    free(wanted->kind);
    free(wanted->ids);
    *wanted = (struct et_query_builder){0};
}
