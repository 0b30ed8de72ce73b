/*
 * edgeprof: always-on profiling for small ARM Linux devices, without malloc.
 *
 * This is the library's whole public interface. Conventions:
 *  - Functions return 0 or a positive value for success and a negative errno value for failure.
 *  - The caller owns every buffer that it passes. ep_start() copies strings unless a comment says otherwise.
 *  - A zeroed field means its default.
 *  - One profiler runs in a process at a time.
 *  - Each function's comment ends with its context: `init` (one thread at a time, may block), `any thread`
 *    (may be called concurrently, does not block), `collect` / `deliver` (only from that role's thread).
 */
#ifndef EDGEPROF_H
#define EDGEPROF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <edgeprof/options.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The library's version, defined only here. The format has its own version (core/FORMAT.md). */
#define EP_VERSION "0.1.0"

struct ep_transport; /* all four: core/edgeprof/transport.h */
struct ep_encoder;
struct ep_push;
struct ep_names;

/* What is measured, with the unit of its value. Numbers are part of the format. */
enum ep_kind {
    EP_KIND_CPU = 1,       /* time on the CPU; ns */
    EP_KIND_WAIT = 2,      /* time in waits marked by ep_wait_begin(); ns */
    EP_KIND_LOCK = 3,      /* contended locks; ns of delay */
    EP_KIND_ALLOC = 4,     /* allocation; bytes */
    EP_KIND_LIVE = 5,      /* memory in use when the interval ends: a gauge, not a sum; bytes */
    EP_KIND_EXCEPTION = 6, /* exceptions thrown; count */
    EP_KIND_GC = 7,        /* pauses of the garbage collector; ns */
    EP_KIND_THREAD = 8,    /* one stack of every thread; count; see ep_threads_dump() */
    EP_KIND_HEAP = 9,      /* heap by generation after the last garbage collection: a gauge; bytes */
    EP_KINDS = 10
};
#define EP_KIND_BIT(kind) (1u << (kind))

/* Presets for the sampling rate and the collected kinds. A kernel's timers tick at most HZ times a second; with a
 * higher rate each sample carries more weight. */
enum ep_level {
    EP_LEVEL_DEFAULT = 0, /* low */
    EP_LEVEL_LOW = 1,     /* 19 Hz of CPU time per thread; CPU only */
    EP_LEVEL_MEDIUM = 2,  /* 97 Hz; also allocation, live heap, heap sizes, locks */
    EP_LEVEL_HIGH = 3,    /* 251 Hz; everything */
};

enum ep_format {
    EP_FORMAT_COMPACT = 0, /* core/FORMAT.md */
    EP_FORMAT_PPROF = 1,   /* perftools.profiles.Profile, compressed by gzip, with addresses and build ids */
};

enum ep_flags {
    /* Starts no threads: the program calls ep_collect() and ep_deliver() itself. */
    EP_MANUAL = 1,
    /* Each stack carries its thread's name as a label. */
    EP_THREAD_LABELS = 2,
    /* Counts idle waits (EP_WAIT_IDLE), such as those of a pool's workers without work. */
    EP_IDLE_WAITS = 4,
    /* Starts edgeprof's two threads only when they are needed: when the ring is nearly full, or both an interval and
     * 3 s are over. Also when the program creates a thread, or calls ep_flush(), ep_stop() or a similar function.
     * Until then a single-threaded program stays single-threaded. Needs glibc; elsewhere the threads start at once. */
    EP_LAZY_THREADS = 8,
    /* No limits of allocations, exceptions, locks and waits per second: the nominal distances at any rate. Exceptions
     * are then counted one by one. For measurements; a busy program may have thousands of events a second. */
    EP_ALL_EVENTS = 16,
    /* The CPU time that the process used before ep_start() counts too, as the main thread's [thread exit]. For a forked
     * child that starts its own profiler. A child has none until it calls ep_start(), with memory of its own or with
     * its copy of the parent's. Do not give it the parent's spool directory, control or pull address. */
    EP_SINCE_FORK = 32,
    /* Libraries that appear after ep_start() can be unloaded: dlclose() runs their destructors and unmaps them. Else
     * edgeprof keeps each one that it has seen (RTLD_NODELETE). Stacks through such a library are cut at its code,
     * which is [unknown]. */
    EP_NO_PIN = 64,
    /* The clock of CPU samples; without one of them edgeprof chooses (docs/accuracy.md). TIMERS: each thread's CPU
     * timer. TICKS: what runs at a kernel tick, at the cost of a signal a tick. PERF: the kernel's perf events, at any
     * rate, for a descriptor a thread; time in the kernel is [kernel] and has no stack. Threads that cannot have one
     * get what edgeprof chooses (ep_stats.clock_error). */
    EP_CLOCK_TIMERS = 256,
    EP_CLOCK_TICKS = 512,
    EP_CLOCK_PERF = 768,
    EP_CLOCKS = 768, /* the mask of all three */
};

