/*
 * See versions.h.
 *
 *   et_versions_compare -> et_store_origins -> add_process
 *                          choose_versions
 *                          place_processes -> add_seconds
 *                          load_side -> load_some     some processes at a time, which bounds the memory
 *                          et_verdict_make
 */
#include "tools/serve/query/versions.h"
#include "tools/lib/kinds.h"
#include "tools/lib/labels.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Processes that are read at a time. */
enum { SOME = 256 };

struct process {
    int64_t id, first_ns, last_ns;
    uint32_t version, device, cohort; /* string numbers */
    size_t entry;                     /* in the fleet + 1; 0: of another version */
};

struct comparer {
    struct et_store *store;
    struct et_symbols *symbols;
    const struct et_query *query;
    struct et_versions *out;
    struct et_strings strings;
    struct process *processes;
    size_t count, capacity;
    struct et_map entries; /* process id -> entry in the fleet + 1 */
    struct et_map firsts;  /* version -> when it was first seen */
};

/* ---- processes ---- */

static void append_tag(const char *tags, const char *key, const char *before, struct et_buf *out)
{
    size_t size = 0;
    const char *value = et_labels_value(tags, key, &size);
    if (value && size) {
        et_buf_text(out, before);
        et_buf_add(out, value, size);
    }
}

static uint32_t intern_and_free(struct comparer *c, struct et_buf *text)
{
    uint32_t number = et_intern(&c->strings, text->data ? text->data : "");
    et_buf_free(text);
    return number;
}

static void add_process(void *context, const struct et_origin_row *row)
{
    struct comparer *c = context;
    struct et_buf version = {0}, device = {0}, cohort = {0};
    append_tag(row->origin.tags, "version", "", &version);
    append_tag(row->origin.tags, "device", "", &device);
    if (!device.size) {
        et_buf_text(&device, row->origin.host);
    }
    et_buf_text(&cohort, row->origin.arch);
    append_tag(row->origin.tags, "board", " board=", &cohort);
    append_tag(row->origin.tags, "level", " level=", &cohort);
    c->processes = et_reserve(c->processes, &c->capacity, c->count + 1, sizeof *c->processes);
    c->processes[c->count++] = (struct process){.id = row->id,
                                                .first_ns = row->first_ns,
                                                .last_ns = row->last_ns,
                                                .version = intern_and_free(c, &version),
                                                .device = intern_and_free(c, &device),
                                                .cohort = intern_and_free(c, &cohort)};
}

/* ---- versions ---- */

/* Versions that are seen up to here were there before the query's time: which of them is the newest, it does not show.
 * INT64_MIN: the query has no begin. */
static int64_t begin_of(const struct comparer *c)
{
    enum { PART = 7 }; /* of seven days, the first one: some devices are seen once a day */
    int64_t from = c->query->from_ns, last = from;
    for (size_t i = 0; i < c->count; i++) {
        last = c->processes[i].last_ns > last ? c->processes[i].last_ns : last;
    }
    return from > 0 ? from + (last - from) / PART : INT64_MIN;
}

static void find_firsts(struct comparer *c)
{
    int64_t begin = begin_of(c);
    for (size_t i = 0; i < c->count; i++) {
        const struct process *process = &c->processes[i];
        int64_t first = process->first_ns > begin ? process->first_ns : INT64_MIN;
        bool known = et_map_find(&c->firsts, process->version) != NULL;
        uint64_t *own = et_map_at(&c->firsts, process->version);
        *own = !known || first < (int64_t)*own ? (uint64_t)first : *own;
    }
}

/* INT64_MAX: no process has it; INT64_MIN: it was there before. */
static int64_t first_seen(const struct comparer *c, uint32_t version)
{
    const uint64_t *first = et_map_find(&c->firsts, version);
    return first ? (int64_t)*first : INT64_MAX;
}

/* The version that was first seen last, but before `before` and not `other`; of several, by the order of their names.
 * 0: none. */
