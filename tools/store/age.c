/* See age.h. */
#include "tools/store/age.h"
#include "tools/lib/time_text.h"
#include "tools/store/store_internal.h"
#include "tools/store/store_rows.h"

#include <stdatomic.h>

static const int64_t HOUR = 3600 * ET_NS_PER_S, DAY = 86400 * ET_NS_PER_S;

/* Senders whose clock is right date their profiles at the count, and a little later. */
static int is_confirmed(const struct et_age *age, struct et_store *store, int64_t clock_ns, bool *confirmed)
{
    int64_t hours = et_store_number(
        store, "SELECT count(*) FROM bucket WHERE level = 2 AND start_ns > ?1 AND start_ns <= ?2 AND high > ?3", "iii",
        age->count_ns + HOUR, clock_ns, age->since_id);
    *confirmed = hours >= ET_AGE_HOURS;
    return hours < 0 ? (int)hours : 0;
}

/* What came and was seen during the doubt is as old as the count said; it is new. */
static int renew(const struct et_age *age, struct et_store *store, int64_t clock_ns)
{
    int err = et_store_begin(store);
    if (!err) {
        err = et_store_run(store, "UPDATE bucket SET seen_ns = ?1 WHERE high > ?2", "ii", clock_ns, age->since_id);
        err = err ? err : et_store_run(store, "UPDATE segment SET seen_ns = ?1", "i", clock_ns);
        int ended = et_store_end(store, !err);
        err = err ? err : ended;
    }
    return err;
}

static int begin_doubt(struct et_age *age, struct et_store *store)
{
    int64_t last = et_store_last(store);
    age->since_id = last;
    age->doubt = last < 0 ? age->doubt : ET_CLOCK_AHEAD;
    return last < 0 ? (int)last : 0;
}

int et_age_step(struct et_age *age, struct et_store *store, int64_t clock_ns, int64_t steady_ns)
{
    age->count_ns += steady_ns - age->steady_ns;
    age->steady_ns = steady_ns;
    age->confirmed = false;
    int64_t off = clock_ns - age->count_ns;
    int err = 0;
    if (off > DAY && age->doubt == ET_CLOCK_AHEAD) {
        err = is_confirmed(age, store, clock_ns, &age->confirmed);
        err = err || !age->confirmed ? err : renew(age, store, clock_ns);
        age->confirmed &= !err;
    } else if (off > DAY) {
        err = begin_doubt(age, store);
    }
    if (off <= DAY || age->confirmed) {
        age->doubt = off < -DAY ? ET_CLOCK_BEHIND : ET_CLOCK_RIGHT;
        age->count_ns = off > 0 ? clock_ns : age->count_ns;
    }
    age->off_ns = clock_ns - age->count_ns;
    atomic_store(&age->wrong_ns, age->doubt == ET_CLOCK_RIGHT ? 0 : age->off_ns);
    return err;
}

int et_age_begin(struct et_age *age, struct et_store *store, int64_t clock_ns, int64_t steady_ns)
{
    int64_t newest = et_store_number(store, "SELECT ifnull(max(seen_ns), 0) FROM bucket", "");
    newest = newest ? newest : et_store_newest(store);
    *age = (struct et_age){.count_ns = newest > 0 ? newest : clock_ns, .steady_ns = steady_ns};
    return newest < 0 ? (int)newest : et_age_step(age, store, clock_ns, steady_ns);
}

int64_t et_age_now(struct et_age *age)
{
    return et_now() - (age ? atomic_load(&age->wrong_ns) : 0);
}