struct ep_config {
    /* The working memory: at least EP_MEMORY_MIN bytes, any alignment. EP_MEMORY_DEFAULT suits most programs; more
     * memory makes the ring, the tree and the outbox larger. Must stay valid until ep_stop() has returned 0 or
     * -ETIMEDOUT.
     * docs/memory.md lists what else the library uses. */
    void *memory;
    size_t memory_size;

    const char *service; /* service name; default: the program's file name */
    const char *tags;    /* static tags, "key=value,key=value"; keys match [a-zA-Z_][a-zA-Z0-9_]* */

    enum ep_level level;
    uint32_t kinds;       /* EP_KIND_BIT()s; overrides the level's kinds */
    uint32_t rate_hz;     /* 1..1000; overrides the level's rate */
    uint32_t budget_ppm;  /* upper limit of the profiling cost, in millionths of the process' CPU time; 0: no limit */
    uint32_t interval_ms; /* one profile per interval; 100..3600000, default 10000 */

    /* The upload target: "http://host[:port][/prefix]", "file:///path", or "https://..." after ep_tls_setup()
     * (core/edgeprof/tls.h). NULL: no upload, profiles accumulate in memory. If transport is set, it is used instead
     * and its open function gets the endpoint unchanged. */
    const char *endpoint;
    const struct ep_transport *transport;

    uint32_t flags; /* enum ep_flags */

    /* What the transport gets. NULL: EP_FORMAT_COMPACT. &ep_encoder_pprof: EP_FORMAT_PPROF, compressed by gzip, one
     * message a family and interval, made while sending in memory of its own (see docs/memory.md). Programs link only
     * what they use. */
    const struct ep_encoder *encoder;

    /* For endpoints http:// and https:// only. push: the protocol for pprof, &ep_push_pyroscope; pprof over HTTP
     * requires one. names: &ep_names_process adds function names to push messages, for servers that cannot
     * symbolize. headers: lines "Name: value" for each request, separated by '\n'; never shown in messages; not
     * copied: must stay valid as long as `memory`. */
    const struct ep_push *push;
    const struct ep_names *names;
    const char *headers;
};

extern const struct ep_encoder ep_encoder_pprof;
extern const struct ep_push ep_push_pyroscope; /* Grafana Pyroscope's push.v1.PusherService/Push */

/* Function names found in the process: from dynamic symbols and from a language runtime (.NET); otherwise
 * module+0x1234. Uses no memory of ep_config.memory but EP_NAMES_BYTES and 60 KiB of bss, touched only as far as
 * needed. */
extern const struct ep_names ep_names_process;

/* Reasons why a measurement is missing from a profile, or is recorded with less detail. Numbers are part of the
 * format. */
enum ep_loss {
    EP_LOSS_RING_FULL = 0,       /* the collect thread did not drain the ring in time */
    EP_LOSS_NO_TIMER = 1,        /* threads without a timer (count only); their CPU time is reported */
    EP_LOSS_NO_SLOT = 2,         /* threads beyond EP_MAX_THREADS (count only); their CPU time is reported */
    EP_LOSS_TREE_FULL = 3,       /* stacks cut at a [truncated] frame; the weight is kept */
    EP_LOSS_ENTRIES_FULL = 4,    /* stacks merged into a single [truncated] frame; the weight is kept */
    EP_LOSS_MODULES_FULL = 5,    /* modules beyond the table (count only): their frames are [unknown] */
    EP_LOSS_REFUSED = 6,         /* a receiver refused a message permanently */
    EP_LOSS_SEGMENT = 7,         /* a receiver did not know the segment, and its messages could not be rebuilt */
    EP_LOSS_STOPPED = 8,         /* still undelivered when ep_stop()'s deadline passed, or recorded after it */
    EP_LOSS_TOO_LARGE = 9,       /* a single stack did not fit into the outbox */
    EP_LOSS_TAGS = 10,           /* tag values that did not fit into the table; recorded as "other" */
    EP_LOSS_CONTEXTS = 11,       /* stacks recorded without their span or tags, for lack of room in this interval */
    EP_LOSS_LIVE_FULL = 12,      /* objects that the live heap could not follow; later objects stand for them */
    EP_LOSS_WAITERS = 13,        /* threads beyond the table of waits: their waits are recorded only when they end */
    EP_LOSS_NO_STACK = 14,       /* threads of a dump whose stack could not be read (count only): [no stack] */
    EP_LOSS_SPOOL_FULL = 15,     /* the oldest spooled messages, deleted to make room */
    EP_LOSS_SPOOL_DAMAGED = 16,  /* spooled messages that cannot be read any more */
    EP_LOSS_TOO_OLD = 17,        /* refused by a receiver, and older than receivers accept (ep_spool_config.old_ms) */
    EP_LOSS_SIGNAL_BLOCKED = 18, /* threads that keep the profiling signal blocked (count only); likewise reported */
    EP_LOSS_DAMAGED = 19,     /* records that no part of edgeprof writes (count only): something overwrote the ring */
    EP_LOSS_SMALL_STACK = 20, /* samples left out because the stack had no room for the signal handler */
    EP_LOSS_REASONS = 21
};

