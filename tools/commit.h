/*
 * Group commit: many threads write, one thread has the store. What has come while it was busy goes into one
 * transaction, which is synced once, and only then does anybody get an answer. Nobody waits for company: who comes
 * alone is committed alone.
 *
 * A call's own et_store_begin() and et_store_end() are a part of that transaction, so what fails is undone alone. When
 * the transaction fails (disk full, somebody else writes, I/O error) nothing of it is kept and each of its calls is
 * told.
 */
#ifndef ET_COMMIT_H
#define ET_COMMIT_H

#include "store.h"

struct et_commit;

/* What is done to the store; on the committing thread. It may not call et_commit_run(). What it finds out is true only
 * once et_commit_run() has returned 0. */
typedef void et_commit_call(struct et_store *store, void *context);

struct et_commit_result {
    int err;       /* 0: it is on the disk; else nothing of it is kept: -ENOSPC, -EBUSY, -EIO */
    char why[256]; /* SQLite's words for that */
};

/* Starts the thread; the store is its own until et_commit_stop(). A group that has taken group_ms milliseconds is
 * committed although more is waiting, for its first one waits for its last. NULL: there is no thread to be had. */
struct et_commit *et_commit_start(struct et_store *store, unsigned group_ms);

/* Runs call(store, context) and returns when it is committed. Context: any thread but the committing one. */
struct et_commit_result et_commit_run(struct et_commit *commit, et_commit_call *call, void *context);

/* Calls that wait for the store. Context: any thread. */
size_t et_commit_waiting(struct et_commit *commit);

/* Nobody may be in et_commit_run() any more. The store stays open. */
void et_commit_stop(struct et_commit *commit);

#endif