static uint32_t newest_before(const struct comparer *c, int64_t before, uint32_t other)
{
    uint32_t newest = 0;
    int64_t at = INT64_MIN;
    for (size_t i = 0; i < c->count && before > INT64_MIN; i++) {
        uint32_t version = c->processes[i].version;
        int64_t first = first_seen(c, version);
        if (!version || version == other || first > before) {
            continue;
        }
        if (!newest || first > at ||
            (first == at && strverscmp(et_text(&c->strings, version), et_text(&c->strings, newest)) > 0)) {
            newest = version;
            at = first;
        }
    }
    return newest;
}

static uint32_t number_of(struct comparer *c, const char *version)
{
    return version && *version ? et_intern(&c->strings, version) : 0;
}

static void set_side(struct comparer *c, enum et_side side, uint32_t version)
{
    struct et_versions *out = c->out;
    out->names[side] = et_strdup(et_text(&c->strings, version));
    for (size_t i = 0; i < c->count; i++) {
        const struct process *process = &c->processes[i];
        if (version && process->version == version) {
            bool none = out->last_ns[side] == 0;
            out->first_ns[side] =
                none || process->first_ns < out->first_ns[side] ? process->first_ns : out->first_ns[side];
            out->last_ns[side] = none || process->last_ns > out->last_ns[side] ? process->last_ns : out->last_ns[side];
        }
    }
}

static void choose_versions(struct comparer *c, const struct et_versions_request *request, uint32_t versions[ET_SIDES])
{
    uint32_t baseline = number_of(c, request->baseline), version = number_of(c, request->version);
    find_firsts(c);
    version = version ? version : newest_before(c, INT64_MAX, baseline);
    int64_t first = version ? first_seen(c, version) : INT64_MAX;
    if (!baseline && first < INT64_MAX) {
        baseline = newest_before(c, first, version);
    }
    bool known = first < INT64_MAX, compared = baseline && first_seen(c, baseline) < INT64_MAX;
    c->out->state = !known ? ET_VERSIONS_UNKNOWN : compared ? ET_VERSIONS_COMPARED : ET_VERSIONS_NO_BASELINE;
    versions[ET_LEFT] = baseline;
    versions[ET_RIGHT] = version;
    set_side(c, ET_LEFT, baseline);
    set_side(c, ET_RIGHT, version);
}

/* ---- devices ---- */

static int by_entry_and_time(const void *a, const void *b)
{
    const struct process *x = a, *y = b;
    if (x->entry != y->entry) {
        return x->entry < y->entry ? -1 : 1;
    }
    return x->first_ns < y->first_ns ? -1 : x->first_ns > y->first_ns;
}

/* A device's time counts once, however many processes it ran. */
static void add_seconds(struct comparer *c)
{
    int64_t until = INT64_MIN;
    for (size_t i = 0; i < c->count; i++) {
        const struct process *process = &c->processes[i];
        until = i && process->entry == c->processes[i - 1].entry ? until : INT64_MIN;
        int64_t from = process->first_ns > until ? process->first_ns : until;
        if (process->entry && process->last_ns > from) {
            c->out->fleet.entries[process->entry - 1].seconds += (double)(process->last_ns - from) / 1e9;
            until = process->last_ns;
        }
    }
}

static void place_processes(struct comparer *c, const uint32_t versions[ET_SIDES])
{
    for (size_t i = 0; i < c->count; i++) {
        struct process *process = &c->processes[i];
        for (enum et_side side = ET_LEFT; side < ET_SIDES; side++) {
            if (process->version == versions[side]) {
                process->entry = 1 + et_fleet_entry(&c->out->fleet, et_text(&c->strings, process->cohort),
                                                    et_text(&c->strings, process->device), side);
                *et_map_at(&c->entries, (uint64_t)process->id) = process->entry;
            }
        }
    }
    if (c->count) {
        qsort(c->processes, c->count, sizeof *c->processes, by_entry_and_time);
    }
    add_seconds(c);
}

/* ---- profiles ---- */

static size_t entry_of(void *context, const char *process)
{
    struct comparer *c = context;
    const uint64_t *entry = et_map_find(&c->entries, strtoull(process, NULL, 10));
    return entry ? (size_t)*entry - 1 : SIZE_MAX;
}