/* Threads that are not sampled for one reason. ep_stats.lost_count has their number. */
struct ep_unsampled {
    uint32_t reason;  /* EP_LOSS_NO_TIMER, EP_LOSS_NO_SLOT or EP_LOSS_SIGNAL_BLOCKED */
    int32_t error;    /* EP_LOSS_NO_TIMER: the system's last error, a negative errno value; else 0 */
    uint64_t limit;   /* the limit that was reached, 0: none; EP_LOSS_SIGNAL_BLOCKED: the signal's number */
    char name[3][16]; /* of the first such threads, "": none. UTF-8 without control characters, '"', '\\' */
};
#define EP_UNSAMPLED 3

struct ep_stats {
    uint64_t samples;        /* CPU samples */
    uint64_t weight_ns;      /* their total weight */
    uint64_t exact;          /* stacks of all kinds walked to the root, every frame by an unwind rule */
    uint64_t gap;            /* walked to the root, with a guess in between */
    uint64_t cut;            /* root not reached */
    uint64_t thread_exit_ns; /* residual CPU time: of threads at their end, and of threads that are not sampled */

    uint64_t kind_count[EP_KINDS]; /* by kind: samples (CPU), or events that the samples stand for */
    uint64_t kind_value[EP_KINDS]; /* by kind, in its unit; EP_KIND_LIVE and EP_KIND_HEAP: the current value */

    uint64_t lost_count[EP_LOSS_REASONS]; /* samples of any kind */
    uint64_t lost_ns[EP_LOSS_REASONS];    /* CPU time that they stood for */

    uint64_t rule_hits; /* frames whose unwind rule was in the cache */
    uint64_t rule_misses;

    uint64_t messages; /* encoded */
    uint64_t message_bytes;
    uint64_t delivered; /* accepted by the receiver */
    uint64_t delivered_bytes;
    uint64_t delivery_failures; /* failed attempts that are retried */
    uint64_t intervals_merged;  /* intervals extended because the outbox had no room */
    int32_t last_error; /* of the last failed delivery or read of the spool, a negative errno value; 0: none yet */

    /* With a spool. Messages in it count neither as delivered nor as lost. */
    uint64_t spooled;        /* messages stored in this run */
    uint64_t replayed;       /* messages delivered from the spool, including earlier runs'; also in `delivered` */
    uint64_t spool_messages; /* stored now */
    uint64_t spool_bytes;
    uint64_t spool_written; /* bytes written to disk, as a measure of flash wear */
    uint64_t spool_error;   /* why storing (messages stay in memory) or reading fails, an errno value; 0: it works */

    uint64_t collect_cpu_ns; /* CPU time of edgeprof's own threads */
    uint64_t deliver_cpu_ns;
    uint64_t wakeups;    /* of both threads */
    uint64_t handler_ns; /* estimated CPU time of samples and hooks on the service's threads; some of them are timed */

    /* Of the governor, which keeps the budget (core/collect/governor.c). */
    uint64_t budget_ppm;  /* as it was configured */
    uint64_t cost_ppm;    /* cost of profiling, relative to the process' CPU time, over about the last minute */
    uint64_t stretch_pct; /* current sampling periods in percent of the level's; above 100 only to keep a budget */
    uint64_t stretches;   /* changes of stretch_pct */
    uint32_t threads;     /* with a timer now */
    uint32_t modules;
    uint32_t tree_nodes, tree_capacity;
    uint32_t memory_used;

    uint64_t unsampled_ns; /* CPU time of threads that are not sampled; thread_exit_ns includes its whole periods */
    struct ep_unsampled unsampled[EP_UNSAMPLED];

    uint64_t intervals_early; /* sent before their end because the memory was nearly used up */
    /* How often detail was given up because the memory was used up and nothing could be sent. Totals stay right. */
    uint64_t degraded_contexts;  /* labels and spans */
    uint64_t degraded_addresses; /* addresses within a function */
    uint64_t degraded_frames;    /* callees beyond a depth, [truncated] */

