/*
 * Limits the size of the database: merges profiles over time (see store_rows.h), deletes old rows and their series, and
 * then nodes, frames, modules, labels and origins that nothing uses any more. Each step is one transaction of about
 * 10 ms, so the program may end between any two without loss.
 *
 * Functions that return int return 1 when they did something and more may be due, 0 when nothing is due, or a negative
 * errno value.
 */
#ifndef ET_STORE_KEEP_H
#define ET_STORE_KEEP_H

#include "tools/store/store.h"

/* Retention. Ages count from the time of measurement and from the time of merging, soon after arrival, so that late
 * profiles stay as long, and those of a device whose clock is behind. 0: forever, or any size. */
struct et_policy {
    int64_t fine_ns; /* unmerged profiles stay this long after their merge */
    int64_t five_ns; /* blocks of 5 minutes, with span ids, stay this long */
    int64_t keep_ns; /* everything */
    /* Of the database without free pages: deletes oldest rows first, finest resolution first. It leaves the newest
     * ET_KEPT_HOURS hours that have profiles, or as many as fit without the dictionary, and always one. */
    int64_t max_bytes;
    size_t rollup_rows; /* a roll-up replaces at least so many rows; 0: 4 */
};

enum { ET_KEPT_HOURS = 24 };

/* 2 hours, 2 days, 14 days, any size. */
extern const struct et_policy et_policy_default;

/* The times of a step. Profiles are merged soon after the clock says that their bucket has ended, whatever it says. All
 * ages are by a count (age.h), so a wrong clock deletes nothing. */
struct et_keep_time {
    int64_t clock_ns, count_ns;
};

/* Does one due step. */
int et_keep_step(struct et_store *store, const struct et_policy *policy, const struct et_keep_time *now);

/* Totals of what the keeper deleted. Hours are of profiles. */
enum et_deleted {
    ET_DELETED_OLD_HOURS, /* because of keep_ns */
    ET_DELETED_BIG_HOURS, /* because of max_bytes */
    ET_DELETED_NODES,
    ET_DELETED_FRAMES,
    ET_DELETED_MODULES,
    ET_DELETED_LABELS,
    ET_DELETED_ORIGINS,
    ET_DELETED_PASSES,  /* passes over the whole dictionary */
    ET_DELETED_NOTHING, /* passes that stopped because a profile was damaged */
    ET_DELETED_COUNT
};

const char *et_deleted_name(enum et_deleted what);
/* Reads the totals. Returns 0 or an error. */
int et_store_deleted(struct et_store *store, uint64_t counts[ET_DELETED_COUNT]);
/* Adds to a total, in the caller's transaction. */
int et_store_note_deleted(struct et_store *store, enum et_deleted what, int64_t count);

/* Whether the last steps could hold max_bytes. */
struct et_keep_limit {
    bool exceeded;          /* the database is larger, and all is deleted that may be */
    int64_t used, profiles; /* bytes of the database without free pages; of them profiles, an estimate */
    int64_t hours;          /* that are left */
};
struct et_keep_limit et_keep_limit(const struct et_store *store);

/* Merges some due series of a bucket, about `stacks` stacks. Call it between et_store_begin() and et_store_end(). */
int et_merge_step(struct et_store *store, const struct et_keep_time *now, size_t stacks);

#endif
