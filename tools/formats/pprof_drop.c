/* See pprof_drop.h. The rules are those of Profile.Prune() of `go tool pprof`; PCRE2 reads the expressions of RE2. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "tools/formats/pprof_drop.h"

#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

/* Limits of the cost of hostile expressions: bytes; KiB; steps of a function on average, and of all. */
enum { EXPRESSION_MAX = 1 << 14, HEAP_MAX = 1000, FUNCTION_STEPS = 500, STEPS_MAX = 20000000 };

struct frame_filter {
    pcre2_code *drop, *keep; /* NULL: matches nothing */
    pcre2_match_context *limits;
    size_t steps; /* left */
};

static int count_step(pcre2_callout_block *block, void *context)
{
    size_t *left = context;
    (void)block;
    *left -= *left > 0;
    return *left ? 0 : PCRE2_ERROR_CALLOUT;
}

/* False: invalid. An empty expression is none. */
static bool compile_frames(const char *text, pcre2_code **code)
{
    int error;
    size_t at, size = strlen(text);
    *code = size && size <= EXPRESSION_MAX
                ? pcre2_compile((PCRE2_SPTR)text, size,
                                PCRE2_ANCHORED | PCRE2_ENDANCHORED | PCRE2_UTF | PCRE2_NEVER_BACKSLASH_C |
                                    PCRE2_DOLLAR_ENDONLY | PCRE2_AUTO_CALLOUT,
                                &error, &at, NULL)
                : NULL;
    return *code || !size;
}

static bool begin_filter(const et_pprof *p, struct frame_filter *filter)
{
    size_t drop = (size_t)p->drop_frames, keep = (size_t)p->keep_frames, wanted = p->n_function * FUNCTION_STEPS;
    if (drop >= p->n_string_table || keep >= p->n_string_table ||
        !compile_frames(p->string_table[drop], &filter->drop) || !filter->drop ||
        !compile_frames(p->string_table[keep], &filter->keep)) {
        return false;
    }
    filter->steps = FUNCTION_STEPS + (wanted < STEPS_MAX ? wanted : STEPS_MAX);
    filter->limits = pcre2_match_context_create(NULL);
    if (filter->limits) {
        pcre2_set_heap_limit(filter->limits, HEAP_MAX);
        pcre2_set_callout(filter->limits, count_step, &filter->steps);
    }
    return filter->limits != NULL;
}

static void free_filter(struct frame_filter *filter)
{
    pcre2_code_free(filter->drop);
    pcre2_code_free(filter->keep);
    pcre2_match_context_free(filter->limits);
}

static bool matches(struct frame_filter *filter, const pcre2_code *code, const char *name, size_t size)
{
    pcre2_match_data *match = code ? pcre2_match_data_create(1, NULL) : NULL;
    bool found = match && pcre2_match(code, (PCRE2_SPTR)name, size, 0, 0, match, filter->limits) >= 0;
    pcre2_match_data_free(match);
    return found;
}

static size_t starts_with(const char *text, const char *start)
{
    size_t size = strlen(start);
    return strncmp(text, start, size) == 0 ? size : 0;
}

/* Expressions are for names without parameters: the size up to the first parenthesis that begins them. */
static size_t size_without_parameters(const char *name)
{
    size_t at = 0, skip = 1;
    while (name[at] && skip) {
        skip = starts_with(name + at, "(anonymous namespace)");
        skip = skip ? skip : starts_with(name + at, "operator()");
        skip = skip ? skip : name[at] != '(';
        at += skip;
    }
    return at;
}

static bool is_dropped(struct frame_filter *filter, const char *name)
{
    name += name[0] == '.';
    size_t size = size_without_parameters(name);
    return *name && matches(filter, filter->drop, name, size) && !matches(filter, filter->keep, name, size);
}

size_t *et_pprof_dropped(const et_pprof *p, const struct et_pprof_ids *functions, et_pprof_name *name, void *context)
{
    struct frame_filter filter = {0};
    size_t *lines = NULL;
    if (begin_filter(p, &filter)) {
        bool *drop = et_alloc(p->n_function, sizeof *drop);
        for (size_t i = 0; i < p->n_function && filter.steps; i++) {
            drop[i] = is_dropped(&filter, name(context, i));
        }
        lines = filter.steps ? et_alloc(p->n_location, sizeof *lines) : NULL;
        for (size_t i = 0; i < p->n_location && lines; i++) {
            size_t line = p->location[i]->n_line;
            while (line && !drop[et_pprof_ids_find(functions, p->location[i]->line[line - 1]->function_id) - 1]) {
                line--;
            }
            lines[i] = line;
        }
        free(drop);
    }
    free_filter(&filter);
    return lines;
}

size_t et_pprof_first_location(const et_pprof *p, const struct et_pprof_ids *locations, const size_t *dropped,
                               const Perftools__Profiles__Sample *sample)
{
    bool kept = false;
    for (size_t i = sample->n_location_id; dropped && i-- > 0;) {
        size_t index = et_pprof_ids_find(locations, sample->location_id[i]) - 1;
        if (dropped[index] && kept) {
            return dropped[index] < p->location[index]->n_line ? i : i + 1;
        }
        kept |= !dropped[index];
    }
    return 0;
}
