/*
 * Private to the preload library: memory that outlives the process (core/features/outlive/README.md).
 */
#ifndef EP_LINUX_PRELOAD_OUTLIVE_H
#define EP_LINUX_PRELOAD_OUTLIVE_H

#include "outlive.h"

/* config->memory is the start of EP_OUTLIVE_ROOM(config->memory_size) bytes, whole pages. If EDGEPROF_OUTLIVE names a
 * folder, a part of the memory will be a file there: once the process has used CPU time; `at_once` where edgeprof's
 * threads start with it. Moves config->memory inside the room. Returns 0; else there is none (ep_start_error()).
 * Context: init. */
int ep_preload_outlive(struct ep_config *config, bool at_once);

/* The same in a forked child, with its parent's config. Context: init. */
void ep_preload_outlive_forked(struct ep_config *config);

/* If EDGEPROF_OUTLIVED names the file of a dead process, this one is there to send what it has: does so and ends the
 * process, with 0 if there is nothing left to send. Context: init. */
void ep_preload_outlived(void);

#endif
