/*
 * See pyroscope.h. et_pyroscope_list() calls list_selector() for each selector, which uses the database's lists of
 * label names, label values or series. Each series has a profile type for each of its kind's values.
 */
#include "tools/serve/query/pyroscope/pyroscope.h"
#include "tools/formats/dot.h"
#include "tools/serve/http/connect.h"
#include "tools/lib/labels.h"
#include "tools/profile/tree.h"
#include "tools/store/query_builder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct et_profile *et_pyroscope_profile(struct et_server *server, const struct et_request *request,
                                        const struct et_query *query, struct et_answer *answer)
{
    struct et_profile *profile = NULL;
    struct et_store *store = et_server_read(server, request);
    if (et_store_load(store, query, &profile) < 0) {
        et_connect_error(answer, et_read_status(store), et_store_why(store));
        profile = NULL;
    } else if (et_store_counts(store, et_tree_memory(profile)) < 0) {
        et_connect_error(answer, et_read_status(store), et_store_why(store));
        et_profile_free(profile);
        profile = NULL;
    }
    et_server_read_done(server, store);
    if (profile) {
        et_symbolize(et_server_symbols(server), profile);
    }
    return profile;
}

bool et_pyroscope_timeline(struct et_server *server, const struct et_request *request, const struct et_query *query,
                           const struct et_points *points, struct et_timeline *out, struct et_answer *answer)
{
    static const int64_t ms = 1000000;
    struct et_query own = *query;
    int64_t last = points->start_ms + (points->end_ms - points->start_ms) / points->step_ms * points->step_ms;
    own.from_ns = (points->start_ms - points->step_ms + 1) * ms;
    own.to_ns = last == points->end_ms ? last * ms + 1 : (last + 1) * ms;
    own.lead_ns = ms;
    struct et_store *store = et_server_read(server, request);
    int err = et_store_series(store, &own, points->step_ms * ms, out);
    if (err == -EINVAL) {
        et_connect_error(answer, 400, "the step is too short for the range: at most 11000 steps");
    } else if (err < 0) {
        et_connect_error(answer, et_read_status(store), et_store_why(store));
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

/* ---- pprof ---- */

/* What Pyroscope says for the types of a family. */
static int64_t period_of(const struct et_type *type)
{
    return strcmp(type->name, "process_cpu") == 0 ? 1000000000 : strcmp(type->name, "memory") == 0 ? 512 * 1024 : 1;
}

et_pprof *et_pyroscope_pprof(const struct et_profile *profile, int64_t end_ns)
{
    struct et_buf bytes = {0};
    struct et_type type;
    et_pyroscope_type(profile, &type);
    bool count = profile->measure == ET_MEASURE_COUNT;
    const struct et_pprof_form form = {.count = count ? type.sample : "",
                                       .value = count ? "" : type.sample,
                                       .unit = type.unit,
                                       .period = type.period,
                                       .period_unit = type.period_unit,
                                       .entries = profile->entry_count};
    et_pprof_encode_form(profile, &form, &bytes);
    et_pprof *pprof = perftools__profiles__profile__unpack(NULL, bytes.size, (const uint8_t *)bytes.data);
    et_buf_free(&bytes);
    pprof->default_sample_type = pprof->sample_type[0]->type;
    pprof->period = period_of(&type);
    pprof->time_nanos = end_ns;
    pprof->duration_nanos = 0;
    for (size_t i = 0; i < pprof->n_mapping; i++) { /* nothing is left to symbolize */
        Perftools__Profiles__Mapping *mapping = pprof->mapping[i];
        mapping->has_filenames = mapping->has_line_numbers = mapping->has_inline_frames = mapping->has_functions;
    }
    et_type_free(&type);
    return pprof;
}

void et_pyroscope_dot(const struct et_profile *profile, int64_t end_ns, int64_t max_nodes, struct et_buf *out)
{
    et_pprof *pprof = et_pyroscope_pprof(profile, end_ns);
    et_dot(pprof, max_nodes <= 0 ? 100 : max_nodes < 1000 ? (size_t)max_nodes : 1000, out);
    perftools__profiles__profile__free_unpacked(pprof, NULL);
}

/* ---- lists ---- */

struct listing {
    enum et_listing what;
    const struct et_listed *of;
    struct et_strings *found;
    struct et_strings kinds; /* of the listed series: "cpu" */
    bool measured;           /* edgeprof measured some: pushed pprof has no host */
};

/* Whether Prometheus has names like this one. */
static bool is_plain_name(const char *name)
{
    size_t size = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789");
    return size && !name[size] && (*name < '0' || *name > '9');
}

static bool is_private(const char *name)
{
    return strncmp(name, "__", 2) == 0;
}

static void add_name(void *context, const char *name)
{
    struct listing *listing = context;
    if (listing->what != ET_LIST_NAMES || listing->of->all_names || is_plain_name(name)) {
        et_intern(listing->found, name);
    }
}

static void add_plain(void *labels, const char *name, const char *value)
{
    if (is_plain_name(name)) {
        et_labels_add(labels, name, value);
    }
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
    et_labels_add(&labels, "__service_name__", row->service);
    if (listing->what == ET_LIST_SERIES && !listing->of->all_names) {
        et_labels_each(row->tags, add_plain, &labels);
    } else {
        et_labels_add_lines(&labels, row->tags);
    }
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
    listing->measured = listing->measured || row->host[0];
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
    static const char *const privates[] = {"__name__",         "__period_type__", "__period_unit__", "__profile_type__",
                                           "__service_name__", "__type__",        "__unit__"};
    const char *first = listing->of->name_count ? listing->of->names[0] : "";
    if (listing->what == ET_LIST_VALUES && !is_private(first)) {
        return et_store_label_values(store, query, first, add_name, listing);
    }
    if (listing->what == ET_LIST_NAMES) {
        int err = et_store_label_names(store, query, add_name, listing);
        bool any = listing->found->count > 1; /* number 0 is "" */
        for (size_t i = 0; any && !err && i < sizeof privates / sizeof *privates; i++) {
            et_intern(listing->found, privates[i]);
        }
        return err;
    }
    int err = et_store_series_list(store, query, list_row, listing);
    bool sums =
        contains(&listing->kinds, "cpu") && contains(&listing->kinds, "wait") && !contains(&listing->kinds, ET_WALL);
    /* others' waits are no part of wall time, and Pyroscope has only the types that were sent */
    if (!err && listing->what == ET_LIST_TYPES && sums && listing->measured) {
        add_figures(listing, &(struct et_series_row){.unit = ""}, ET_WALL);
    }
    return err;
}

static bool list_selected(struct et_server *server, const struct et_request *request, struct listing *listing,
                          struct et_answer *answer)
{
    struct et_query_builder wanted = {.selector.strict = listing->of->strict};
    bool ok = listing->of->selector_count > 0 || et_wanted_query(&wanted, "");
    for (size_t i = 0; i < listing->of->selector_count && (i == 0 || ok); i++) {
        ok = et_wanted_query(&wanted, listing->of->selectors[i]);
    }
    if (!ok) {
        et_connect_error(answer, 400, wanted.why);
    } else {
        struct et_store *store = et_server_read(server, request);
        wanted.query.from_ns = listing->of->from_ns;
        wanted.query.to_ns = listing->of->to_ns;
        ok = list_query(store, listing, &wanted.query) >= 0;
        if (!ok) {
            et_connect_error(answer, et_read_status(store), et_store_why(store));
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

bool et_pyroscope_list(struct et_server *server, const struct et_request *request, enum et_listing what,
                       const struct et_listed *of, struct et_strings *out, struct et_answer *answer)
{
    struct listing listing = {.what = what, .of = of, .found = out};
    et_intern(out, "");
    et_intern(&listing.kinds, "");
    bool ok = list_selected(server, request, &listing, answer);
    et_strings_free(&listing.kinds);
    qsort(out->text, out->count, sizeof *out->text, compare_texts); /* "" sorts first; nothing is interned after this */
    return ok;
}
