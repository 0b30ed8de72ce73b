/*
 * edgeprof: always-on profiling for small ARM Linux devices, without malloc.
 *
 * A program includes this header, and tls.h for https. This header includes the optional parts: pprof.h, spool.h,
 * crash.h, incident.h, otel.h and endpoint.h. Authors of transports include transport.h, authors of hooks hooks.h, and
 * authors of ports port.h.
 *
 * Conventions:
 *  - Functions return 0 or a positive value for success and a negative errno value for failure.
 *  - The caller owns every buffer that it passes. ep_start() copies strings unless a comment says otherwise.
 *  - A zeroed field means its default.
 *  - One profiler runs in a process at a time.
 *  - Each function's comment ends with its context, the threads that may call it:
 *      init              any thread, one at a time; the function may block
 *      any thread        any number of threads at the same time; the function does not block
 *      signal            likewise, also in a signal handler
 *      collect, deliver  only the thread of that role
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

/* The library's version has its only definition here. The format has a version of its own (core/FORMAT.md). */
#define EP_VERSION "0.1.0"

struct ep_transport; /* all four: core/edgeprof/transport.h */
struct ep_push;
struct ep_names;

/* A kind is what edgeprof measures, with the unit of its value. The numbers are part of the format. */
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
    EP_KIND_WRITE = 10,    /* written to files (edgeprof/hooks.h); bytes */
    EP_KIND_SYNC = 11,     /* fsync() and the like; ns */
    EP_KINDS = 12
};
#define EP_KIND_BIT(kind) (1u << (kind))

/* A level is a preset of sampling rate and kinds. Kernel ticks trigger CPU samples, so a CPU yields at most HZ samples
 * a second. If the rate is higher, each sample stands for more time. */
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
    /* Adds the thread's name to each stack as a label. */
    EP_THREAD_LABELS = 2,
    /* Counts idle waits (EP_WAIT_IDLE), such as those of a pool's workers without work. */
    EP_IDLE_WAITS = 4,
    /* Delays the start of edgeprof's two threads, so that a single-threaded program stays single-threaded for a while.
     * The first of these events starts them:
     *   - the ring is half full
     *   - an interval and 3 s are over
     *   - the program runs code of a library that it opened after the start
     *   - the program creates a thread
     *   - the program calls ep_flush(), ep_stop() or a similar function
     * The flag needs glibc; elsewhere the threads start at once. */
    EP_LAZY_THREADS = 8,
    /* Switches off the limits of allocations, exceptions, locks and waits per second. Exceptions are then counted one
     * by one. For measurements: a busy program may have thousands of events a second. */
    EP_ALL_EVENTS = 16,
    /* Also counts the CPU time that the process used before ep_start(), as the main thread's [thread exit]. A forked
     * child sets this flag, because it has no profiler until it calls ep_start(). The child may use memory of its own
     * or its copy of the parent's memory. It must not use the parent's spool directory, control or pull address. */
    EP_SINCE_FORK = 32,
    /* Lets dlclose() unload libraries that appear after ep_start(). Then their code is [unknown], and stacks are cut
     * there. Without this flag edgeprof keeps each library that it has seen (RTLD_NODELETE). */
    EP_NO_PIN = 64,
    /* The memory is all zero: static memory at the first start, or a new mapping. ep_start() does not look at it first,
     * which would map each of its pages. */
    EP_ZERO_MEMORY = 128,
    /* Choose the clock of CPU samples; by default edgeprof chooses (docs/accuracy.md). A thread that cannot have the
     * wanted clock gets what edgeprof chooses, and ep_stats.clock_error has the reason. */
    EP_CLOCK_TIMERS = 256, /* each thread's CPU timer */
    EP_CLOCK_TICKS = 512,  /* what runs at a kernel tick, at the cost of a signal a tick */
    EP_CLOCK_PERF = 768,   /* perf events: any rate, for a descriptor a thread; time in the kernel is [kernel] */
    EP_CLOCKS = 768,       /* the mask of all three */
};

struct ep_config {
    /* The working memory: at least EP_MEMORY_MIN bytes, any alignment. EP_MEMORY_DEFAULT suits most programs with
     * up to EP_THREADS threads. EP_MEMORY_FOR_THREADS(n) is the size for n threads; more memory also makes the ring,
     * the tree and the outbox larger. ep_start() writes only what is not zero yet: a large static block or a new
     * mapping costs only the pages that are needed. It must stay valid until ep_stop() has returned 0 or
     * -ETIMEDOUT. docs/memory.md lists what else the library uses. */
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

