/* See store.h: when processes were sampled more or less often than before. A row has the period of its first profile.
 */
#include "tools/lib/kinds.h"
#include "tools/lib/time_text.h"
#include "tools/store/store_rows.h"

#include <stdlib.h>

struct rate {
    int64_t series, at_ns;
    uint64_t period;
};

static int compare_rates(const void *a, const void *b)
{
    const struct rate *x = a, *y = b;
    if (x->series != y->series) {
        return x->series < y->series ? -1 : 1;
    }
    return x->at_ns < y->at_ns ? -1 : x->at_ns > y->at_ns;
}

/* Levels differ by more than this factor. */
static bool is_other(uint64_t before, uint64_t now)
{
    return now > before / 2 * 3 || before > now / 2 * 3;
}

static void tell(struct et_selection *selection, struct rate *rates, size_t count,
                 void (*change)(void *context, const struct et_rate_change *change), void *context)
{
    qsort(rates, count, sizeof *rates, compare_rates);
    for (size_t i = 1; i < count; i++) {
        const struct et_series *series = &selection->series[rates[i].series];
        if (rates[i].series != rates[i - 1].series) {
            continue;
        }
        if (!is_other(rates[i - 1].period, rates[i].period)) {
            rates[i].period = rates[i - 1].period; /* small steps add up to a large one */
            continue;
        }
        change(context, &(struct et_rate_change){.tags = series->tags,
                                                 .host = series->host,
                                                 .at_ns = rates[i].at_ns,
                                                 .before = rates[i - 1].period,
                                                 .after = rates[i].period});
    }
}

int et_store_rate_changes(struct et_store *store, const struct et_query *query,
                          void (*change)(void *context, const struct et_rate_change *change), void *context)
{
    const int64_t fine_ns = 6 * 3600 * ET_NS_PER_S, now = et_now();
    const int64_t length_ns = (query->to_ns < now ? query->to_ns : now) - query->from_ns;
    struct et_selection selection = {0};
    struct et_rows rows = {0};
    struct rate *rates = NULL;
    size_t count = 0, capacity = 0, held = 0;
    bool began = et_store_reading(store);
    int err = et_selection_make(store, query, ET_CPU, ET_SLACK_NS, &selection);
    int coarsest = length_ns <= fine_ns ? 0 : length_ns <= 4 * fine_ns ? 1 : 2;
    err = err ? err : et_rows_choose(store, &selection, query->from_ns, query->to_ns, coarsest, &rows);
    for (size_t i = 0; i < rows.count && !err; i++) {
        const struct et_row *row = &rows.rows[i];
        if (row->period && row->use == ET_USE_ALL) {
            rates = et_reserve(rates, &capacity, count + 1, sizeof *rates);
            rates[count++] = (struct rate){row->series, row->start_ns, row->period};
            err = et_store_hold(store, &held, capacity * sizeof *rates + rows.capacity * sizeof *rows.rows);
        }
    }
    if (!err && count) {
        tell(&selection, rates, count, change, context);
    }
    et_store_reading_done(store, began);
    (void)et_store_hold(store, &held, 0);
    free(rates);
    free(rows.rows);
    et_selection_free(&selection);
    return err;
}
