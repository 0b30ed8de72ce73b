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

    /* The spool's memory: at least EP_SPOOL_MEMORY_MIN bytes, and no less than in earlier runs, whose larger messages
     * could not be read. The profiler makes no message that does not fit, so less memory means more messages.
     * EP_SPOOL_MEMORY suits EP_MEMORY_DEFAULT. For other sizes use EP_SPOOL_MEMORY_MIN plus a quarter of
     * ep_config.memory_size. It must stay valid while the profiler runs, and until ep_spool_start() is called again. */
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

/* Adds a second endpoint for profiles that are too old for the receiver at config->endpoint. Both receivers must take
 * pprof, as Pyroscope does.
 *
 * The second receiver gets profiles whose start is an hour old or more, and profiles of ten minutes or more that the
 * first one refuses. It gets them in the same format, without config->headers. If it cannot be reached, these profiles
 * stay in the spool. Without a spool, the first receiver is asked at any age, and a profile that the second one cannot
 * take is lost as refused.
 *
 * The function sets config->transport. Call it after ep_pprof_start() and ep_tls_setup(), and pass *config to
 * ep_start(). The endpoint is copied. NULL: EDGEPROF_ENDPOINT_OLD has it.
 *
 * Returns
 *   1          there is a second endpoint
 *   0          there is none
 *   -EALREADY  the profiler runs
 *   -EINVAL    the endpoint is invalid, or *config has no endpoint or another format (ep_start_error())
 * Context: init. */
int ep_endpoint_old(struct ep_config *config, const char *endpoint);

/* Keeps the profiler's memory in a file of `folder`, on a tmpfs, so that what a process has measured is not lost if it
 * ends by SIGKILL, the out-of-memory killer, a crash, exec or the system call exit_group(). The next process of the
 * program that calls this puts the rest into its spool, as a profile of the earlier process, and a line to
 * ep_notice_to() says how that ended. A file that is damaged, of another version or of another user is refused and
 * counts as EP_LOSS_DAMAGED.
 *
 * Call it after ep_spool_start(). It replaces config->memory, a part of which is the file. Only this program may use
 * the folder, which is created if its parent exists. A forked child calls it again. folder NULL: EDGEPROF_OUTLIVE has
 * it, and it is ignored under `edgeprof run`, which does the same.
 *
 * Returns
 *   1          the memory will outlive the process
 *   0          there is no folder
 *   -EALREADY  the profiler runs
 *   -EINVAL    there is no spool, another format than compact, perf events, or no tmpfs (ep_start_error())
 *   others     the system's error (ep_start_error())
 * Context: init. */
int ep_outlive_start(struct ep_config *config, const char *folder);

#ifdef __cplusplus
}
#endif

#endif
