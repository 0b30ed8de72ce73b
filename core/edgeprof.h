/*
 * edgeprof: always-on profiling for small ARM Linux devices, without malloc.
 *
 * This is the whole public interface of the library. Conventions, stated once:
 *  - Functions return 0 or a positive value for success and a negative errno value for failure.
 *  - The caller owns every buffer that it passes; strings are copied by ep_start() unless it says otherwise.
 *  - A zeroed field means its default.
 *  - One profiler runs in a process at a time.
 *  - Each function ends with its context: `init` (one thread at a time, may block), `any thread`
 *    (may be called concurrently, does not block), `collect` / `deliver` (only from that role's thread).
 */
#ifndef EDGEPROF_H
#define EDGEPROF_H

#include <stddef.h>
#include <stdint.h>

#include "config.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The one place where the version stands; the format has its own (core/FORMAT.md). */
#define EP_VERSION "0.1.0"

struct ep_transport; /* all three: transport/transport.h */
struct ep_encoder;
struct ep_push;
struct ep_names;

/* What is measured. Numbers are part of the format. */
enum ep_kind {
    EP_KIND_CPU = 1,       /* time on the CPU; ns */
    EP_KIND_WAIT = 2,      /* time in announced waits; ns */
    EP_KIND_LOCK = 3,      /* contended locks; ns of delay */
    EP_KIND_ALLOC = 4,     /* allocation; bytes */
    EP_KIND_LIVE = 5,      /* what is in use when the interval ends, a level and no sum; bytes */
    EP_KIND_EXCEPTION = 6, /* exceptions thrown; as many */
    EP_KIND_GC = 7,        /* pauses of the garbage collector; ns */
    EP_KIND_THREAD = 8,    /* every thread's stack at one moment; as many; see ep_threads_dump() */
    EP_KIND_HEAP = 9,      /* the collector's heap by generation after its last collection, a level; bytes */
    EP_KINDS = 10
};
#define EP_KIND_BIT(kind) (1u << (kind))

/* How closely to look: a sampling rate and the kinds that are on. No kernel ticks faster than its HZ, samples then
 * carry more weight each. */
enum ep_level {
    EP_LEVEL_DEFAULT = 0, /* low */
    EP_LEVEL_LOW = 1,     /* 19 Hz of CPU time per thread; CPU only */
    EP_LEVEL_MEDIUM = 2,  /* 97 Hz; and allocation, live heap, sizes of the collector's heap, locks */
    EP_LEVEL_HIGH = 3,    /* 251 Hz; everything */
};

enum ep_format {
    EP_FORMAT_COMPACT = 0, /* core/FORMAT.md */
    EP_FORMAT_PPROF = 1,   /* perftools.profiles.Profile, uncompressed, addresses and build ids */
};

enum ep_flags {
    /* Start no threads: the program calls ep_collect() and ep_deliver() itself. */
    EP_MANUAL = 1,
    /* Each stack carries its thread's name as a label. */
    EP_THREAD_LABELS = 2,
    /* Waits of pools with nothing to do count as well. */
    EP_IDLE_WAITS = 4,
    /* edgeprof's two threads start when they are first needed: the ring is nearly full, an interval and 3 s are over,
     * the program creates a thread, or it calls ep_flush(), ep_stop() and the like. Until then a single-threaded
     * program stays one. Needs glibc; elsewhere the threads start at once. */
    EP_LAZY_THREADS = 8,
};

struct ep_config {
    /* The working memory: at least EP_MEMORY_MIN bytes, any alignment. EP_MEMORY_DEFAULT is a good size; more makes
     * the ring, the tree and the outbox larger. Must stay valid until ep_stop() has returned 0. docs/memory.md lists
     * what the library uses beside it. */
    void *memory;
    size_t memory_size;

    const char *service; /* name of the service; default: the program's file name */
    const char *tags;    /* static tags, "key=value,key=value"; keys match [a-zA-Z_][a-zA-Z0-9_]* */

    enum ep_level level;
    uint32_t kinds;       /* EP_KIND_BIT()s, overrides the level's */
    uint32_t rate_hz;     /* 1..1000, overrides the level's rate */
    uint32_t budget_ppm;  /* most that profiling may cost, in millionths of the process' CPU time; 0: no limit */
    uint32_t interval_ms; /* one profile per interval; 100..3600000, default 10000 */

