/*
 * See store.h: loading a profile. First the chosen rows are summed by (node, labels); then each node, frame and module
 * that occurs is read once.
 *
 *   et_store_load   load_rows -> load_row -> read_label_sets -> add_query_label_set
 *                                -> et_sums_add
 *                   et_dictionary_load
 */
#include "tools/lib/labels.h"
#include "tools/store/store_damage.h"
#include "tools/store/store_dictionary.h"
#include "tools/store/store_rollup.h"
#include "tools/store/store_sums.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- memory ---- */

static size_t map_memory(const struct et_map *map)
{
    return map->capacity * sizeof *map->entries;
}

static size_t loader_memory(const struct profile_loader *s)
{
    const struct et_map *const maps[] = {&s->pair_index, &s->texts, &s->by_text, &s->latest, &s->origins, &s->known};
    size_t bytes = et_profile_memory(s->profile) + s->pair_capacity * sizeof *s->pairs + s->capacity * sizeof *s->sums +
                   s->slot_count * sizeof *s->slots + s->seen_capacity * sizeof *s->seen +
                   s->label_set_capacity * sizeof *s->label_sets;
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++) {
        bytes += map_memory(maps[i]);
    }
    return bytes + s->direct_bytes;
}

/* ---- label sets ---- */

static uint32_t label_text(struct profile_loader *s, int64_t labels)
{
    uint64_t *known = et_map_at(&s->texts, (uint64_t)labels);
    if (!*known && !s->err) {
        struct et_buf lines = {0};
        s->err = et_store_labels_text(s->store, labels, &lines);
        *known = 1 + et_intern(&s->profile->strings, lines.data);
        et_buf_free(&lines);
    }
    return *known ? (uint32_t)*known - 1 : 0;
}

static uint32_t find_group(struct profile_loader *s, const char *labels)
{
    struct et_buf key = {0}, name = {0};
    const char *rest = s->query->group;
    if (s->query->process_count) {
        et_buf_printf(&name, "%lld", (long long)s->series->origin);
        uint32_t process = et_intern(&s->profile->strings, name.data);
        et_buf_free(&name);
        return process;
    }
    if (!s->query->group) {
        return 0;
    }
    while (et_group_next(&rest, &key)) {
        size_t size = 0;
        const char *value = et_process_value(labels, &s->series->process, key.data, &size);
        et_buf_printf(&name, value ? "%s%s=" : "%s[no %s]", name.size ? ", " : "", key.data);
        et_buf_add(&name, value ? value : "", size);
    }
    uint32_t number = et_intern(&s->profile->strings, name.data);
    et_buf_free(&name);
    et_buf_free(&key);
    return number;
}

static uint32_t find_label_sum(struct profile_loader *s, uint32_t lines)
{
    struct et_profile *p = s->profile;
    uint64_t *known = et_map_at(&s->by_text, lines);
    if (!*known) {
        p->label_sums = et_reserve(p->label_sums, &p->label_capacity, p->label_count + 1, sizeof *p->label_sums);
        p->label_sums[p->label_count] = (struct et_entry){.labels = lines};
        *known = ++p->label_count;
    }
    return (uint32_t)*known - 1;
}

static uint32_t find_pair(struct profile_loader *s, uint32_t labels, uint32_t group)
{
    uint64_t *known = et_map_at(&s->pair_index, (uint64_t)labels << 32 | group);
    if (!*known) {
        s->pairs = et_reserve(s->pairs, &s->pair_capacity, s->pair_count + 1, sizeof *s->pairs);
        s->pairs[s->pair_count] = (struct label_group){.labels = labels, .group = group};
        *known = ++s->pair_count;
    }
    return (uint32_t)*known - 1;
}

/* Returns the index of the label set in seen. */
static uint32_t add_query_label_set(struct profile_loader *s, int64_t labels, const uint64_t ids[3])
{
    s->err = s->err ? s->err : et_store_late(s->store);
    uint32_t text = label_text(s, labels);
    char *lines = et_label_set_text(et_text(&s->profile->strings, text), ids);
    struct query_label_set seen = {.sum = find_label_sum(s, text), .wanted = !s->err};
    for (size_t i = 0; i < s->query->matcher_count && seen.wanted; i++) {
        seen.wanted = et_process_matches(&s->query->matchers[i], lines, &s->series->process);
    }
    uint32_t carried = s->query->keep_labels ? et_intern(&s->profile->strings, lines) : 0;
    seen.pair = find_pair(s, carried, find_group(s, lines));
    s->seen = et_reserve(s->seen, &s->seen_capacity, s->seen_count + 1, sizeof *s->seen);
    s->seen[s->seen_count] = seen;
    free(lines);
    return (uint32_t)s->seen_count++;
}

