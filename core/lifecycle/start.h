/*
 * Private to core/: the steps of ep_start() and ep_stats_get().
 */
#ifndef EP_START_H
#define EP_START_H

#include "core/sample/profiler.h"

void ep_stats_fill(struct ep *ep, struct ep_stats *stats);

/* Carves memory; 0 or -ENOMEM. Context: init. */
int ep_layout(const struct ep_config *config, struct ep **ep);

/* The bytes at the start of the carved memory that the program's threads and the port use: struct ep, the tables of
 * threads. What follows is for edgeprof's own threads, but for the ring's words. Context: signal. */
size_t ep_layout_private(size_t memory_size);

/* Checks a configuration; copies it, completed, into *ep. 0 or -EINVAL, -ENOMEM with words in ep_start_error().
 * Context: init. */
int ep_settings_check(const struct ep_config *config);
int ep_settings_apply(struct ep *ep, const struct ep_config *config);

/* The endpoint without its user and password, for messages. */
const char *ep_endpoint_shown(const char *endpoint);

#endif