    /* By kind. Beyond kind_rate events a second samples get rarer and each weighs more; 0: no limit. kind_distance:
     * mean distance of samples now, in the kind's unit (CPU: ns). */
    uint32_t kind_rate[EP_KINDS];
    uint32_t kind_distance[EP_KINDS];

    uint32_t tick_hz; /* the kernel's ticks, the highest rate of CPU samples without EP_CLOCK_PERF; 0: unknown */

    /* Samples that were timed, about one in 128, and the page faults in their handlers that had to wait for a disk. */
    uint64_t timed_samples;
    uint64_t timed_faults;

    /* Damage in the spool's files: messages that cannot be read any more, and bytes skipped with them or at the end of
     * a file that a power cut has torn. The samples of those messages are in lost_count as far as they are known. */
    uint64_t spool_damaged;
    uint64_t spool_damaged_bytes;

    uint32_t last_status; /* HTTP status of the last answer to a profile; 0: none yet, or another transport */

    uint32_t clock; /* of CPU samples now, one of EP_CLOCKS */
    /* With EP_CLOCK_PERF: why a thread has another clock, an errno value; 0: each has it. EAGAIN: the queue of signals
     * is nearly full; EBADF: the program closed a descriptor; EMFILE: it has too few. */
    uint64_t clock_error;

    /* Sends whose answer was lost: it did not come in time, or the connection broke. The message is sent again, and the
     * receiver may have had it. `edgeprof serve` recognises compact messages; other receivers may count it twice. */
    uint64_t unanswered;

    uint64_t busy_stops; /* calls of ep_stop() that returned -EBUSY, of all runs of this process */
};

/* Starts profiling. Copies *config and its strings, except where struct ep_config says otherwise.
 * Returns 0; -EINVAL: a field is out of range (ep_start_error() names it); -ENOMEM: memory_size is too small;
 * -EALREADY: running; -EBUSY: no signal is free for profiling, or a thread still uses the memory of the last run (see
 * ep_stop()); else the system's error. Context: init. */
int ep_start(const struct ep_config *config);

/* Fills the fields of *config that are zero from the environment: EDGEPROF_ENDPOINT, EDGEPROF_SERVICE,
 * EDGEPROF_TAGS, EDGEPROF_LEVEL (low, medium, high), EDGEPROF_KINDS ("cpu,alloc", as ep_kind_name()), EDGEPROF_RATE
 * (Hz), EDGEPROF_BUDGET (ppm), EDGEPROF_INTERVAL (ms), EDGEPROF_FORMAT (compact, pprof), EDGEPROF_THREAD_LABELS,
 * EDGEPROF_IDLE_WAITS, EDGEPROF_ALL_EVENTS, EDGEPROF_PIN and EDGEPROF_NAMES (1, 0), EDGEPROF_TOKEN (bearer) or
 * EDGEPROF_TOKEN_FILE (as ep_token_file()), and EDGEPROF_HEADERS. Then it reads PYROSCOPE_* and OTEL_* variables of the
 * same meaning (table in port/nativeaot/EdgeProf/README.md). Links the push and names code, since a variable may ask
 * for it. Strings point into the environment or into memory that lasts until the next call. Returns 1 if a variable
 * names an upload target, or asks for the pull endpoint (EDGEPROF_PULL, which ep_pull_start() reads); 0 if none does;
 * -EINVAL: a variable is invalid (ep_start_error()). Context: init. */
int ep_config_from_env(struct ep_config *config);

/* Explains the failure of the last ep_start(), ep_config_from_env() or similar call in one line; "" after success.
 * Context: init. */
const char *ep_start_error(void);

/* Stops sampling, delivers for at most deadline_ms what is in memory, and ends the threads. With a spool, stores
 * what cannot be delivered there, also before the deadline. ep_start() works again afterwards.
 *
 * A thread of the program may be within edgeprof and not return, in a long pause or stopped by a debugger. After half
 * the time, at most a second, the rest is delivered without what that thread records. The deadline holds also then,
 * but for two looks of 0.1 s at whether that thread has left.
 *
 * Returns 0; -ESRCH: not running; -ETIMEDOUT: stopped, and undelivered messages were dropped and counted; -EBUSY:
 * stopped, but a thread still uses the memory: neither free it nor use it for anything else, until a call returns
 * another result: that of the whole stop. ep_stats.busy_stops counts it, ep_start_error() has a line about it. What
 * such a thread records late is lost as EP_LOSS_STOPPED. ep_start() is refused with -EBUSY as long. Context: init. */
int ep_stop(uint32_t deadline_ms);

/* Store-and-forward: undelivered messages are kept in files, through restarts and power cuts. See
 * core/features/spool/README.md. */
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

