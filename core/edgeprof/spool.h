/*
 * The spool keeps undelivered messages in files, through restarts and power cuts (core/features/spool/README.md).
 * edgeprof.h includes this header.
 */
#ifndef EDGEPROF_SPOOL_H
#define EDGEPROF_SPOOL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ep_config; /* edgeprof.h */

struct ep_spool_config {
    const char *dir; /* used by one process at a time, and by nothing else; created if its parent exists. Copied */

    /* At least EP_SPOOL_MEMORY_MIN bytes, and not less than in earlier runs: their larger messages cannot be read. The
     * profiler makes no message that does not fit; less memory means more messages. EP_SPOOL_MEMORY suits
     * EP_MEMORY_DEFAULT. For other sizes use EP_SPOOL_MEMORY_MIN plus a quarter of ep_config.memory_size. Must stay
     * valid while the profiler runs and until ep_spool_start() is called again. */
    void *memory;
    size_t memory_size;

    uint64_t cap_bytes; /* upper limit on disk; at least 16 times memory_size, at most 1 GiB; default 16 MiB */
    uint32_t sync_ms;   /* longest time that messages stay in memory while the link is down; default 60000 */
    /* Upper limit of the share of time for sending spooled messages, 1..100; default 25. */
    uint32_t link_share_pct;
    /* Age above which a refused message counts as EP_LOSS_TOO_OLD; default: pprof 1 hour, compact none. */
    uint32_t old_ms;
};
#define EP_SPOOL_MEMORY_MIN (16 * 1024)
#define EP_SPOOL_MEMORY     (48 * 1024)

/* Enables the spool from the next ep_start() on; NULL disables it. A program that does not call this does not link the
 * spool. A disk error is not an error here: ep_stats.spool_error has it, and messages stay in memory. A forked child
 * has no spool until it calls this.
 *
 * Returns
 *   0          the next run has a spool, or none for NULL
 *   -EALREADY  the profiler runs
 *   -EINVAL    a field is out of range; ep_start_error() names it
 * Context: init. */
int ep_spool_start(const struct ep_spool_config *config);

/* Fills dir and cap_bytes, where they are zero, from EDGEPROF_SPOOL (a directory) and EDGEPROF_SPOOL_BYTES.
 * Returns 1: dir is set now; 0: it is not; -EINVAL: a variable is invalid (ep_start_error()). Context: init. */
int ep_spool_from_env(struct ep_spool_config *config);

/* Adds a second endpoint for profiles that are too old for the receiver at config->endpoint. Both must take pprof, like
 * Pyroscope. The second one gets profiles whose start is an hour old or more, and those of ten minutes or more that the
 * first one refuses, in the same format, without config->headers. If it cannot be reached, they stay in the spool.
 * Without a spool the first receiver is asked at any age, and what the second cannot take then is lost as refused. It
 * sets config->transport: call it after ep_config_from_env() and ep_tls_setup(), and pass *config to ep_start(). The
 * endpoint is copied. NULL: EDGEPROF_ENDPOINT_OLD has it.
 *
 * Returns
 *   1          there is a second endpoint
 *   0          there is none
 *   -EALREADY  the profiler runs
 *   -EINVAL    the endpoint is invalid, or *config has no endpoint or another format (ep_start_error())
 * Context: init. */
int ep_endpoint_old(struct ep_config *config, const char *endpoint);

#ifdef __cplusplus
}
#endif

#endif
