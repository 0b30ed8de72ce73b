/*
 * See pyroscope.h. et_pyroscope_list() calls list_selector() for each selector, which uses the store's lists of label
 * names, label values or series. Each series has a profile type for each of its kind's values.
 */
#include "tools/serve/query/pyroscope/pyroscope.h"
#include "tools/serve/http/connect.h"
#include "tools/lib/labels.h"
#include "tools/store/query_builder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct et_profile *et_pyroscope_profile(struct et_server *server, const struct et_query *query,
                                        struct et_answer *answer)
{
    struct et_profile *profile = NULL;
    struct et_store *store = et_server_read(server);
    if (et_store_load(store, query, &profile) < 0) {
        et_connect_error(answer, 503, et_store_why(store));
        profile = NULL;
    }
    et_server_read_done(server, store);
    if (profile) {
        et_symbolize(et_server_symbols(server), profile);
    }
    return profile;
}

bool et_pyroscope_timeline(struct et_server *server, const struct et_query *query, int64_t step_ns,
                           struct et_timeline *out, struct et_answer *answer)
{
    struct et_store *store = et_server_read(server);
    int err = et_store_series(store, query, step_ns, out);
    if (err == -EINVAL) {
        et_connect_error(answer, 400, "the step is too short for the range: at most 11000 steps");
    } else if (err < 0) {
        et_connect_error(answer, 503, et_store_why(store));
    }
    et_server_read_done(server, store);
    return err == 0;
}

void et_pyroscope_type(const struct et_profile *profile, struct et_type *type)
{
    const char *kind = et_text(&profile->strings, profile->kind);
    const char *unit = et_text(&profile->strings, profile->value_unit);
    bool count = profile->measure == ET_MEASURE_COUNT;
    if (!et_type_of(kind, unit, count, type)) { /* a kind with only counts */
        et_type_of(kind, unit, !count, type);
    }
}

/* ---- lists ---- */

struct listing {
    enum et_listing what;
    const struct et_listed *of;
    struct et_strings *found;
    struct et_strings kinds; /* of the listed series: "cpu" */
};

static bool is_private(const char *name)
{
    return strncmp(name, "__", 2) == 0;
}

static void add_name(void *context, const char *name)
{
    struct listing *listing = context;
    et_intern(listing->found, name);
}

/* Adds one series: its tags, its process's other properties, its type. */
static void add_labels(struct listing *listing, const struct et_series_row *row, const struct et_type *type)
{
    const struct {
        const char *name, *value;
    } known[] = {
        {ET_HOST, row->host},
        {ET_SERVICE_NAME, row->service},
        {"__name__", type->name},
        {"__type__", type->sample},
        {"__unit__", type->unit},
        {"__period_type__", type->period},
        {"__period_unit__", type->period_unit},
        {"__profile_type__", type->id},
    };
    struct et_labels labels = {0}, wanted = {0};
    size_t size;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (known[i].value[0]) {
            et_labels_add(&labels, known[i].name, known[i].value);
        }
    }
    et_labels_add_lines(&labels, row->tags);
    char *lines = et_labels_join(&labels);
    for (size_t i = 0; i < listing->of->name_count; i++) {
        const char *value = et_labels_value(lines, listing->of->names[i], &size);
        if (value) {
            char *own = et_clean(value, size);
            et_labels_add(&wanted, listing->of->names[i], own);
            free(own);
        }
    }
    char *chosen = et_labels_join(&wanted);
    if (listing->what == ET_LIST_VALUES) {
        const char *value = strchr(chosen, '=');
        chosen[strcspn(chosen, "\n")] = '\0';
        et_intern(listing->found, value ? value + 1 : "");
    } else {
        et_intern(listing->found, listing->of->name_count ? chosen : lines);
    }
    free(chosen);
    free(lines);
}

static void add_figures(struct listing *listing, const struct et_series_row *row, const char *kind)
{
    for (int count = 0; count < 2; count++) {
        struct et_type type;
        if (!et_type_of(kind, row->unit, count, &type)) {
            continue;
        }
        if (listing->what == ET_LIST_TYPES) {
            et_intern(listing->found, type.id);
        } else {
            add_labels(listing, row, &type);
        }
        et_type_free(&type);
    }
}

static void list_row(void *context, const struct et_series_row *row)
{
    struct listing *listing = context;
    et_intern(&listing->kinds, row->kind);
    add_figures(listing, row, row->kind);
}

static bool contains(const struct et_strings *strings, const char *text)
{
    for (uint32_t i = 1; i < strings->count; i++) {
        if (strcmp(et_text(strings, i), text) == 0) {
            return true;
        }
    }
    return false;
}

static int list_query(struct et_store *store, struct listing *listing, const struct et_query *query)
{
    static const char *const privates[] = {"__name__",         "__period_type__", "__period_unit__",
                                           "__profile_type__", "__type__",        "__unit__"};
    const char *first = listing->of->name_count ? listing->of->names[0] : "";
    if (listing->what == ET_LIST_VALUES && !is_private(first)) {
        return et_store_label_values(store, query, first, add_name, listing);
    }
    if (listing->what == ET_LIST_NAMES) {
        for (size_t i = 0; i < sizeof privates / sizeof *privates; i++) {
            et_intern(listing->found, privates[i]);
        }
        return et_store_label_names(store, query, add_name, listing);
    }
    int err = et_store_series_list(store, query, list_row, listing);
    bool sums =
        contains(&listing->kinds, "cpu") && contains(&listing->kinds, "wait") && !contains(&listing->kinds, ET_WALL);
    if (!err && listing->what == ET_LIST_TYPES && sums) {
        add_figures(listing, &(struct et_series_row){.unit = ""}, ET_WALL);
    }
    return err;
}

static bool list_selector(struct et_server *server, struct listing *listing, const char *selector,
                          struct et_answer *answer)
{
    struct et_query_builder wanted = {0};
    bool ok = et_wanted_query(&wanted, selector);
    if (!ok) {
        et_connect_error(answer, 400, wanted.why);
    } else {
        struct et_store *store = et_server_read(server);
        wanted.query.from_ns = listing->of->from_ns;
        wanted.query.to_ns = listing->of->to_ns;
        ok = list_query(store, listing, &wanted.query) >= 0;
        if (!ok) {
            et_connect_error(answer, 503, et_store_why(store));
        }
        et_server_read_done(server, store);
    }
    et_query_builder_free(&wanted);
    return ok;
}

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

bool et_pyroscope_list(struct et_server *server, enum et_listing what, const struct et_listed *of,
                       struct et_strings *out, struct et_answer *answer)
{
    struct listing listing = {.what = what, .of = of, .found = out};
    bool ok = true;
    et_intern(out, "");
    et_intern(&listing.kinds, "");
    for (size_t i = 0; i < of->selector_count && ok; i++) {
        ok = list_selector(server, &listing, of->selectors[i], answer);
    }
    if (of->selector_count == 0) {
        ok = list_selector(server, &listing, "", answer);
    }
    et_strings_free(&listing.kinds);
    qsort(out->text, out->count, sizeof *out->text, compare_texts); /* "" sorts first; nothing is interned after this */
    return ok;
}