static void set_kind(struct et_versions *out, const struct et_profile *profile)
{
    if (!out->kind) {
        out->kind = et_strdup(et_text(&profile->strings, profile->kind));
        out->unit = et_strdup(et_text(&profile->strings, profile->unit));
    }
}

static int load_some(struct comparer *c, const int64_t *ids, size_t count)
{
    struct et_query query = {.service = c->query->service,
                             .kind = c->query->kind,
                             .from_ns = c->query->from_ns,
                             .to_ns = c->query->to_ns,
                             .matchers = c->query->matchers,
                             .matcher_count = c->query->matcher_count,
                             .measure = c->query->measure,
                             .processes = ids,
                             .process_count = count};
    struct et_profile *profile;
    size_t before = et_fleet_memory(&c->out->fleet);
    int err = et_store_load(c->store, &query, &profile);
    if (err) {
        return err;
    }
    size_t held = et_profile_memory(profile);
    set_kind(c->out, profile);
    const struct et_kind *kind = et_kind_named(c->out->kind);
    if (kind && kind->level) {
        err = -EINVAL;
    } else {
        et_symbolize_waiting(c->symbols, profile, false); /* a version without names would differ in all functions */
        et_fleet_add_profile(&c->out->fleet, profile, entry_of, c);
    }
    et_profile_free(profile);
    (void)et_budget_hold(et_store_budget(c->store), &held, 0);
    return err ? err : et_store_counts(c->store, et_fleet_memory(&c->out->fleet) - before);
}

static int load_side(struct comparer *c, enum et_side side)
{
    int64_t ids[SOME];
    size_t count = 0;
    int err = 0;
    for (size_t i = 0; i < c->count && !err; i++) {
        size_t entry = c->processes[i].entry;
        if (entry && c->out->fleet.entries[entry - 1].side == side) {
            ids[count++] = c->processes[i].id;
        }
        if (count && (count == SOME || i + 1 == c->count)) {
            err = load_some(c, ids, count);
            count = 0;
        }
    }
    return err;
}

/* One side after the other: how many samples came is known of all processes together that are loaded at once. */
static int load_all(struct comparer *c)
{
    int err = load_side(c, ET_LEFT);
    err = err ? err : load_side(c, ET_RIGHT);
    for (size_t i = 0; i < c->out->fleet.count; i++) {
        c->out->samples[c->out->fleet.entries[i].side] += c->out->fleet.entries[i].samples;
    }
    return err;
}

int et_versions_compare(struct et_store *store, struct et_symbols *symbols, const struct et_query *query,
                        const struct et_versions_request *request, struct et_versions *out)
{
    struct comparer c = {.store = store, .symbols = symbols, .query = query, .out = out};
    uint32_t versions[ET_SIDES];
    *out = (struct et_versions){.service = et_strdup(query->service ? query->service : ""),
                                .threshold = request->threshold > 0 ? request->threshold : ET_VERSIONS_THRESHOLD};
    et_intern(&c.strings, "");
    int err = et_store_origins(store, query, add_process, &c);
    err = err < 0 ? err : 0;
    choose_versions(&c, request, versions);
    if (!err && out->state == ET_VERSIONS_COMPARED) {
        place_processes(&c, versions);
        err = load_all(&c);
    }
    if (!err && out->state == ET_VERSIONS_COMPARED) {
        et_verdict_make(&out->fleet, out->threshold, &out->verdict);
    }
    et_strings_free(&c.strings);
    et_map_free(&c.entries);
    et_map_free(&c.firsts);
    free(c.processes);
    return err;
}

const char *et_versions_word(const struct et_versions *versions)
{
    static const char *const results[] = {"ok", "regression", "not yet"};
    static const char *const states[] = {"", "no data", "no baseline"};
    return versions->state == ET_VERSIONS_COMPARED ? results[versions->verdict.result] : states[versions->state];
}

void et_versions_free(struct et_versions *versions)
{
    free(versions->service);
    free(versions->kind);
    free(versions->unit);
    for (enum et_side side = ET_LEFT; side < ET_SIDES; side++) {
        free(versions->names[side]);
    }
    et_fleet_free(&versions->fleet);
    et_verdict_free(&versions->verdict);
    *versions = (struct et_versions){0};
}