    /* Where profiles go: "http://host[:port][/prefix]", "file:///path", or "https://...", for which transport/tls.h has
     * ep_tls_setup(). NULL: nowhere, they merge in memory.
     * transport, when set, is used instead; endpoint is then handed to its open function as it is. */
    const char *endpoint;
    const struct ep_transport *transport;

    uint32_t flags; /* enum ep_flags */

    /* How profiles are written, EP_FORMAT_COMPACT: NULL, EP_FORMAT_PPROF: &ep_encoder_pprof. Programs link only what
     * they point to. */
    const struct ep_encoder *encoder;

    /* For endpoints http:// and https://. */
    const struct ep_push *push;   /* &ep_push_pyroscope: how pprof goes there; without, it does not */
    const struct ep_names *names; /* &ep_names_process: what push sends has names, for servers without symbols */
    const char *headers; /* lines "Name: value" for each request, '\n' between; a secret, in no message. Not copied:
                            must stay valid until ep_stop() has returned 0 */
};

extern const struct ep_encoder ep_encoder_pprof;
extern const struct ep_push ep_push_pyroscope; /* Grafana Pyroscope's push.v1.PusherService/Push */

/* Names that can be had in the process: dynamic symbols, what a language's runtime knows (.NET), else module+0x1234.
 * Not in ep_config.memory: EP_NAMES_BYTES and 60 KiB of bss, which are touched as far as they are needed. */
extern const struct ep_names ep_names_process;

/* Why something that was measured is not in a profile as what it was. Numbers are part of the format. */
enum ep_loss {
    EP_LOSS_RING_FULL = 0,    /* collect came too late for the samples */
    EP_LOSS_NO_TIMER = 1,     /* threads that got no timer (count only); their CPU time is there */
    EP_LOSS_NO_SLOT = 2,      /* threads beyond EP_MAX_THREADS (count only); likewise */
    EP_LOSS_TREE_FULL = 3,    /* stacks that end in [truncated]; the weight is kept */
    EP_LOSS_ENTRIES_FULL = 4, /* stacks that were merged into [truncated] alone; the weight is kept */
    EP_LOSS_MODULES_FULL = 5, /* modules beyond the table (count only): their frames are [unknown] */
    EP_LOSS_REFUSED = 6,      /* a receiver refused a message for good */
    EP_LOSS_SEGMENT = 7,      /* a receiver did not know the segment and its messages could not be rebuilt */
    EP_LOSS_STOPPED = 8,      /* still undelivered when ep_stop()'s deadline passed */
    EP_LOSS_TOO_LARGE = 9,    /* one stack alone did not fit into the outbox */
    EP_LOSS_TAGS = 10,        /* tag values beyond the table's room, folded into "other" */
    EP_LOSS_CONTEXTS = 11,    /* stacks whose span or tags had no room in this interval; they are there without them */
    EP_LOSS_LIVE_FULL = 12,   /* objects that the live heap could not follow; the others stand for them */
    EP_LOSS_WAITERS = 13,     /* waits of threads beyond the table: seen when they end, not while they are open */
    EP_LOSS_NO_STACK = 14,    /* threads whose stack could not be had for a dump (count only): [no stack] */
    EP_LOSS_SPOOL_FULL = 15,  /* the spool's oldest, which had to make room */
    EP_LOSS_SPOOL_DAMAGED = 16, /* was in the spool and cannot be read any more */
    EP_LOSS_TOO_OLD = 17,       /* refused by a receiver, and older than receivers take (ep_spool_config.old_ms) */
    EP_LOSS_SIGNAL_BLOCKED =
        18, /* threads that keep the profiling signal blocked (count only); as those without timer */
    EP_LOSS_REASONS = 19
};

/* Threads that are not sampled, for one reason; ep_stats.lost_count says how many there were. */
struct ep_unsampled {
    uint32_t reason;  /* EP_LOSS_NO_TIMER, EP_LOSS_NO_SLOT or EP_LOSS_SIGNAL_BLOCKED */
    int32_t error;    /* EP_LOSS_NO_TIMER: what the system answered last, negative errno value; else 0 */
    uint64_t limit;   /* the limit that is reached, 0: none; EP_LOSS_SIGNAL_BLOCKED: the signal's number */
    char name[3][16]; /* of the first such threads, "": there is none. UTF-8, without control characters, '"', '\\' */
};
#define EP_UNSAMPLED 3

