/*
 * The time by which the database's content grows old: a count of time that a wrong clock cannot change.
 *
 * The count begins at the newest time that the keeper has written to the database, goes on with a clock that nobody
 * sets, and never goes back. It follows the system's clock when that is ahead by a day or less. A clock that is further
 * ahead is doubted until it is right again or confirmed: by profiles of ET_AGE_HOURS different hours that came since,
 * dated between the count and the clock. A clock that is behind changes nothing: the count goes on without it.
 *
 * So a wrong clock deletes and refuses nothing; after a long time without the server, the count is behind the clock,
 * and profiles stay longer. The size limit does not depend on it.
 */
#ifndef ET_AGE_H
#define ET_AGE_H

#include "tools/store/store.h"

enum { ET_AGE_HOURS = 12 };

enum et_age_doubt { ET_CLOCK_RIGHT, ET_CLOCK_AHEAD, ET_CLOCK_BEHIND };

struct et_age {
    int64_t count_ns; /* Unix time as counted */
    int64_t steady_ns;
    int64_t since_id; /* the last row when the doubt began */
    int64_t off_ns;   /* the clock less the count */
    enum et_age_doubt doubt;
    bool confirmed;           /* the last step confirmed the clock */
    _Atomic int64_t wrong_ns; /* a doubted clock less the count; else 0 */
};

/* clock_ns: Unix time; steady_ns: et_since_boot(). Both return 0 or an error of the database.
 * Context: the thread that has the database. */
int et_age_begin(struct et_age *age, struct et_store *store, int64_t clock_ns, int64_t steady_ns);
int et_age_step(struct et_age *age, struct et_store *store, int64_t clock_ns, int64_t steady_ns);

/* Unix time, by the count while the clock is doubted. age: NULL for the clock. Context: any thread. */
int64_t et_age_now(struct et_age *age);

#endif