static void add_label_set(struct profile_loader *s, uint64_t series, uint64_t labels, const uint64_t ids[3])
{
    static const uint64_t none[3];
    uint32_t number;
    if (s->ids && (ids[0] || ids[1] || ids[2])) {
        number = add_query_label_set(s, (int64_t)labels, ids);
    } else {
        uint64_t *known = et_map_at(&s->known, series << 32 | labels);
        *known = *known ? *known : 1u + add_query_label_set(s, (int64_t)labels, none);
        number = (uint32_t)*known - 1;
    }
    s->label_sets = et_reserve(s->label_sets, &s->label_set_capacity, s->label_set_count + 1, sizeof *s->label_sets);
    s->label_sets[s->label_set_count++] = number;
}

static void read_label_sets(struct profile_loader *s, uint64_t series, struct et_blob label_sets)
{
    const uint8_t *at = label_sets.bytes, *end = label_sets.size ? at + label_sets.size : at;
    uint64_t labels, ids[3] = {0};
    s->label_set_count = 0;
    add_label_set(s, series, 0, ids);
    while (at < end && et_label_set_next(&at, end, &labels, ids)) {
        add_label_set(s, series, labels, ids);
    }
}

/* ---- rows ---- */

static void note_row_header(struct profile_loader *s, const struct et_row *row)
{
    struct et_profile *p = s->profile;
    if (p->profiles == 0 || row->end_ns > p->end_ns) { /* of the latest row */
        p->value_unit = et_intern(&p->strings, s->series->unit);
        p->period = row->period;
    }
    p->start_ns = p->profiles == 0 || row->start_ns < p->start_ns ? row->start_ns : p->start_ns;
    p->end_ns = p->profiles == 0 || row->end_ns > p->end_ns ? row->end_ns : p->end_ns;
    p->profiles += row->profiles;
    p->samples += row->samples;
}

static void note_process(struct profile_loader *s, const struct et_series *series)
{
    (void)et_map_at(&s->origins, (uint64_t)series->origin);
    s->profile->processes = s->origins.count;
}

/* The processes of a roll-up, all of which are selected. */
static void note_members(struct profile_loader *s, struct et_blob members)
{
    const uint8_t *at = members.bytes, *end = members.size ? at + members.size : at;
    int64_t row = 0, series;
    while (et_rollup_next(&at, end, &row, &series)) {
        const uint64_t *index = et_map_find(&s->selection.index, (uint64_t)series);
        if (index) {
            note_process(s, &s->selection.series[*index - 1]);
        }
    }
}

/* The row's stacks cannot be used. The next try leaves them out. */
static int note_damaged(const struct profile_loader *s, const struct et_row *row, const char *reason)
{
    return et_damage_note(s->store, row, s->series, reason);
}

/* For a query that has failed at what its stacks refer to: finds the rows that do so. */
static int check_row(const struct profile_loader *s, const struct et_row *row)
{
    char why[120];
    int got = s->check ? et_damage_find(s->check, row, why) : 0;
    return got == 1 ? note_damaged(s, row, why) : got;
}

static int load_row(struct profile_loader *s, const struct et_row *row)
{
    bool rollup = row->level == ET_ROLLUP, header = row->use == ET_USE_ALL || row->use == ET_USE_HEADER;
    s->series = &s->selection.series[row->series];
    if (header) {
        note_row_header(s, row);
        note_process(s, s->series);
    }
    if (row->use == ET_USE_HEADER) {
        return 0;
    }
    int doubt = check_row(s, row);
    if (doubt) {
        return doubt;
    }
    sqlite3_stmt *statement = rollup ? et_rollup_bind(s->store, row->id) : et_stacks_bind(s->store, row->id);
    int got = et_store_step(s->store, statement);
    if (got == 1) {
        note_members(s, rollup && header ? et_column_blob(statement, 2) : (struct et_blob){0});
        struct et_blob stacks = et_column_blob(statement, 0);
        read_label_sets(s, (uint64_t)row->series, et_column_blob(statement, 1));
        got = et_sums_add(s, row, stacks) ? note_damaged(s, row, "its stacks cannot be read") : 0;
        bool fits = got || !s->beyond || et_total_add(&s->total, row, s->row_sum.value, s->row_sum.count);
        got = fits ? got : et_total_note(s->beyond, row, s->series);
    } else {
        got = got ? got : note_damaged(s, row, "its stacks are missing");
    }
    sqlite3_reset(statement);
    return got;
}