/* Enables the spool from the next ep_start() on; NULL disables it. A program that does not call this does not link
 * the spool. A disk error is not an error here: ep_stats.spool_error has it, and messages stay in memory. A forked
 * child has no spool until it calls this.
 * Returns 0; -EALREADY: the profiler runs; -EINVAL: a field is out of range (ep_start_error()). Context: init. */
int ep_spool_start(const struct ep_spool_config *config);

/* Fills dir and cap_bytes from EDGEPROF_SPOOL (a directory) and EDGEPROF_SPOOL_BYTES where they are zero.
 * Returns 1 if dir is set then, 0 if not, -EINVAL: a variable is invalid (ep_start_error()). Context: init. */
int ep_spool_from_env(struct ep_spool_config *config);

/* The record of a crash, see core/features/crash/README.md. */
struct ep_crash_config {
    const char *dir; /* of the record's file `edgeprof-crash`: the spool's or another; used by one process. Copied */
    /* Upper limit of the time that a crash takes longer, 100..3000; default 1000. Three quarters are for the record. */
    uint32_t limit_ms;
    bool registers; /* record all registers, not only pc, sp, fp and lr: they may hold anything */
};

/* From here on a fatal signal (SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGABRT) is recorded in a file while a
 * profiler runs: signal, address, registers, the stacks of the threads, and what .NET's runtime notes about its end.
 * Exit status, core dump and earlier handlers stay as they are. Call it before ep_start(), with the configuration that
 * ep_start() gets, which it changes: the next run delivers the record, and also that a run ended without
 * ep_crash_stop() or exit(), in front of its profiles. Only receivers of the compact format get it. A record that is
 * not delivered is never overwritten. An overflow of the stack cannot be recorded; it counts as such an end. A program
 * that does not call this links nothing of it. A forked child has none. Handlers that are installed later get a signal
 * first: see ep_crash_in_front(). Returns 0; -EALREADY: it is on, or the profiler runs; -EINVAL: a field is
 * out of range, or there is no endpoint; -EBUSY: another process uses the file; else the system's error
 * (ep_start_error()). Context: init. */
int ep_crash_start(struct ep_config *config, const struct ep_crash_config *crash);

/* For a later ep_start() with another configuration, or if ep_crash_start() got none that has an endpoint, only a
 * transport: this one delivers what is recorded. Nothing if crashes are not recorded. Context: init. */
void ep_crash_follow(struct ep_config *config);

/* For handlers of fatal signals that other code has installed since, and that do not call the one before: glog's, or
 * another crash reporter's. They get the signal behind the record again, as if they had been there before
 * ep_crash_start(). A default action that was set since or a signal that is ignored stays so. Not for handlers that
 * continue the program, as language runtimes have: a fault that they handle would be recorded as a crash. Returns the
 * number of these handlers; -ENOENT: crashes are not recorded here; -ENOSPC: it was called too often, with other
 * handlers each time. Context: init. */
int ep_crash_in_front(void);

/* Ends that, after ep_stop(): a regular end. exit() does it too. Context: init. */
void ep_crash_stop(void);

/* Fills what is zero from EDGEPROF_CRASH (1: in EDGEPROF_SPOOL's directory; or a directory, with a '/') and
 * EDGEPROF_CRASH_REGISTERS. Returns 1: crashes are to be recorded; 0: not; -EINVAL (ep_start_error()).
 * Context: init. */
int ep_crash_from_env(struct ep_crash_config *config);

/* Incidents, see core/features/incident/README.md: a history of single samples, which a trigger freezes and delivers.
 */
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
    /* Half of it holds the samples, 8 bytes each, the other half their stacks. At least EP_INCIDENT_MEMORY_MIN bytes;
     * must stay valid while the profiler runs. EP_INCIDENT_MEMORY holds 110 s of one busy processor at 19 Hz. */
    void *memory;
    size_t memory_size;

    uint32_t tail_ms; /* how long the history goes on after a trigger; at most 60000, default 2000 */
    /* What the history records besides CPU samples, EP_KIND_BIT()s, whatever kinds the profile has; default: waits and
     * locks from 1 ms on, and GC pauses. EP_KIND_BIT(EP_KIND_CPU): nothing else. */
    uint32_t kinds;

    /* Triggers; 0: none, unless it says otherwise. */
    uint32_t span_ms;      /* spans of ep_incident_span_begin() without a limit of their own; default 2000 */
    uint32_t gc_ms;        /* a pause; default 200 */
    uint32_t heartbeat_ms; /* between two calls of ep_heartbeat(); begins with the first */
    uint32_t cpu_pct;      /* of one processor: 150 is one and a half; for at least for_ms */
    uint64_t memory_bytes; /* in RAM; likewise */
    uint32_t for_ms;       /* default 10000 */
    uint32_t exceptions;   /* in a second; then the history has exceptions, too */

    /* What is beyond these limits is counted (ep_incident_stats.suppressed). */
    uint32_t gap_ms;    /* between two incidents of one cause; default 300000 */
    uint32_t per_day;   /* of one cause; default 10 */
    uint32_t day_bytes; /* of all messages of a day; default 1 MiB */
};
#define EP_INCIDENT_MEMORY_MIN (16 * 1024)
#define EP_INCIDENT_MEMORY     (48 * 1024)

