/* See store.h and store_rows.h: storing a received or merged profile. */
#include "tools/store/store_rows.h"

#include <errno.h>
#include <string.h>

static int sum_stacks(struct et_row *row, bool cpu, struct et_blob stacks)
{
    struct et_unpacked unpacked = {0};
    int err = et_unpack(&unpacked, row->packing, row->columns, stacks.bytes, stacks.size);
    for (size_t i = 0; i < unpacked.count; i++) {
        uint64_t value = unpacked.stacks[i].value * row->quantum;
        row->value_sum += value;
        row->count_sum += et_packed_count(cpu, row->columns, value, unpacked.stacks[i].count, row->period);
    }
    et_unpacked_free(&unpacked);
    return err;
}

static int add_labels(struct et_store *store, int64_t series, struct et_blob label_sets)
{
    const uint8_t *at = label_sets.bytes, *end = label_sets.size ? at + label_sets.size : at;
    uint64_t labels, ids[3];
    int err = 0;
    while (!err && at < end && et_label_set_next(&at, end, &labels, ids)) {
        err = labels ? et_store_run(store, "INSERT OR IGNORE INTO series_labels (series, labels) VALUES (?, ?)", "iu",
                                    series, labels)
                     : 0;
    }
    return err;
}

static const char PROFILE_ADD[] =
    "INSERT INTO profile (level, series, at_ns, start_ns, end_ns, profiles, period, samples, quantum, columns,"
    " packing, value_sum, count_sum) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
static const char BUCKET_DIRTY[] =
    "INSERT INTO bucket (level, start_ns, dirty) VALUES (?, ?, 1) ON CONFLICT (level, start_ns) DO UPDATE"
    " SET dirty = 1 WHERE NOT dirty";

int64_t et_store_add_row(struct et_store *store, struct et_row *row, bool cpu, struct et_blob stacks,
                         struct et_blob label_sets)
{
    row->value_sum = row->count_sum = 0;
    int err = sum_stacks(row, cpu, stacks);
    err = err ? err
              : et_store_run(store, PROFILE_ADD, "iiiiiuuuuiiuu", (int64_t)row->level, row->series, row->at_ns,
                             row->start_ns, row->end_ns, row->profiles, row->period, row->samples, row->quantum,
                             (int64_t)row->columns, (int64_t)row->packing, row->value_sum, row->count_sum);
    int64_t id = sqlite3_last_insert_rowid(store->db);
    err = err ? err
              : et_store_run(store, "INSERT INTO stacks (profile, stacks, contexts) VALUES (?, ?, ?)", "ibb", id,
                             stacks.bytes, stacks.size, label_sets.bytes, label_sets.size);
    if (!err && row->level + 1 < ET_LEVELS) {
        int64_t bucket = et_bucket_start(row->level + 1, row->at_ns);
        err = et_store_run(store, BUCKET_DIRTY, "ii", (int64_t)row->level + 1, bucket);
    }
    return err ? err : id;
}

static const char SERIES_ADD[] =
    "INSERT INTO series (origin, kind, unit, first_ns, last_ns, profiles) VALUES (?, ?, ?, ?, ?, 1)"
    " ON CONFLICT (origin, kind, unit) DO UPDATE SET first_ns = min(first_ns, excluded.first_ns),"
    " last_ns = max(last_ns, excluded.last_ns), profiles = profiles + 1 RETURNING id";

/* Returns the series' id; counts one more profile in it. */
static int64_t add_to_series(struct et_store *store, const struct et_stored *p)
{
    sqlite3_stmt *row = et_store_bind(store, SERIES_ADD, "issii", p->origin, p->kind, p->unit, p->start_ns, p->end_ns);
    int got = et_store_step(store, row);
    int64_t id = got == 1 ? sqlite3_column_int64(row, 0) : got;
    sqlite3_reset(row);
    return id;
}

int et_store_profile(struct et_store *store, const struct et_stored *p)
{
    struct et_blob label_sets = {p->stacks.label_sets.data, p->stacks.label_sets.size};
    int64_t series = add_to_series(store, p);
    if (series <= 0) {
        return series < 0 ? (int)series : -EIO;
    }
    struct et_buf bytes = {0};
    struct et_row row = {
        .series = series,
        .at_ns = p->start_ns,
        .start_ns = p->start_ns,
        .end_ns = p->end_ns,
        .profiles = 1,
        .period = p->period,
        .samples = p->samples,
        .quantum = p->quantum,
        .columns = p->stacks.columns,
        .packing = et_pack(&p->stacks, false, &bytes),
    };
    struct et_blob stacks = {bytes.data, bytes.size};
    int err = add_labels(store, series, label_sets);
    int64_t id = err ? err : et_store_add_row(store, &row, strcmp(p->kind, ET_CPU) == 0, stacks, label_sets);
    const struct et_counted more = {
        .value = row.value_sum, .count = row.count_sum, .profiles = 1, .last_ns = p->end_ns};
    et_buf_free(&bytes);
    return id < 0 ? (int)id : et_store_count(store, p->origin, p->kind, &more);
}