struct ep_stats {
    uint64_t samples;        /* of CPU time */
    uint64_t weight_ns;      /* CPU time that they stand for */
    uint64_t exact;          /* stacks of all kinds: walked to the root, every frame by a rule */
    uint64_t gap;            /* rooted, with a guess in between */
    uint64_t cut;            /* not rooted */
    uint64_t thread_exit_ns; /* CPU time beside samples: when threads ended, of threads that are not sampled */

    uint64_t kind_count[EP_KINDS]; /* by kind: samples that were taken (CPU), else events that they stand for */
    uint64_t kind_value[EP_KINDS]; /* by kind: in its unit; EP_KIND_LIVE, EP_KIND_HEAP: now */

    uint64_t lost_count[EP_LOSS_REASONS]; /* samples of any kind */
    uint64_t lost_ns[EP_LOSS_REASONS];    /* CPU time that they stood for */

    uint64_t rule_hits; /* frames whose rule was in the cache */
    uint64_t rule_misses;

    uint64_t messages; /* encoded */
    uint64_t message_bytes;
    uint64_t delivered; /* accepted by the receiver */
    uint64_t delivered_bytes;
    uint64_t delivery_failures; /* attempts that are retried */
    uint64_t intervals_merged;  /* intervals that had to wait for room in the outbox */
    int32_t last_error;         /* of the last failed delivery, negative errno value; 0: none yet */

    /* With a spool. What is in it is neither delivered nor lost. */
    uint64_t spooled;        /* messages put there in this run */
    uint64_t replayed;       /* messages delivered from there, also of earlier runs; in `delivered`, too */
    uint64_t spool_messages; /* there now */
    uint64_t spool_bytes;
    uint64_t spool_written; /* bytes written to the disk: flash wears */
    uint64_t spool_error;   /* why nothing can be put there (messages stay in memory), errno value; 0: it can */

    uint64_t collect_cpu_ns; /* CPU time of edgeprof's own threads */
    uint64_t deliver_cpu_ns;
    uint64_t wakeups;    /* of both threads */
    uint64_t handler_ns; /* CPU time that samples took of the service's own threads; some are timed, once an interval */

    /* What keeps the budget: see governor.c. */
    uint64_t budget_ppm;  /* as it was configured */
    uint64_t cost_ppm;    /* of profiling, of the process' CPU time, over about the last minute */
    uint64_t stretch_pct; /* periods now, of the level's; 100 unless there is a budget and it is scarce */
    uint64_t stretches;   /* how often that has changed */
    uint32_t threads;     /* with a timer now */
    uint32_t modules;
    uint32_t tree_nodes, tree_capacity;
    uint32_t memory_used;

    uint64_t unsampled_ns; /* CPU time of threads that are not sampled; thread_exit_ns has it in whole periods */
    struct ep_unsampled unsampled[EP_UNSAMPLED];
};

/* Starts profiling. Copies what it needs from *config.
 * Returns 0; -EINVAL: a field is out of range (ep_start_error() names it); -ENOMEM: memory_size is too small;
 * -EALREADY: running; -EBUSY: no signal is free for profiling; else what the system said.
 * Context: init. */
int ep_start(const struct ep_config *config);

/* Reads EDGEPROF_ENDPOINT, EDGEPROF_SERVICE, EDGEPROF_TAGS, EDGEPROF_LEVEL (low, medium, high), EDGEPROF_KINDS
 * ("cpu,alloc", as ep_kind_name()), EDGEPROF_RATE (Hz), EDGEPROF_BUDGET (ppm), EDGEPROF_INTERVAL (ms), EDGEPROF_FORMAT
 * (compact, pprof), EDGEPROF_THREAD_LABELS, EDGEPROF_IDLE_WAITS and EDGEPROF_NAMES (1, 0), EDGEPROF_TOKEN (bearer) and
 * EDGEPROF_HEADERS into the fields of *config that are zero; then PYROSCOPE_* and OTEL_*, where they mean the same
 * (port/nativeaot/EdgeProf/README.md has the table). Links push and names, for a variable may ask for them. Strings
 * point into the environment or into memory that lasts until the next call. Returns 1 if a variable says where profiles
 * go, or that they are pulled (EDGEPROF_PULL; ep_pull_start() reads it), 0 if not, -EINVAL: a variable makes no sense
 * (ep_start_error()). Context: init. */
int ep_config_from_env(struct ep_config *config);

