/*
 * pprof is the format of Pyroscope, Parca and Grafana Cloud (core/features/pprof/README.md). edgeprof.h includes this
 * header.
 */
#ifndef EDGEPROF_PPROF_H
#define EDGEPROF_PPROF_H

#ifdef __cplusplus
extern "C" {
#endif

struct ep_config; /* edgeprof.h */
struct ep_names;
struct ep_push;

/* Sends profiles as EP_FORMAT_PPROF instead of EP_FORMAT_COMPACT, from the next ep_start() on.
 *
 * A profile is compressed by gzip. There is one message for each family of kinds and interval. The deliver thread makes
 * it while it sends, in static memory (docs/memory.md). An endpoint http:// or https:// also needs ep_config.push. A
 * program that does not call this does not link it.
 *
 * Returns
 *   0          profiles will be pprof
 *   -EALREADY  the profiler runs
 *   -ENOSPC    too many features are started
 * Context: init. */
int ep_pprof_start(void);

/* Sends EP_FORMAT_COMPACT again, from the next ep_start() on. Returns 0, or -EALREADY: the profiler runs.
 * Context: init. */
int ep_pprof_stop(void);

/* Reads whether profiles are to be pprof. Call it after ep_config_from_env(); if it returns 1 call ep_pprof_start().
 *
 * EDGEPROF_FORMAT (compact or pprof) decides. Without it an endpoint from PYROSCOPE_SERVER_ADDRESS means pprof. For
 * pprof this function fills config->push, and config->names as EDGEPROF_NAMES (1 or 0) says, where they are NULL.
 *
 * Returns
 *   1          profiles are to be pprof, because a variable says so or ep_pprof_start() was called
 *   0          they are not
 *   -EINVAL    a variable is invalid; ep_start_error() names it
 * Context: init. */
int ep_pprof_from_env(struct ep_config *config);

extern const struct ep_push ep_push_pyroscope; /* Grafana Pyroscope's push.v1.PusherService/Push */

/* Finds function names in the process: from dynamic symbols and from a language runtime (.NET), else module+0x1234. It
 * uses EP_NAMES_BYTES and 60 KiB of static memory, touched only as far as needed, and nothing of ep_config.memory. */
extern const struct ep_names ep_names_process;

#ifdef __cplusplus
}
#endif

#endif
