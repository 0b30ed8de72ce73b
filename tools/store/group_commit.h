/*
 * Group commit: many threads write, one thread owns the store. Calls that arrive while it is busy share one transaction
 * and one sync. Each caller gets its answer after the sync. A call that arrives alone is committed alone, at once.
 *
 * A call's own et_store_begin() and et_store_end() are a part of that transaction: a call that fails is undone alone.
 * When the transaction fails (disk full, somebody else writes, I/O error), the store keeps none of its calls, and each
 * caller gets the error.
 */
#ifndef ET_GROUP_COMMIT_H
#define ET_GROUP_COMMIT_H

#include "tools/store/store.h"

struct et_group_commit;

/* What is done to the store; on the committing thread. It may not call et_group_commit_run(). What it finds out is true
 * only once et_group_commit_run() has returned 0. */
typedef void et_group_commit_call(struct et_store *store, void *context);

struct et_group_commit_result {
    int err;       /* 0: it is on the disk; else nothing of it is kept: -ENOSPC, -EBUSY, -EIO */
    char why[256]; /* SQLite's words for that */
};

/* Starts the thread; the store is its own until et_group_commit_stop(). A group that has taken group_ms milliseconds is
 * committed although more is waiting, for its first one waits for its last. NULL: there is no thread to be had. */
struct et_group_commit *et_group_commit_start(struct et_store *store, unsigned group_ms);

/* Runs call(store, context) and returns when it is committed. Context: any thread but the committing one. */
struct et_group_commit_result et_group_commit_run(struct et_group_commit *commit, et_group_commit_call *call,
                                                  void *context);

/* Calls that wait for the store. Context: any thread. */
size_t et_group_commit_waiting(struct et_group_commit *commit);

/* Nobody may be in et_group_commit_run() any more. The store stays open. */
void et_group_commit_stop(struct et_group_commit *commit);

#endif