/* One line that says what the last ep_start() or ep_config_from_env() did not like, "" when it liked everything.
 * Context: init. */
const char *ep_start_error(void);

/* Stops sampling, delivers what is in memory for at most deadline_ms, ends the threads. Start works again after it.
 * With a spool, what cannot be delivered is put there before the deadline.
 * Returns 0; -ESRCH: not running; -ETIMEDOUT: stopped, but what could not be delivered was dropped and counted;
 * -EBUSY: a handler is still on its way (a thread stopped by a debugger), call again; the memory is still in use.
 * Context: init. */
int ep_stop(uint32_t deadline_ms);

/* Store-and-forward: what cannot be delivered waits in files, through restarts and power cuts. See DESIGN.md. */
struct ep_spool_config {
    const char *dir; /* the profiler's alone; made when its parent exists. One process at a time has it. Copied */

    /* At least EP_SPOOL_MEMORY_MIN bytes, not fewer than in runs before: a message that is larger cannot be put or
     * read. EP_SPOOL_MEMORY suits EP_MEMORY_DEFAULT; else a quarter of ep_config.memory_size more than the least. Both
     * stay the spool's while the profiler runs and until ep_spool_start() is called again. */
    void *memory;
    size_t memory_size;

    uint64_t cap_bytes;      /* most on the disk; at least 16 times memory_size, at most 1 GiB; default 16 MiB */
    uint32_t sync_ms;        /* longest that messages wait in memory while the link is down; default 60000 */
    uint32_t link_share_pct; /* of the time that sending what was spooled may take, 1..100; default 25 */
    uint32_t old_ms; /* what is older and refused counts as EP_LOSS_TOO_OLD; default: pprof 1 hour, compact none */
};
#define EP_SPOOL_MEMORY_MIN (16 * 1024)
#define EP_SPOOL_MEMORY     (48 * 1024)

/* From the next ep_start() on there is a spool; NULL: there is none. A program that does not call it does not link it.
 * What is wrong with the disk is no error here: ep_stats.spool_error says so, and all goes on in memory. A forked child
 * has no spool until it calls this.
 * Returns 0; -EALREADY: the profiler runs; -EINVAL: a field is out of range (ep_start_error()). Context: init. */
int ep_spool_start(const struct ep_spool_config *config);

/* Reads EDGEPROF_SPOOL (a directory) and EDGEPROF_SPOOL_BYTES into dir and cap_bytes where they are zero. Returns 1 if
 * there is a directory then, 0 if not, -EINVAL: a variable makes no sense (ep_start_error()). Context: init. */
int ep_spool_from_env(struct ep_spool_config *config);

/* Fills *stats; after ep_stop() with the figures of the run that ended.
 * Returns 0, or -ESRCH when nothing has ever been started. Context: any thread. */
int ep_stats_get(struct ep_stats *stats);

/* Ends the interval now: what was measured is encoded and handed to the deliver thread without waiting for it.
 * Returns 0 or -ESRCH. Context: any thread. */
int ep_flush(void);

/* With EP_MANUAL: the work of the two threads as functions, to be called at least every 100 ms. Never blocks /
 * may block until deadline_ms from now. Return 0, -ESRCH, or (deliver) the transport's error.
 * Context: collect / deliver. */
int ep_collect(void);
int ep_deliver(uint32_t deadline_ms);

/* Changes at run time. The next interval begins at once. Return 0, -EINVAL or -ESRCH. Context: any thread. */
int ep_level_set(enum ep_level level);          /* its rate and its kinds */
int ep_kinds_set(uint32_t kinds);               /* EP_KIND_BIT()s */
int ep_kinds_change(uint32_t on, uint32_t off); /* the same, one by one */
enum ep_level ep_level_get(void);               /* EP_LEVEL_DEFAULT when none runs */
uint32_t ep_kinds_get(void);                    /* 0 when none runs */

/* Asks for a stack of every thread, as EP_KIND_THREAD, whatever kinds are on: one of each, with its name as a label, in
 * one profile, within an interval. The collect thread takes them and disturbs nobody: of a thread in a wait that was
 * announced (below) from a copy of its stack, of one that sleeps in the kernel likewise, as far as it can be walked
 * without its frame pointer, of one that runs with its next CPU sample. Threads whose stack cannot be had are there as
 * [no stack]. 0 or -ESRCH. Context: any thread. */
