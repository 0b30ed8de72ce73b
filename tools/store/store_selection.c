/* See store_rows.h: the series that a query selects. */
#include "tools/lib/labels.h"
#include "tools/store/store_rows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

sqlite3_stmt *et_series_labels_bind(struct et_store *store, int64_t series)
{
    return et_store_bind(
        store, "SELECT l.lines FROM series_labels s JOIN labels l ON l.id = s.labels WHERE s.series = ?", "i", series);
}

/* Whether stacks of a series may have a label of that name. */
static int series_labelled(struct et_store *store, int64_t series, const char *name, bool *has)
{
    *has = strcmp(name, ET_SPAN_ID) == 0 || strcmp(name, ET_TRACE_ID) == 0;
    sqlite3_stmt *row = et_series_labels_bind(store, series);
    int got = 0;
    size_t size;
    while (!*has && (got = et_store_step(store, row)) == 1) {
        *has = et_labels_value(et_column_text(row, 0), name, &size);
    }
    sqlite3_reset(row);
    return got < 0 ? got : 0;
}

static bool is_wanted_process(const struct et_query *query, int64_t origin)
{
    for (size_t i = 0; i < query->process_count; i++) {
        if (query->processes[i] == origin) {
            return true;
        }
    }
    return query->process_count == 0;
}

/* False: none of its stacks can be wanted, its process is another. */
static int series_wanted(struct et_store *store, const struct et_query *query, const struct et_series *series,
                         bool *wanted)
{
    *wanted = is_wanted_process(query, series->origin);
    for (size_t i = 0; i < query->matcher_count && *wanted; i++) {
        const struct et_matcher *matcher = &query->matchers[i];
        *wanted = et_process_matches(matcher, "", &series->process);
        int err = *wanted || matcher->process ? 0 : series_labelled(store, series->id, matcher->name, wanted);
        if (err) {
            return err;
        }
    }
    return 0;
}

int et_series_asks_stacks(struct et_store *store, const struct et_query *query, const struct et_series *series,
                          bool *asks)
{
    struct et_buf key = {0};
    const char *rest = query->group;
    int err = 0;
    *asks = false;
    while (!err && !*asks && et_group_next(&rest, &key)) {
        err = series_labelled(store, series->id, key.data, asks);
    }
    et_buf_free(&key);
    for (size_t i = 0; i < query->matcher_count && !*asks && !err; i++) {
        const struct et_matcher *matcher = &query->matchers[i];
        err = matcher->process ? 0 : series_labelled(store, series->id, matcher->name, asks);
    }
    return err;
}

bool et_query_selects_row(const struct et_query *query, sqlite3_stmt *row, int first)
{
    struct et_process process = {.service = et_column_text(row, first),
                                 .tags = et_column_text(row, first + 1),
                                 .host = et_column_text(row, first + 2)};
    if (query->service && *query->service && strcmp(query->service, process.service) != 0) {
        return false;
    }
    for (size_t i = 0; i < query->matcher_count; i++) {
        if (!et_process_matches(&query->matchers[i], "", &process)) {
            return false;
        }
    }
    return true;
}

static bool asks_for(const struct et_query *query, const char *key)
{
    bool found = et_group_has(query->group, key);
    for (size_t i = 0; i < query->matcher_count && !found; i++) {
        found = strcmp(query->matchers[i].name, key) == 0 && !query->matchers[i].process;
    }
    return found;
}

bool et_query_asks_ids(const struct et_query *query)
{
    return asks_for(query, ET_SPAN_ID) || asks_for(query, ET_TRACE_ID);
}

static void free_series(struct et_series *series)
{
    free(series->kind);
    free(series->unit);
    free(series->tags);
    free(series->service);
    free(series->host);
}

static int add_series(struct et_store *store, const struct et_query *query, sqlite3_stmt *row, struct et_selection *out)
{
    struct et_series series = {
        .id = sqlite3_column_int64(row, 0),
        .origin = sqlite3_column_int64(row, 1),
        .kind = et_strdup(et_column_text(row, 2)),
        .unit = et_strdup(et_column_text(row, 3)),
        .tags = et_strdup(et_column_text(row, 4)),
        .service = et_strdup(et_column_text(row, 5)),
        .host = et_strdup(et_column_text(row, 6)),
        .last_ns = sqlite3_column_int64(row, 7),
    };
    series.process = (struct et_process){.tags = series.tags, .service = series.service, .host = series.host};
    series.cpu = strcmp(series.kind, ET_CPU) == 0;
    bool wanted = false;
    int err = series_wanted(store, query, &series, &wanted);
    if (err || !wanted) {
        free_series(&series);
        return err;
    }
    out->series = et_reserve(out->series, &out->capacity, out->count + 1, sizeof *out->series);
    out->series[out->count++] = series;
    *et_map_at(&out->index, (uint64_t)series.id) = out->count;
    return 0;
}

