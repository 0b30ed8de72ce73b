/*
 * Roll-ups: the sums of an hour over processes that differ in device and host alone. A query that selects all of these
 * processes reads a roll-up instead of a row for each.
 *
 * A roll-up lists the rows of level 2 that it was made of. It is used only if the query selects all of them, and
 * replaces exactly these; late rows are used beside it. It is deleted before the first of its rows.
 */
#ifndef ET_STORE_ROLLUP_H
#define ET_STORE_ROLLUP_H

#include "tools/store/store_rows.h"

/* Makes roll-ups of an hour whose merge is complete, of about `stacks` stacks. least: rows that a first roll-up is made
 * of. Returns 1: did something; 0: nothing is due; or an error. Call it between et_store_begin() and et_store_end(). */
int et_rollup_step(struct et_store *store, size_t stacks, size_t least);

/* Whether rows of the hour are being deleted, by et_rollup_drop(). */
int et_rollup_dropped(struct et_store *store, int64_t hour_ns, bool *dropped);

/* Before rows of the hour are deleted: deletes its roll-ups; no more are made until et_rollup_forget(). */
int et_rollup_drop(struct et_store *store, int64_t hour_ns);
int et_rollup_forget(struct et_store *store, int64_t hour_ns);

/* Bytes of the hour's roll-ups, about. */
int64_t et_rollup_bytes(struct et_store *store, int64_t hour_ns);

/* Whether the query may use roll-ups. */
bool et_rollup_serves(const struct et_query *query, bool level);

/* Adds those of the hour that the selection can use to *out, as rows of ET_ROLLUP whose `series` is that of one member.
 * replaced: ids of the rows that they replace. *complete: no other row of level 2 in the hour is selected, and
 * `replaced` was left out. hour: its bucket of level 2. */
int et_rollup_choose(struct et_store *store, const struct et_selection *selection, const struct et_bucket *hour,
                     struct et_rows *out, struct et_map *replaced, bool *complete);

/* Reads the roll-up behind the one with id `after`; members are not in it. Returns 1, 0: there is none, or an error. */
int et_rollup_after(struct et_store *store, int64_t after, struct et_row *out);

/* The statement, ready to step, whose row has the roll-up's stacks, label sets and members. NULL: failed. */
sqlite3_stmt *et_rollup_bind(struct et_store *store, int64_t id);

/* Calls for the series of each row that a roll-up replaces. members: its column. */
bool et_rollup_next(const uint8_t **at, const uint8_t *end, int64_t *row, int64_t *series);

#endif