int ep_threads_dump(void);

/* The control endpoint: levels, kinds and statistics over HTTP, for curl and for tools on the device. Off unless this
 * is called; a program that does not call it does not link it. where: a path (a unix socket, for the program's user
 * alone) or a number (a port of 127.0.0.1). token: requests must carry it as "Authorization: Bearer TOKEN"; a port
 * needs one of at least 16 characters. where NULL: as EDGEPROF_CONTROL and EDGEPROF_CONTROL_TOKEN say, which may say
 * nothing. Both must stay valid until ep_control_stop(). Goes on over ep_stop() and ep_start().
 * Returns 1 when it listens; 0: nobody asked; -EINVAL: neither a path nor a port, or a port without a good token;
 * -EALREADY; else what the system said. Context: init. */
int ep_control_start(const char *where, const char *token);
/* Returns 0, or -ESRCH when there is none. Context: init. */
int ep_control_stop(void);

struct ep_pull_config {
    /* All that the endpoint will ever need, EP_PULL_MEMORY_MIN bytes at least, any alignment: requests, and profiles of
     * its own. More makes these larger. Must stay valid until ep_pull_stop(). */
    void *memory;
    size_t memory_size;
    /* "port" (of 127.0.0.1), "address:port", "[IPv6 address]:port". NULL: as EDGEPROF_PULL and EDGEPROF_PULL_TOKEN say,
     * which may say nothing. */
    const char *where;
    /* Requests must carry it, as "Authorization: Bearer TOKEN" or as a password ("http://any:TOKEN@host/..."). An
     * address other than loopback needs one of at least 16 characters; /control does so everywhere. */
    const char *token;
};

/* The pull endpoint: profiles when somebody asks, over HTTP, as Go programs have them: /debug/pprof/ for go tool pprof,
 * Parca and curl; and /metrics for Prometheus. Off unless this is called; a program that does not call it does not link
 * it. What is pulled is told from memory of its own and missing nowhere else; without an endpoint in ep_config it is
 * all that is told. `where` and `token` must stay valid until ep_pull_stop(). Goes on over ep_stop() and ep_start().
 * Returns 1 when it listens; 0: nobody asked; -EINVAL: no address and port, or one that needs a (longer) token;
 * -ENOMEM: memory_size is too small; -EALREADY; else what the system said. Context: init. */
int ep_pull_start(const struct ep_pull_config *config);
/* Returns 0, or -ESRCH when there is none. Context: init. */
int ep_pull_stop(void);

/* ---- what a thread is doing ---- */

/* Classes of waiting. Each shows as a frame of its own at the leaf. */
enum ep_wait {
    EP_WAIT_OTHER = 0,   /* [wait] */
    EP_WAIT_LOCK = 1,    /* [lock]; also EP_KIND_LOCK */
    EP_WAIT_SLEEP = 2,   /* [sleep] */
    EP_WAIT_NETWORK = 3, /* [network] */
    EP_WAIT_DISK = 4,    /* [disk] */
    EP_WAIT_IDLE = 5,    /* [idle]: a worker without work; left out unless EP_IDLE_WAITS */
    EP_WAITS = 6
};

/* Brackets a call that blocks. Nests; only the outermost pair counts. The function that calls begin must not return
 * before end. Costs two clock reads and little more, does not block, does not allocate. errno is kept.
 * Context: signal. */
void ep_wait_begin(enum ep_wait wait);
void ep_wait_end(void);
/* Not by a jump, as the last call of a function may be: its frame is where the wait's stack begins. */
#define ep_wait_end()                                                                                                  \
    do {                                                                                                               \
        (ep_wait_end)();                                                                                               \
        __asm__ volatile("" ::: "memory");                                                                             \
    } while (0)

/* Everything that is measured on this thread from here to the matching pop carries the label key=value; the inner one
 * of two with the same key counts. Keys match [a-zA-Z_][a-zA-Z0-9_]*. Both strings are copied the first time they are
 * seen, into a fixed table: values beyond EP_TAG_VALUES a key become "other", counted as EP_LOSS_TAGS. Returns 0, or
 * -EINVAL for a bad key; a pop belongs to it in either case. Context: any thread. */
int ep_tag_push(const char *key, const char *value);
void ep_tag_pop(void);

/* The span that this thread works for, in whatever way the service makes its ids; all zero: none. Samples of every kind
 * carry it. Context: any thread. */
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
