/*
 * See query_text.h. et_wanted_query() applies matchers that name a type, then the name: an id, or a service with a
 * suffix.
 */
#include "tools/serve/query/pyroscope/query_text.h"
#include "tools/store/query_builder.h"

#include <stdlib.h>
#include <string.h>

/* Suffixes of application names: those of Pyroscope's older clients, and our own. */
static const struct {
    const char *word, *kind;
    enum et_measure measure;
} suffixes[] = {
    {"cpu", "cpu", ET_MEASURE_VALUE},
    {"itimer", "cpu", ET_MEASURE_VALUE},
    {"samples", "cpu", ET_MEASURE_COUNT},
    {"wall", ET_WALL, ET_MEASURE_VALUE},
    {"alloc_space", "alloc", ET_MEASURE_VALUE},
    {"alloc_objects", "alloc", ET_MEASURE_COUNT},
    {"inuse_space", "live", ET_MEASURE_VALUE},
    {"inuse_objects", "live", ET_MEASURE_COUNT},
    {"mutex_duration", "lock", ET_MEASURE_VALUE},
    {"mutex_count", "lock", ET_MEASURE_COUNT},
    {"lock_duration", "lock", ET_MEASURE_VALUE},
    {"lock_count", "lock", ET_MEASURE_COUNT},
    {"block_duration", "wait", ET_MEASURE_VALUE},
    {"block_count", "wait", ET_MEASURE_COUNT},
    {"goroutines", "thread", ET_MEASURE_DEFAULT},
    {"exceptions", "exception", ET_MEASURE_DEFAULT},
    {"written", "write", ET_MEASURE_VALUE},
    {"writes", "write", ET_MEASURE_COUNT},
};

/* ---- types ---- */

static void make_id(struct et_type *type)
{
    struct et_buf id = {0};
    et_buf_printf(&id, "%s:%s:%s:%s:%s", type->name, type->sample, type->unit, type->period, type->period_unit);
    type->id = id.data;
}

bool et_type_of(const char *kind, const char *unit, bool count, struct et_type *type)
{
    const struct et_kind *known = et_kind_named(kind);
    bool valued = !known || known->value[0];
    if (!known && !count && et_type_parse(kind, type)) {
        return true; /* a sender's own id, see et_kind_keeps_id() */
    }
    if (count ? !known || !known->count[0] : !valued) {
        return false;
    }
    *type = (struct et_type){
        .name = et_strdup(known ? known->family : kind),
        .sample = et_strdup(!known  ? kind
                            : count ? known->count
                                    : known->value),
        .unit = et_strdup(count   ? "count"
                          : known ? known->unit
                                  : unit),
        .period = et_strdup(known ? known->period : kind),
        .period_unit = et_strdup(known ? known->period_unit : unit),
    };
    make_id(type);
    return true;
}

/* A sixth part "delta" says that values are differences, which is always true here. */
bool et_type_parse(const char *id, struct et_type *type)
{
    char *copy = et_clean(id, strlen(id)), *rest = copy, *parts[6] = {0};
    size_t count = 0;
    while (count < 6 && (parts[count] = strsep(&rest, ":"))) {
        count++;
    }
    bool ok = count >= 5 && !rest && parts[0][0] && parts[1][0] && (!parts[5] || strcmp(parts[5], "delta") == 0);
    if (ok) {
        *type = (struct et_type){.name = et_strdup(parts[0]),
                                 .sample = et_strdup(parts[1]),
                                 .unit = et_strdup(parts[2]),
                                 .period = et_strdup(parts[3]),
                                 .period_unit = et_strdup(parts[4])};
        make_id(type);
    }
    free(copy);
    return ok;
}

void et_type_free(struct et_type *type)
{
    char *const parts[] = {type->id, type->name, type->sample, type->unit, type->period, type->period_unit};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        free(parts[i]);
    }
    *type = (struct et_type){0};
}

void et_wanted_type(struct et_query_builder *wanted, const struct et_type *type)
{
    bool count = false;
    const struct et_kind *kind = et_kind_of_pprof(type->name, type->sample, type->unit, &count);
    const struct et_kind_id id = {.family = type->name,
                                  .type = type->sample,
                                  .unit = type->unit,
                                  .period = type->period,
                                  .period_unit = type->period_unit};
    char name[ET_KIND_NAME];
    bool kept = et_kind_keeps_id(kind, &id, name);
    et_query_builder_kind(wanted, kept ? name : kind ? kind->name : type->sample);
    wanted->query.measure = count && !kept ? ET_MEASURE_COUNT : ET_MEASURE_VALUE;
}

/* ---- text ---- */

static bool use_id(struct et_query_builder *wanted, const char *id)
{
    struct et_type type;
    if (!et_type_parse(id, &type)) {
        wanted->why = "a profile type must be name:sample_type:sample_unit:period_type:period_unit";
        return false;
    }
    et_wanted_type(wanted, &type);
    et_type_free(&type);
    return true;
}

/* Uses the part after the last dot if it names a kind. */
static void use_suffix(struct et_query_builder *wanted)
{
    char *dot = strrchr(wanted->selector.name, '.');
    const char *kind = NULL;
    enum et_measure measure = ET_MEASURE_DEFAULT;
    if (!dot || dot == wanted->selector.name) {
        return;
    }
    for (size_t i = 0; i < et_kind_count; i++) {
        kind = strcmp(et_kinds[i].name, dot + 1) == 0 ? et_kinds[i].name : kind;
    }
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        if (strcmp(suffixes[i].word, dot + 1) == 0) {
            kind = suffixes[i].kind;
            measure = suffixes[i].measure;
        }
    }
    if (kind) {
        et_query_builder_kind(wanted, kind);
        wanted->query.measure = measure;
        *dot = '\0';
    }
}

static bool apply_name(struct et_query_builder *wanted)
{
    char *name = wanted->selector.name;
    if (!strchr(name, ':')) {
        use_suffix(wanted);
        return true;
    }
    bool ok = use_id(wanted, name);
    name[0] = '\0';
    return ok;
}

/* Applies and removes matchers for the type. */
static bool apply_type_matchers(struct et_query_builder *wanted)
{
    struct et_selector *selector = &wanted->selector;
    size_t kept = 0;
    bool ok = true;
    for (size_t i = 0; i < selector->count; i++) {
        struct et_matcher *matcher = &selector->matchers[i];
        bool is_type = strcmp(matcher->name, "__profile_type__") == 0 || strcmp(matcher->name, "__name__") == 0;
        if (is_type && matcher->how == ET_MATCH_EQUAL) {
            ok = use_id(wanted, matcher->value) && ok;
            free(matcher->name);
            free(matcher->value);
        } else {
            selector->matchers[kept++] = *matcher;
        }
    }
    selector->count = kept;
    wanted->query.matcher_count = kept;
    return ok;
}

bool et_wanted_query(struct et_query_builder *wanted, const char *text)
{
    /* in this order, because an id before the brace takes precedence */
    return et_query_builder_name(wanted, text) && apply_type_matchers(wanted) && apply_name(wanted);
}