static bool is_wanted_id(const struct et_query *query, const struct et_row *row)
{
    for (size_t i = 0; i < query->id_count; i++) {
        if (row->level == 0 && row->id == query->ids[i]) {
            return true;
        }
    }
    return query->id_count == 0;
}

/* In file order, so that the system reads ahead. */
static int compare_row_ids(const void *a, const void *b)
{
    const struct et_row *x = a, *y = b;
    bool first = x->level == ET_ROLLUP, second = y->level == ET_ROLLUP; /* another table */
    return first != second ? first - second : x->id < y->id ? -1 : x->id > y->id;
}

static int choose_rows(struct profile_loader *s, bool level, struct et_rows *rows)
{
    const struct et_query *query = s->query;
    const struct et_selection *selection = &s->selection;
    if (query->id_count || s->ids || level) {
        int coarsest = query->id_count ? 0 : s->ids ? 1 : 2;
        return et_rows_choose(s->store, selection, query->from_ns, query->to_ns, coarsest, rows);
    }
    bool rollups = et_rollup_serves(query, level);
    return et_rows_choose_sums(s->store, selection, query->from_ns, query->to_ns, rollups, rows);
}

/* Whether a row of a level counts: its process' last one, if that lived at the end. */
static bool lives_last(struct profile_loader *s, const struct et_row *row, int64_t end_ns)
{
    return et_row_is_last(&s->latest, (uint64_t)row->series, row) &&
           et_series_lives(&s->selection.series[row->series], row, end_ns);
}

/* The time that rows cover together. They are in the order of their starts, latest first. */
static int64_t covered_by(const struct et_rows *rows)
{
    int64_t covered = 0, until = INT64_MIN;
    for (size_t i = rows->count; i-- > 0;) {
        const struct et_row *row = &rows->rows[i];
        int64_t from = row->start_ns > until ? row->start_ns : until;
        if ((row->use == ET_USE_ALL || row->use == ET_USE_HEADER) && row->end_ns > from) {
            covered += row->end_ns - from;
            until = row->end_ns;
        }
    }
    return covered;
}

static int load_rows(struct profile_loader *s, const char *kind)
{
    struct et_rows rows = {0};
    const struct et_query *query = s->query;
    s->ids = query->keep_labels || et_query_asks_ids(query);
    bool level = s->kind && s->kind->level;
    int err = et_selection_make(s->store, query, kind, ET_SLACK_NS, &s->selection);
    err = err || !level ? err : et_selection_ends(s->store, &s->selection);
    err = err ? err : choose_rows(s, level, &rows);
    int64_t end = et_selection_end(&s->selection, query->to_ns);
    size_t own = rows.capacity * sizeof *rows.rows;
    err = err ? err : et_store_hold(s->store, &s->held, own);
    s->profile->covered_ns = covered_by(&rows);
    if (!level && rows.count) {
        qsort(rows.rows, rows.count, sizeof *rows.rows, compare_row_ids);
    }
    int damaged = 0;
    for (size_t i = 0; i < rows.count && !err; i++) {
        if (!is_wanted_id(query, &rows.rows[i])) {
            continue;
        }
        if (et_damage_known(s->store, &rows.rows[i]) || et_total_beyond(s->beyond, &rows.rows[i])) {
            s->profile->damaged++;
            continue;
        }
        if (!level || lives_last(s, &rows.rows[i], end)) {
            err = load_row(s, &rows.rows[i]);
            damaged = err == -EBADMSG ? err : damaged;
            err = err == -EBADMSG ? 0 : err ? err : s->err;
            err = err ? err : et_store_hold(s->store, &s->held, own + loader_memory(s));
        }
    }
    if (s->left_out.value || s->left_out.count) {
        s->profile->samples = 0; /* the number of samples is unknown for a subset of labels */
    }
    free(rows.rows);
    return err ? err : damaged;
}

static void free_sums(struct profile_loader *s)
{
    struct et_map *maps[] = {&s->pair_index, &s->texts, &s->by_text, &s->latest, &s->origins, &s->known};
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++) {
        et_map_free(maps[i]);
    }
    et_sums_free(s);
    free(s->seen);
    free(s->label_sets);
    et_buf_free(&s->inflated);
    et_selection_free(&s->selection);
}

/* Sets the profile's header before any row is added. */
static void begin_sums(struct profile_loader *s, const char *service, const char *kind)
{
    struct et_profile *p = s->profile = et_profile_new();
    s->kind = et_kind_named(kind);
    p->kind = et_intern(&p->strings, kind);
    p->service = et_intern(&p->strings, service);
    p->value_unit = et_intern(&p->strings, s->kind ? s->kind->unit : "");
}