    /* For endpoints http:// and https:// only. */
    const struct ep_push *push;   /* the protocol that pprof over HTTP needs: &ep_push_pyroscope */
    const struct ep_names *names; /* &ep_names_process adds function names, for servers that cannot symbolize */
    /* Lines "Name: value" for each request, separated by '\n'. They never appear in log or error messages. ep_start()
     * does not copy them: they must stay valid as long as `memory`. */
    const char *headers;
};

/* A loss reason says why a profile lacks a measurement, or has it with less detail. The numbers are part of the format.
 */
enum ep_loss {
    EP_LOSS_RING_FULL = 0,      /* the collect thread did not drain the ring in time; ticks are in a later sample */
    EP_LOSS_NO_TIMER = 1,       /* threads without a timer (count only); their CPU time is reported */
    EP_LOSS_NO_SLOT = 2,        /* threads for which the memory has no place (count only); their CPU time is reported */
    EP_LOSS_TREE_FULL = 3,      /* stacks cut at a [truncated] frame; the weight is kept */
    EP_LOSS_ENTRIES_FULL = 4,   /* stacks merged into a single [truncated] frame; the weight is kept */
    EP_LOSS_MODULES_FULL = 5,   /* modules beyond the table (count only): their frames are [unknown] */
    EP_LOSS_REFUSED = 6,        /* a receiver refused a message permanently */
    EP_LOSS_SEGMENT = 7,        /* a receiver did not know the segment, and its messages could not be rebuilt */
    EP_LOSS_STOPPED = 8,        /* still undelivered when ep_stop()'s deadline passed, or recorded after it */
    EP_LOSS_TOO_LARGE = 9,      /* a single stack did not fit into the outbox */
    EP_LOSS_TAGS = 10,          /* tag values that did not fit into the table; recorded as "other" */
    EP_LOSS_LABELS = 11,        /* stacks recorded without their span or tags, for lack of room in this interval */
    EP_LOSS_LIVE_FULL = 12,     /* objects that the live heap could not follow; later objects stand for them */
    EP_LOSS_WAITERS = 13,       /* threads beyond the table of waits: their waits are recorded only when they end */
    EP_LOSS_NO_STACK = 14,      /* threads of a dump whose stack could not be read (count only): [no stack] */
    EP_LOSS_SPOOL_FULL = 15,    /* the oldest spooled messages, deleted to make room */
    EP_LOSS_SPOOL_DAMAGED = 16, /* spooled messages that cannot be read any more */
    EP_LOSS_TOO_OLD = 17,       /* refused by a receiver, and older than receivers accept (ep_spool_config.old_ms) */
    EP_LOSS_SIGNAL_BLOCKED = 18, /* threads that keep the profiling signal blocked (count only); likewise reported */
    EP_LOSS_DAMAGED = 19,     /* records that no part of edgeprof writes (count only): something overwrote the ring */
    EP_LOSS_SMALL_STACK = 20, /* ticks that waited while the stack had no room for the handler (count only) */
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

    uint64_t unsampled_ns; /* CPU time of threads that are not sampled; thread_exit_ns has it in whole periods */
    struct ep_unsampled unsampled[EP_UNSAMPLED];

