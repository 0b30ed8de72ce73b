/*
 * Garbage collection of the dictionary: deletes nodes, frames, modules, labels and origins that no stored profile and
 * no segment refers to. A pass consists of many short steps; its progress is stored, so it continues after a restart.
 * The greatest id of each table stays, because later rows must have greater ids.
 */
#ifndef ET_STORE_COLLECT_H
#define ET_STORE_COLLECT_H

#include "tools/store/store_internal.h"

/* Counts an hour of profiles that was deleted. A pass is due when there was such an hour since the last pass began and
 * that is a day ago, or when there were 24. Dropping segments alone makes no pass due. */
int et_collect_note_hour(struct et_store *store);

/* Does one step of the pass, or begins a pass that is due. urgent: an hour after the last one is enough. Call it
 * between et_store_begin() and et_store_end(). Returns 1: did something; 0: nothing is due; or an error. */
int et_collect_step(struct et_store *store, int64_t now_ns, bool urgent);

/* For writers of segments' dictionaries: a pass in progress keeps these nodes. Returns 0 or an error. */
int et_collect_use(struct et_store *store, const int64_t *nodes, size_t count);

#endif
