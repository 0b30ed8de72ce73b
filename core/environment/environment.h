/*
 * Private to core/environment: what its files share.
 */
#ifndef EP_ENVIRONMENT_H
#define EP_ENVIRONMENT_H

#include "core/edgeprof.h"
#include "core/state/profiler.h"

/* Fills config->headers, when it is NULL, from the environment, and refuses what may not be there. pyroscope: its
 * variable gave the endpoint. 0 or -EINVAL. Context: init. */
int ep_environment_headers(struct ep_config *config, bool pyroscope);

#endif