    uint64_t intervals_early; /* sent before their end because the memory was nearly used up */
    /* How often detail was given up because the memory was used up and nothing could be sent. Totals stay right. */
    uint64_t degraded_labels;    /* labels and spans */
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
 *
 * Several libraries of a process can contain edgeprof. Only the first one that starts takes CPU samples. Each later one
 * records only the events of its own library, and ep_notice_to() gets a line about that.
 *
 * Returns
 *   0          profiling runs
 *   -EINVAL    a field is out of range; ep_start_error() names it
 *   -ENOMEM    memory_size is too small
 *   -EALREADY  a profiler runs already
 *   -EBUSY     no signal is free for profiling, or a thread still uses the memory of the last run (see ep_stop())
 *   -EPERM     a seccomp filter would end the process for a system call of edgeprof
 *   others     the system's error
 * Context: init. */
int ep_start(const struct ep_config *config);

/* Fills the fields of *config that are zero from environment variables:
 *   EDGEPROF_ENDPOINT, EDGEPROF_SERVICE, EDGEPROF_TAGS, EDGEPROF_HEADERS   texts
 *   EDGEPROF_LEVEL           low, medium, high
 *   EDGEPROF_KINDS           names of ep_kind_name(), "cpu,alloc"
 *   EDGEPROF_RATE (Hz), EDGEPROF_BUDGET (ppm), EDGEPROF_INTERVAL (ms)
 *   EDGEPROF_CLOCK           auto, timer, ticks, perf
 *   EDGEPROF_THREAD_LABELS, EDGEPROF_IDLE_WAITS, EDGEPROF_ALL_EVENTS, EDGEPROF_PIN   1 or 0
 *   EDGEPROF_TOKEN           a bearer token; EDGEPROF_TOKEN_FILE: its file, see ep_token_file()
 * Then it reads the PYROSCOPE_* and OTEL_* variables of the same meaning (table in docs/configuration.md). A Pyroscope
 * server accepts only pprof: call ep_pprof_from_env() next. Strings point into the environment or into memory that
 * lasts until the next call.
 *
 * Returns
 *   1          a variable names an upload target, or asks for the pull endpoint (EDGEPROF_PULL of ep_pull_start())
 *   0          none does
 *   -EINVAL    a variable is invalid; ep_start_error() names it
 * Context: init. */
int ep_config_from_env(struct ep_config *config);

/* Explains in one line why the last ep_start(), ep_config_from_env() or similar call failed; "" after success.
 * Context: init. */
const char *ep_start_error(void);

/* Stops profiling. Delivers what is in memory, for at most deadline_ms, and ends edgeprof's threads. With a spool,
 * stores in it what cannot be delivered in time. ep_start() works again afterwards.
 *
 * A thread of the program can be inside edgeprof and not return, for example in a long pause or under a debugger.
 * ep_stop() waits for it for half of deadline_ms, at most 1 s, then delivers without the record of that thread, which
 * counts as EP_LOSS_STOPPED. The call may then take 0.2 s longer than deadline_ms.
 *
 * Returns
 *   0           everything was delivered or stored. The memory is yours again
 *   -ETIMEDOUT  undelivered messages were dropped and counted. The memory is yours again
 *   -EBUSY      profiling has stopped, but a thread still uses the memory: neither free nor reuse it. The thread
 *               belongs to the program, or to edgeprof if it did not end within 10 s of the deadline. Call again until
 *               the result changes; the last result is that of the whole stop. Until then ep_start() also returns
 *               -EBUSY. ep_stats.busy_stops counts these calls, and ep_start_error() explains them
 *   -ESRCH      no profiler runs
 * Context: init. */
int ep_stop(uint32_t deadline_ms);

/* Makes the deliver thread call `say` with one line when profiles do not arrive, and with one when they arrive again.
 * It takes effect at the next ep_start(). NULL: no lines.
 *
 * A line has the reason and no credentials: "profiles are not accepted by http://host:4040: 401, ...". Each reason is
 * reported once, and again after an hour at the earliest. `say` may block for a moment. The preload library and the
 * .NET package write the lines to standard error. A program that does not call this does not link it. Context: init. */
void ep_notice_to(void (*say)(const char *line));

/* Sends the content of a file as the bearer token of every request, from the next ep_start() on. NULL: no file.
 *
 * The profiler reads the file at the start, and again after each answer 401 or 403, so a new token needs no restart. If
 * it cannot read the file, it starts anyway, reads the file again later, and ep_notice_to() gets a line. Blanks around
 * the token are ignored. The path is copied. Do not combine a token file with an Authorization line in
 * ep_config.headers or with a user in the endpoint.
 *
 * Returns
 *   0          the next run uses the file
 *   -EALREADY  the profiler runs
 *   -EINVAL    the path is empty or too long
 * Context: init. */
int ep_token_file(const char *path);

/* Fills *stats; after ep_stop() with the final figures of that run. Returns 0, or -ESRCH if no profiler ever ran.
 * Context: any thread. */
int ep_stats_get(struct ep_stats *stats);

/* Ends the interval now. The collect thread encodes the profile and hands it to the deliver thread; this call does not
 * wait for that. Returns 0 or -ESRCH. Context: any thread. */
int ep_flush(void);

/* These two do the work of edgeprof's threads in a program with EP_MANUAL. Call them at least every 100 ms.
 * ep_collect() never blocks. ep_deliver() blocks for at most deadline_ms. Both return 0 or -ESRCH; ep_deliver() can
 * also return the transport's error. Context: collect / deliver. */
int ep_collect(void);
int ep_deliver(uint32_t deadline_ms);

/* These change the settings at run time. A change begins the next interval at once. Functions of type int return 0,
 * -EINVAL or -ESRCH. Context: any thread. */
int ep_level_set(enum ep_level level);          /* sets the level's rate and kinds */
int ep_kinds_set(uint32_t kinds);               /* EP_KIND_BIT()s */
int ep_kinds_change(uint32_t on, uint32_t off); /* switches single kinds on and off */
enum ep_level ep_level_get(void);               /* EP_LEVEL_DEFAULT when none runs */
uint32_t ep_kinds_get(void);                    /* 0 when none runs */

/* Requests one stack of every thread, as EP_KIND_THREAD, whatever kinds are on. All stacks are in one profile, at most
 * an interval later, with the thread's name as a label. The collect thread does not disturb the threads. It reads
 *   - a thread in a marked wait (see below) from a copy of its stack
 *   - a thread blocked in the kernel likewise, as far as it can walk the copy without the frame pointer
 *   - a running thread from its next CPU sample
 * A thread whose stack it cannot read appears as [no stack]. Returns 0 or -ESRCH. Context: any thread. */
int ep_threads_dump(void);

/* ---- what a thread is doing ---- */

/* Classes of waiting. Each is a special frame at the leaf. */
enum ep_wait {
    EP_WAIT_OTHER = 0,   /* [wait] */
    EP_WAIT_LOCK = 1,    /* [lock]; also EP_KIND_LOCK */
    EP_WAIT_SLEEP = 2,   /* [sleep] */
    EP_WAIT_NETWORK = 3, /* [network] */
    EP_WAIT_DISK = 4,    /* [disk] */
    EP_WAIT_IDLE = 5,    /* [idle]: a worker without work; ignored unless EP_IDLE_WAITS */
    EP_WAITS = 6
};

/* These two mark a blocking call as a wait. Pairs may nest; only the outermost pair counts. The function that calls
 * ep_wait_begin() must call ep_wait_end() before it returns. A pair costs less than two readings of the clock. Neither
 * function blocks or allocates; both keep errno. Context: signal. */
void ep_wait_begin(enum ep_wait wait);
void ep_wait_end(void);
/* Keeps the compiler from turning the call into a tail call: the caller's frame must still exist, since the wait's
 * stack starts there. */
static inline __attribute__((always_inline)) void ep_wait_end_in_frame(void)
{
    ep_wait_end();
    __asm__ volatile("" ::: "memory");
}
/* An identifier, so that C++ can call ::ep_wait_end(). */
#define ep_wait_end() ep_wait_end_in_frame()

/* Adds the label key=value to everything that is measured on this thread, until the matching ep_tag_pop(). An inner
 * label hides an outer one with the same key. Keys match [a-zA-Z_][a-zA-Z0-9_]*. A fixed table keeps a copy of both
 * strings. When a key has EP_TAG_VALUES values, new values become "other" and count as EP_LOSS_TAGS.
 * Returns 0, or -EINVAL for a bad key; call ep_tag_pop() in either case. Context: any thread. */
int ep_tag_push(const char *key, const char *value);
void ep_tag_pop(void);

/* Sets the span that this thread works for; samples of every kind carry it. The program defines the ids; all zero means
 * no span. Context: any thread. */
void ep_span_set(uint64_t span_id, uint64_t trace_high, uint64_t trace_low);

/* Return the name of a kind, "cpu", and of its unit, "nanoseconds". NULL outside the range. Context: any thread. */
const char *ep_kind_name(unsigned kind);
const char *ep_kind_unit(unsigned kind);

/* Returns the name of a loss reason, "ring full". NULL outside the range. Context: any thread. */
const char *ep_loss_name(unsigned reason);

#ifdef __cplusplus
}
#endif

/* Optional parts. A program links those that it calls. */
#include <edgeprof/crash.h>
#include <edgeprof/endpoint.h>
#include <edgeprof/incident.h>
#include <edgeprof/otel.h>
#include <edgeprof/pprof.h>
#include <edgeprof/spool.h>

#endif