/* Enables incidents from the next ep_start() on; NULL disables them. A program that does not call this links no
 * history. Messages about incidents go to receivers of the compact format only. Returns 0; -EALREADY: the profiler
 * runs; -EINVAL or -ENOMEM: a field is out of range (ep_start_error()). Context: init. */
int ep_incident_start(const struct ep_incident_config *config);

/* Fills what is zero from EDGEPROF_INCIDENT (1: on) and EDGEPROF_INCIDENT_LIMITS, such as "span=500,heartbeat=5000".
 * Half of WATCHDOG_USEC is the default of heartbeat_ms, unless WATCHDOG_PID is another process. Returns 1: on; 0: off;
 * -EINVAL (ep_start_error()). Context: init. */
int ep_incident_from_env(struct ep_incident_config *config);

/* Triggers an incident; the name, at most 31 bytes, is copied. Returns 0; -EAGAIN: another trigger waits, and this one
 * is counted as suppressed; -ESRCH: there is no history. Context: signal. */
int ep_incident(const char *name);

/* Between both calls, which may be on different threads, a span is open. One that takes longer than limit_ms, 0:
 * ep_incident_config.span_ms, is a trigger, while it is still open or at its end. At most 64 are open at a time;
 * others, and all without a history, are 0 and not watched. Context: signal. */
uint32_t ep_incident_span_begin(const char *name, uint32_t limit_ms);
void ep_incident_span_end(uint32_t span);

/* The program is alive: see ep_incident_config.heartbeat_ms. Context: signal. */
void ep_heartbeat(void);

struct ep_incident_stats {
    uint64_t captured;   /* incidents handed to delivery */
    uint64_t suppressed; /* triggers beyond the limits, or while another incident was in progress */
    uint64_t lost;       /* could not be encoded, or had no room until ep_stop() */
    uint64_t day_bytes;  /* of today's messages */
};
void ep_incident_stats_get(struct ep_incident_stats *stats); /* Context: any thread. */

/* OpenTelemetry's contexts, see core/features/otel/README.md: with them other profilers on this machine, such as the
 * eBPF profiler, know the service, span and labels of this program, and edgeprof knows the spans of other tracers in
 * it. The specification is still in development, so they are off by default. Linux only; a program that calls none of
 * these functions links none of them. */

/* Publishes the process context, or publishes it anew: service.name, service.version, service.instance.id and more.
 * The first value of a key counts: of `attributes` ("key=value,key=value", %-encoded; NULL: none), config->service
 * (config may be NULL), OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES, config->tags, and what edgeprof knows. A forked
 * child has none until it calls this. Nothing is kept by reference. Returns 0; -EEXIST: another library has published
 * one; -EINVAL: attributes are malformed or too long; -ENOTSUP: readers would not find it on this system; else the
 * system's error (ep_start_error()). Context: init. */
int ep_otel_publish(const struct ep_config *config, const char *attributes);

/* Publishes what each thread works for from here on: the span of ep_span_set(), if it has both ids, and labels of
 * ep_tag_push(), of which the first 64 keys and 228 bytes a thread are shown. Each thread takes 272 bytes more in
 * programs that link this. Needs ep_otel_publish(), and -Wl,--export-dynamic-symbol=otel_thread_ctx_v1 when the program
 * is linked. Not with libedgeprof.so. Returns 0; -EALREADY; -EEXIST: another library publishes thread contexts;
 * -ENOENT: the symbol is not exported; -EINVAL: there is no process context (ep_start_error()). Context: init. */
int ep_otel_threads(void);

/* From here on samples and events of a thread carry the span that another tracer in this process has published for it,
 * in a module that is loaded now or later. It counts instead of the thread's own ep_span_set(). Not seen: such spans in
 * waits that are still open, and in dumps of all threads. Returns 1: there is such a tracer; 0: not yet; -ENOSYS.
 * Context: init. */
int ep_otel_read(void);

/* Removes the process context, and with it what readers see of threads. Context: init. */
void ep_otel_withdraw(void);

