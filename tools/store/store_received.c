/* See store.h: the received profiles of a query, one by one, by their sums alone. */
#include "tools/store/store_rows.h"

#include <stdlib.h>

struct received_list {
    struct et_store *store;
    const struct et_query *query;
    struct et_selection selection;
    struct et_rows rows;
    void (*row)(void *context, const struct et_received_row *row);
    void *context;
};

/* Whether the query may leave out stacks, for each series of the selection. */
static bool *find_partial(struct received_list *list, int *err)
{
    bool *partial = et_alloc(list->selection.count + 1, sizeof *partial);
    for (size_t i = 0; i < list->selection.count && !*err; i++) {
        *err = et_series_asks_stacks(list->store, list->query, &list->selection.series[i], &partial[i]);
    }
    return partial;
}

static void hand_over(const struct received_list *list, const bool *partial)
{
    for (size_t i = 0; i < list->rows.count; i++) {
        const struct et_row *row = &list->rows.rows[i];
        const struct et_series *series = &list->selection.series[row->series];
        const struct et_received_row received = {.id = row->id,
                                                 .at_ns = row->at_ns,
                                                 .start_ns = row->start_ns,
                                                 .service = series->service,
                                                 .tags = series->tags,
                                                 .host = series->host,
                                                 .value = row->value_sum,
                                                 .count = row->count_sum,
                                                 .partial = partial[row->series]};
        if (row->level == 0) {
            list->row(list->context, &received);
        }
    }
}

int et_store_received(struct et_store *store, const struct et_query *query,
                      void (*row)(void *context, const struct et_received_row *row), void *context)
{
    struct received_list list = {.store = store, .query = query, .row = row, .context = context};
    struct et_buf kind = {0};
    bool began = et_store_reading(store);
    et_buf_text(&kind, "");
    int err = et_store_choose_kind(store, query, &kind);
    err = err ? err : et_selection_make(store, query, kind.data, ET_SLACK_NS, &list.selection);
    err = err ? err : et_rows_choose(store, &list.selection, query->from_ns, query->to_ns, 0, &list.rows);
    bool *partial = find_partial(&list, &err);
    et_store_reading_done(store, began);
    if (!err) {
        hand_over(&list, partial);
        err = et_store_late(store); /* by what row() counted */
    }
    free(partial);
    free(list.rows.rows);
    et_selection_free(&list.selection);
    et_buf_free(&kind);
    return err;
}
