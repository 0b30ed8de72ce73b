/* See store.h: gives received profiles other values. */
#include "tools/store/store_rows.h"

#include <errno.h>
#include <stdlib.h>

enum { LABEL_SETS = 3 }; /* the column of their numbers */

/* A fraction goes to the next stack, so that the sum is right. */
struct scale {
    double factor, rest;
};

static uint64_t take(struct scale *scale, uint64_t value)
{
    const double wanted = (double)value * scale->factor + scale->rest;
    const uint64_t whole = wanted > 0 ? (uint64_t)wanted : 0;
    scale->rest = wanted - (double)whole;
    return whole;
}

static int scale_stacks(const struct et_row *row, struct et_blob old, struct scale *scale, struct et_stacks *scaled,
                        uint64_t *sum)
{
    struct et_unpacked unpacked = {0};
    int err = et_unpack(&unpacked, row->packing, row->columns, old.bytes, old.size);
    scaled->columns = (uint8_t)(row->columns & ~ET_COLUMN_LABEL_SET);
    for (size_t i = 0; !err && i < unpacked.count; i++) {
        const struct et_packed *stack = &unpacked.stacks[i];
        const uint64_t value = take(scale, stack->value * row->quantum);
        *sum += value;
        et_stacks_add(scaled, &(struct et_stack){.node = (int64_t)stack->node, .value = value, .count = stack->count});
        if (row->columns & ET_COLUMN_LABEL_SET) {
            et_varint_put(&scaled->column[LABEL_SETS], stack->label_set);
        }
    }
    et_unpacked_free(&unpacked);
    return err;
}

static int scale_row(struct et_store *store, const struct et_row *row, struct scale *scale)
{
    struct et_stacks scaled = {0};
    struct et_buf bytes = {0};
    uint64_t sum = 0;
    sqlite3_stmt *statement = et_stacks_bind(store, row->id);
    int err = et_store_step(store, statement);
    err = err == 1 ? scale_stacks(row, et_column_blob(statement, 0), scale, &scaled, &sum) : err;
    sqlite3_reset(statement);
    if (!err) {
        int64_t packing = et_pack(&scaled, false, &bytes);
        uint64_t period = (uint64_t)((double)row->period * scale->factor);
        err = et_store_run(store, "UPDATE profile SET quantum = 1, period = ?, packing = ?, value_sum = ? WHERE id = ?",
                           "uiui", period, packing, sum, row->id);
        err = err ? err
                  : et_store_run(store, "UPDATE stacks SET stacks = ? WHERE profile = ?", "bi", bytes.data, bytes.size,
                                 row->id);
    }
    et_buf_free(&bytes);
    et_stacks_free(&scaled);
    return err;
}

static const char MERGED[] = "SELECT count(*) FROM bucket WHERE (low OR high) AND start_ns >= ? AND start_ns < ?";

int et_store_scale(struct et_store *store, const struct et_query *query, double factor)
{
    struct scale scale = {.factor = factor};
    struct et_selection selection = {0};
    struct et_rows rows = {0};
    int64_t merged = et_store_number(store, MERGED, "ii", et_bucket_start(ET_LEVELS - 1, query->from_ns), query->to_ns);
    int err = merged > 0 ? -EBUSY : (int)merged;
    err = err ? err : et_selection_make(store, query, query->kind, 0, &selection);
    err = err ? err : et_rows_choose(store, &selection, query->from_ns, query->to_ns, 0, &rows);
    for (size_t i = 0; !err && i < rows.count; i++) {
        err = scale_row(store, &rows.rows[i], &scale);
    }
    free(rows.rows);
    et_selection_free(&selection);
    return err;
}
