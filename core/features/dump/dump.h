/*
 * The interface of core/features/dump: a dump of all threads for another feature.
 */
#ifndef EP_FEATURES_DUMP_H
#define EP_FEATURES_DUMP_H

#include "core/sample/profiler.h"

/* The receiver of a dump: the next message, the pull endpoint, or the history. */
enum { EP_SNAPSHOT_PUSH = 1, EP_SNAPSHOT_PULL = 2, EP_SNAPSHOT_HISTORY = 4 };

/* Requests a dump. The caller holds the profiler or is the collect thread. Returns 0 or -ENOSPC.
 * Context: any thread. */
int ep_snapshot_ask(struct ep *ep, unsigned who);
/* True if a dump for that receiver is requested or in progress. Context: collect. */
bool ep_snapshot_pending(unsigned who);
/* The receivers of the dump whose stacks come now; those of the last one if none is in progress. Context: collect. */
unsigned ep_snapshot_for(void);

#endif