/* What EDGEPROF_OTEL_CONTEXT asks for: publish, read, or both (1); 0 or nothing: none. Returns these bits, or -EINVAL
 * (ep_start_error()). Context: init. */
enum { EP_OTEL_PUBLISH = 1, EP_OTEL_READ = 2 };
int ep_otel_from_env(void);

/* From the next ep_start() on, `say` gets one line when profiles do not arrive, with the reason and without
 * credentials, such as "profiles are not accepted by http://host:4040: 401, ...", and one when they arrive again. Each
 * reason is said once, and again after an hour at the earliest. The deliver thread calls it; it may block for a moment.
 * NULL: nothing is said, as in a program that never calls this, which does not link it. The preload library and the
 * .NET package write the lines to standard error. Context: init. */
void ep_notice_to(void (*say)(const char *line));

/* The bearer token of every request is the content of that file, without blanks around it, from the next ep_start() on.
 * The file is read at the start, and again after each answer 401 or 403, so a new token needs no restart. If it cannot
 * be read, the profiler starts all the same and reads it again later; ep_notice_to() has a line about it. Not together
 * with an Authorization line in ep_config.headers or a user in the endpoint. The path is copied. NULL: no file.
 * Returns 0; -EALREADY: the profiler runs; -EINVAL: the path is empty or too long. Context: init. */
int ep_token_file(const char *path);

/* A second endpoint for profiles that are too old for the receiver at config->endpoint, which must take pprof, like
 * Pyroscope. It gets profiles whose start is an hour old or more, and those of ten minutes or more that the receiver
 * refuses, in the same format, without config->headers. If it cannot be reached, they stay in the spool. Without a
 * spool the receiver is asked first at any age, and what the second cannot take then is lost as refused. Sets
 * config->transport. Call it after ep_config_from_env() and ep_tls_setup(), and pass *config to ep_start(). The
 * endpoint is copied. NULL: EDGEPROF_ENDPOINT_OLD has it. Returns 1; 0: there is none; -EALREADY: the profiler runs;
 * -EINVAL: no such endpoint, or *config has no endpoint or another format (ep_start_error()). Context: init. */
int ep_endpoint_old(struct ep_config *config, const char *endpoint);

/* Fills *stats; after ep_stop() with the final figures of that run. Returns 0, or -ESRCH if nothing was ever
 * started. Context: any thread. */
int ep_stats_get(struct ep_stats *stats);

/* Ends the interval now. The collect thread encodes the profile and hands it to the deliver thread; this call does
 * not wait for that.
 * Returns 0 or -ESRCH. Context: any thread. */
int ep_flush(void);

/* With EP_MANUAL: the work of the two threads, to be called at least every 100 ms. ep_collect() never blocks.
 * ep_deliver() blocks for at most deadline_ms. Both return 0 or -ESRCH; ep_deliver() also the transport's error.
 * Context: collect / deliver. */
int ep_collect(void);
int ep_deliver(uint32_t deadline_ms);

/* Change the settings at run time. The next interval begins at once. Return 0, -EINVAL or -ESRCH.
 * Context: any thread. */
int ep_level_set(enum ep_level level);          /* sets the level's rate and kinds */
int ep_kinds_set(uint32_t kinds);               /* EP_KIND_BIT()s */
int ep_kinds_change(uint32_t on, uint32_t off); /* switches single kinds on and off */
enum ep_level ep_level_get(void);               /* EP_LEVEL_DEFAULT when none runs */
uint32_t ep_kinds_get(void);                    /* 0 when none runs */

/* Asks for one stack of every thread, as EP_KIND_THREAD, whatever kinds are on. All are in one profile, within an
 * interval, with the thread's name as a label. The collect thread reads the stacks without disturbing the threads.
 * Of a thread in a marked wait (see below) it reads a copy of the stack. Of a thread blocked in the kernel likewise,
 * as far as the copy can be walked without the frame pointer. Of a running thread it uses the next CPU sample. A
 * thread whose stack cannot be read shows as [no stack].
 * Returns 0 or -ESRCH. Context: any thread. */
int ep_threads_dump(void);

/* Starts the control endpoint: level, kinds and statistics over HTTP, for curl and for tools on the device. A
 * program that does not call this has no such endpoint and does not link it. where: a path (a unix socket,
 * accessible to the program's user only) or a number (a port of 127.0.0.1). token: requests must carry it as
 * "Authorization: Bearer TOKEN"; a port needs one of at least 16 characters. where NULL: both are read from
 * EDGEPROF_CONTROL and EDGEPROF_CONTROL_TOKEN. Both strings must stay valid until ep_control_stop(). The endpoint
 * stays open across ep_stop() and ep_start().
 * Returns 1: it listens; 0: no address was given; -EINVAL: neither a path nor a port, or a port
 * without a valid token; -EALREADY; else the system's error. Context: init. */