static const char SERIES_WANTED[] =
    "SELECT s.id, s.origin, s.kind, s.unit, o.tags, o.service, o.host, s.last_ns FROM series s JOIN origin o"
    " ON o.id = s.origin WHERE s.last_ns > ?1 AND s.first_ns < ?2 AND (?3 = '' OR o.service = ?3) AND (?4 = ''"
    " OR s.kind = ?4 OR (?4 = 'wall' AND s.kind IN ('cpu', 'wait') AND o.service NOT IN (SELECT v.service FROM series w"
    " JOIN origin v ON v.id = w.origin WHERE w.kind = 'wall'))) ORDER BY s.id";

int et_selection_make(struct et_store *store, const struct et_query *query, const char *kind, int64_t slack_ns,
                      struct et_selection *out)
{
    int64_t from = query->from_ns > INT64_MIN + slack_ns ? query->from_ns - slack_ns : INT64_MIN;
    int64_t to = query->to_ns < INT64_MAX - slack_ns ? query->to_ns + slack_ns : INT64_MAX;
    const char *service = query->service ? query->service : "";
    sqlite3_stmt *row = et_store_bind(store, SERIES_WANTED, "iiss", from, to, service, kind ? kind : "");
    int got, err = 0;
    while (!err && (got = et_store_step(store, row)) != 0) {
        err = got < 0 ? got : add_series(store, query, row, out);
    }
    sqlite3_reset(row);
    return err;
}

static const char SERIES_GET[] =
    "SELECT s.id, s.origin, s.kind, s.unit, o.tags, o.service, o.host, s.last_ns FROM series s JOIN origin o"
    " ON o.id = s.origin WHERE s.id = ?";

int et_selection_one(struct et_store *store, int64_t series, struct et_selection *out)
{
    static const struct et_query all;
    sqlite3_stmt *row = et_store_bind(store, SERIES_GET, "i", series);
    int got = et_store_step(store, row);
    int err = got == 1 ? add_series(store, &all, row, out) : got ? got : -EIO;
    sqlite3_reset(row);
    return err;
}

/* ---- who lives ---- */

static const char HAS_ENDED[] = "SELECT count(*) > 0 AND min(ended) FROM segment WHERE origin = ?";

int et_selection_ends(struct et_store *store, struct et_selection *selection)
{
    int err = 0;
    for (size_t i = 0; i < selection->count && !err; i++) {
        sqlite3_stmt *row = et_store_bind(store, HAS_ENDED, "i", selection->series[i].origin);
        int got = et_store_step(store, row);
        selection->series[i].ended = got == 1 && sqlite3_column_int(row, 0);
        err = got < 0 ? got : 0;
        sqlite3_reset(row);
    }
    return err;
}

int64_t et_selection_end(const struct et_selection *selection, int64_t to_ns)
{
    int64_t last = INT64_MIN;
    for (size_t i = 0; i < selection->count; i++) {
        last = selection->series[i].last_ns > last ? selection->series[i].last_ns : last;
    }
    return last < to_ns ? last : to_ns;
}

/* A process that goes on reports again after its interval, give or take. One that has ended counts beside those that
 * ended with it, and not beside the one that was started in its place, which reports an interval later. */
bool et_series_lives(const struct et_series *series, const struct et_row *last, int64_t at_ns)
{
    static const int64_t least_ns = 30 * ET_NS_PER_S, ended_ns = 2 * ET_NS_PER_S, unknown_ns = 300 * ET_NS_PER_S;
    int64_t interval = (last->end_ns - last->start_ns) / (int64_t)(last->profiles ? last->profiles : 1);
    int64_t grace = 5 * (interval / 2);
    if (series->ended) {
        grace = interval > ended_ns ? interval : ended_ns;
    } else if (interval == 0) {
        grace = unknown_ns; /* of a foreign sender, which says only when */
    } else if (grace < least_ns) {
        grace = least_ns;
    }
    return series->last_ns >= at_ns || at_ns - series->last_ns <= grace;
}

void et_selection_free(struct et_selection *selection)
{
    for (size_t i = 0; i < selection->count; i++) {
        free_series(&selection->series[i]);
    }
    free(selection->series);
    et_map_free(&selection->index);
    *selection = (struct et_selection){0};
}