/* Makes the profile from the sums, unless there was an error. */
static int finish_sums(struct profile_loader *s, int err, struct et_profile **out)
{
    et_sums_collect_pages(s);
    et_sums_remove_zeros(s);
    err = err ? err : et_store_hold(s->store, &s->held, loader_memory(s));
    err = err ? err : et_dictionary_load(s->store, s->profile, s->sums, s->count);
    err = err ? err : et_store_began(s->store, &s->origins, s->profile);
    et_store_reading_done(s->store, s->began);
    (void)et_budget_hold(s->store->budget, &s->held, err ? 0 : et_profile_memory(s->profile));
    if (err) {
        et_profile_free(s->profile);
    } else {
        et_profile_show(s->profile, s->query->measure);
        *out = s->profile;
    }
    free_sums(s);
    return err;
}

static int load_once(struct et_store *store, const struct et_query *query, struct et_map *beyond,
                     struct et_profile **out)
{
    struct et_damage_check check = {.store = store};
    struct profile_loader sums = {
        .store = store, .query = query, .check = store->doubts_rows ? &check : NULL, .beyond = beyond};
    struct et_buf kind = {0};
    /* one read transaction, so that an arriving message is included entirely or not at all */
    sums.began = et_store_reading(store);
    et_buf_text(&kind, "");
    int err = et_store_choose_kind(store, query, &kind);
    begin_sums(&sums, query->service ? query->service : "", kind.data);
    err = err ? err : load_rows(&sums, kind.data);
    et_buf_free(&kind);
    et_damage_check_free(&check);
    return finish_sums(&sums, err, out);
}

/* An error for which SQLite has no message: something that a stack refers to is missing. */
static bool is_reference(const struct et_store *store, int err)
{
    return err == -EIO && !*store->why;
}

int et_store_load(struct et_store *store, const struct et_query *query, struct et_profile **out)
{
    int err;
    struct et_map beyond = {0};
    store->why[0] = '\0';
    store->doubts_rows = false;
    do {
        err = load_once(store, query, &beyond, out);
        if (is_reference(store, err) && !store->doubts_rows) {
            store->doubts_rows = true;
            err = -EBADMSG;
        }
    } while (err == -EBADMSG); /* rows that were noted are left out, see et_damage_note() */
    store->doubts_rows = false;
    et_map_free(&beyond);
    return err;
}

static const char ROW_NEXT[] = "SELECT " ET_ROW_COLUMNS " FROM profile WHERE id > ? AND NOT level ORDER BY id LIMIT 1";

static int next_row(struct et_store *store, int64_t after, struct et_row *out)
{
    sqlite3_stmt *row = et_store_bind(store, ROW_NEXT, "i", after);
    int got = et_store_step(store, row);
    if (got == 1) {
        *out = et_row_of(row, 0);
        sqlite3_reset(row);
    }
    return got;
}

static int load_next(struct et_store *store, int64_t after, struct et_arrival *out)
{
    static const struct et_query all = {.keep_labels = true};
    struct profile_loader sums = {.store = store, .query = &all, .ids = true, .one_row = true};
    struct et_row row;
    sums.began = et_store_reading(store);
    int got = next_row(store, after, &row);
    if (got != 1) {
        et_store_reading_done(store, sums.began);
        return got;
    }
    int err = et_selection_one(store, row.series, &sums.selection);
    const struct et_series *series = sums.selection.series;
    int64_t origin = series ? series->origin : 0;
    begin_sums(&sums, series ? series->service : "", series ? series->kind : "");
    row.series = 0;
    err = err ? err : load_row(&sums, &row);
    err = err ? err : sums.err; /* without their labels the stacks are not complete */
    got = err ? err : et_store_origin_get(store, origin, &sums.profile->strings, &out->origin);
    out->id = row.id;
    err = finish_sums(&sums, got == 1 ? 0 : got ? got : -EIO, &out->profile);
    if (is_reference(store, err)) {
        struct et_series unknown = {.service = "?", .kind = "?"};
        err = et_damage_note(store, &row, &unknown, "what its stacks refer to is missing");
    }
    return err ? err : 1;
}

int et_store_next(struct et_store *store, int64_t after, struct et_arrival *out)
{
    int got;
    store->why[0] = '\0';
    while ((got = load_next(store, after, out)) == -EBADMSG) {
        after = out->id; /* the row is damaged */
    }
    return got;
}
