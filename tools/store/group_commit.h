/*
 * Group commit: many threads write, one thread owns the database. Calls that arrive while it works share one
 * transaction and one sync. Each caller gets its result after the sync. A single call is committed alone, at once.
 *
 * et_store_begin() and et_store_end() within a call are a part of that transaction: a call that fails is undone alone.
 * When the transaction fails (disk full, another writer, I/O error), the database keeps none of its calls, and each
 * caller gets the error.
 */
#ifndef ET_GROUP_COMMIT_H
#define ET_GROUP_COMMIT_H

#include "tools/store/store.h"

struct et_group_commit;

/* A call that writes to the database, on the commit thread. It may not call et_group_commit_run(). Its results are
 * valid only when et_group_commit_run() returns 0. */
typedef void et_group_commit_call(struct et_store *store, void *context);

struct et_group_commit_result {
    int err;       /* 0: synced to disk; else nothing was kept: -ENOSPC, -EBUSY, -EIO */
    char why[256]; /* SQLite's message */
};

/*
 * Starts the thread, which owns the database until et_group_commit_stop(). A group is committed after group_ms
 * milliseconds even if more calls wait, because its first caller waits for its last. NULL: no thread could be started.
 */
struct et_group_commit *et_group_commit_start(struct et_store *store, unsigned group_ms);

/* Runs call(store, context) and returns after the commit. Context: any thread but the commit thread. */
struct et_group_commit_result et_group_commit_run(struct et_group_commit *commit, et_group_commit_call *call,
                                                  void *context);

/* Number of waiting calls. Context: any thread. */
size_t et_group_commit_waiting(struct et_group_commit *commit);

/* No thread may be in et_group_commit_run(). The database stays open. */
void et_group_commit_stop(struct et_group_commit *commit);

#endif