int ep_control_start(const char *where, const char *token);
/* Returns 0, or -ESRCH when there is none. Context: init. */
int ep_control_stop(void);

struct ep_pull_config {
    /* All memory of the endpoint, at least EP_PULL_MEMORY_MIN bytes, any alignment. It holds requests and the
     * endpoint's own profiles; more memory makes these larger. Must stay valid until ep_pull_stop(). */
    void *memory;
    size_t memory_size;
    /* "port" (of 127.0.0.1), "address:port", "[IPv6 address]:port". NULL: where and token are read from
     * EDGEPROF_PULL and EDGEPROF_PULL_TOKEN. */
    const char *where;
    /* Requests must carry it, as "Authorization: Bearer TOKEN" or as a password ("http://any:TOKEN@host/..."). An
     * address other than loopback needs one of at least 16 characters; /control needs one on every address. */
    const char *token;
    /* The token and the profiles cross the network unencrypted: without this consent (EDGEPROF_PULL_INSECURE=1) an
     * address other than loopback is refused. Better: TLS in front, on this machine. */
    bool insecure;
};

/* Starts the pull endpoint: profiles on request over HTTP, with the paths of Go programs: /debug/pprof/ for go tool
 * pprof, Parca and curl, and /metrics for Prometheus. A program that does not call this has no such endpoint and
 * does not link it. Pulled profiles have memory of their own and remove nothing from pushed profiles. Without an
 * endpoint in ep_config, profiles are available by pull only. `where` and `token` must stay valid until
 * ep_pull_stop(). The endpoint stays open across ep_stop() and ep_start().
 * Returns 1: it listens; 0: no address was given; -EINVAL: no valid address and port, or one
 * that needs a (longer) token; -EACCES: one beyond loopback, without consent; -ENOMEM: memory_size is too small;
 * -EALREADY; else the system's error. Context: init. */
int ep_pull_start(const struct ep_pull_config *config);
/* Returns 0, or -ESRCH when there is none. Context: init. */
int ep_pull_stop(void);

/* ---- what a thread is doing ---- */

/* Classes of waiting. Each shows as a special frame at the leaf. */
enum ep_wait {
    EP_WAIT_OTHER = 0,   /* [wait] */
    EP_WAIT_LOCK = 1,    /* [lock]; also EP_KIND_LOCK */
    EP_WAIT_SLEEP = 2,   /* [sleep] */
    EP_WAIT_NETWORK = 3, /* [network] */
    EP_WAIT_DISK = 4,    /* [disk] */
    EP_WAIT_IDLE = 5,    /* [idle]: a worker without work; ignored unless EP_IDLE_WAITS */
    EP_WAITS = 6
};

/* Mark a call that blocks as a wait. Calls may nest; only the outermost pair counts. The function that calls
 * ep_wait_begin() must not return before ep_wait_end(). A pair costs less than two clock reads. Neither
 * blocks or allocates; both keep errno. Context: signal. */
void ep_wait_begin(enum ep_wait wait);
void ep_wait_end(void);
/* Keeps the compiler from turning the call into a tail call: the caller's frame must still exist, since the wait's
 * stack starts there. */
#define ep_wait_end()                                                                                                  \
    do {                                                                                                               \
        (ep_wait_end)();                                                                                               \
        __asm__ volatile("" ::: "memory");                                                                             \
    } while (0)

/* Until the matching ep_tag_pop(), everything measured on this thread carries the label key=value. Of two labels
 * with the same key the inner one counts. Keys match [a-zA-Z_][a-zA-Z0-9_]*. Both strings are copied into a fixed
 * table the first time they are seen. Beyond EP_TAG_VALUES values of a key, new values become "other", counted as
 * EP_LOSS_TAGS.
 * Returns 0, or -EINVAL for a bad key; call ep_tag_pop() in either case. Context: any thread. */
int ep_tag_push(const char *key, const char *value);
void ep_tag_pop(void);

/* Sets the span that this thread works for; samples of every kind carry it. The ids are the service's; all zero:
 * none. Context: any thread. */
void ep_span_set(uint64_t span_id, uint64_t trace_high, uint64_t trace_low);

/* Names of a kind, "cpu", and of its unit, "nanoseconds". NULL outside the range. Context: any thread. */
const char *ep_kind_name(unsigned kind);
const char *ep_kind_unit(unsigned kind);

/* Names of a loss reason, "ring full". NULL outside the range. Context: any thread. */
const char *ep_loss_name(unsigned reason);

#ifdef __cplusplus
}
#endif

#endif
