/*
 * An incident is a history of single samples, which a trigger freezes and delivers (core/features/incident/README.md).
 * edgeprof.h includes this header.
 */
#ifndef EDGEPROF_INCIDENT_H
#define EDGEPROF_INCIDENT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum ep_incident_cause {                             /* numbers are part of the format */
                         EP_INCIDENT_CALL = 1,       /* ep_incident() */
                         EP_INCIDENT_CONTROL = 2,    /* the control endpoint */
                         EP_INCIDENT_SPAN = 3,       /* a span took too long; ns */
                         EP_INCIDENT_OPEN_SPAN = 4,  /* a span is open for too long; ns */
                         EP_INCIDENT_GC = 5,         /* a pause of the garbage collector; ns */
                         EP_INCIDENT_HEARTBEAT = 6,  /* a missed heartbeat; ns since the last */
                         EP_INCIDENT_CPU = 7,        /* CPU time of the process; percent of one processor */
                         EP_INCIDENT_RESIDENT = 8,   /* memory in RAM; bytes */
                         EP_INCIDENT_EXCEPTIONS = 9, /* exceptions in a second */
                         EP_INCIDENT_CAUSES = 10
};

struct ep_incident_config {
    /* The memory of the history: half of it holds the samples, 8 bytes each, the other half their stacks. At least
     * EP_INCIDENT_MEMORY_MIN bytes; EP_INCIDENT_MEMORY holds 110 s of one busy processor at 19 Hz. It must stay valid
     * while the profiler runs. */
    void *memory;
    size_t memory_size;

    uint32_t tail_ms; /* how long the history goes on after a trigger; at most 60000, default 2000 */
    /* The kinds that the history records besides CPU samples, EP_KIND_BIT()s, whatever kinds the profile has. Default:
     * waits and locks from 1 ms on, and GC pauses. EP_KIND_BIT(EP_KIND_CPU): nothing else. */
    uint32_t kinds;

    /* Triggers; 0: none, unless it says otherwise. */
    uint32_t span_ms;      /* spans of ep_incident_span_begin() without a limit of their own; default 2000 */
    uint32_t gc_ms;        /* a pause; default 200 */
    uint32_t heartbeat_ms; /* between two calls of ep_heartbeat(); begins with the first */
    uint32_t cpu_pct;      /* of one processor: 150 is one and a half; for at least for_ms */
    uint64_t memory_bytes; /* in RAM; likewise */
    uint32_t for_ms;       /* default 10000 */
    uint32_t exceptions;   /* in a second; then the history has exceptions, too */

    /* Limits; ep_incident_stats.suppressed counts the triggers beyond them. */
    uint32_t gap_ms;    /* between two incidents of one cause; default 300000 */
    uint32_t per_day;   /* of one cause; default 10 */
    uint32_t day_bytes; /* of all messages of a day; default 1 MiB */
};
#define EP_INCIDENT_MEMORY_MIN (16 * 1024)
#define EP_INCIDENT_MEMORY     (48 * 1024)

/* Enables incidents from the next ep_start() on; NULL disables them. A program that does not call this links no
 * history. Only receivers of the compact format get messages about incidents.
 *
 * Returns
 *   0                 the next run has incidents, or none for NULL
 *   -EALREADY         the profiler runs
 *   -EINVAL, -ENOMEM  a field is out of range; ep_start_error() names it
 * Context: init. */
int ep_incident_start(const struct ep_incident_config *config);

/* Fills what is zero from EDGEPROF_INCIDENT (1: on) and EDGEPROF_INCIDENT_LIMITS, such as "span=500,heartbeat=5000".
 * The default of heartbeat_ms is half of WATCHDOG_USEC, unless WATCHDOG_PID is another process. Returns 1: on; 0: off;
 * -EINVAL (ep_start_error()). Context: init. */
int ep_incident_from_env(struct ep_incident_config *config);

/* Triggers an incident, and copies at most 95 bytes of its name.
 *
 * Returns
 *   0        the history will be frozen and delivered
 *   -EAGAIN  another trigger waits, and this one counts as suppressed
 *   -ESRCH   there is no history
 * Context: signal. */
int ep_incident(const char *name);

/* These two begin and end a watched span; they may be called on different threads. A span that takes longer than
 * limit_ms (0: ep_incident_config.span_ms) triggers an incident, while it is still open or at its end. 64 spans can be
 * open at the same time. Further spans are not watched, and the first function returns 0. So it does without a history.
 * Context: signal. */
uint32_t ep_incident_span_begin(const char *name, uint32_t limit_ms);
void ep_incident_span_end(uint32_t span);

/* Gives an open span another name, of which it copies at most 95 bytes. Nothing happens if it has ended, or gets
 * another name at the same time. Not together with its end. Context: signal. */
void ep_incident_span_name(uint32_t span, const char *name);

/* Reports that the program is alive. If no call comes for ep_incident_config.heartbeat_ms, an incident is triggered.
 * Context: signal. */
void ep_heartbeat(void);

struct ep_incident_stats {
    uint64_t captured;   /* incidents handed to delivery */
    uint64_t suppressed; /* triggers beyond the limits, or while another incident was in progress */
    uint64_t lost;       /* could not be encoded, or had no room until ep_stop() */
    uint64_t day_bytes;  /* of today's messages */
};
void ep_incident_stats_get(struct ep_incident_stats *stats); /* Context: any thread. */

#ifdef __cplusplus
}
#endif

#endif
