/*
 * The face of core/state: struct ep, the profiler, and who may use it when.
 *
 * struct ep lies at the start of the caller's memory; layout.c carves the rest. What handlers touch is atomic or
 * written before it is published. This room has no logic of its own: it holds what several rooms read and write,
 * counts, and keeps the memory valid for those who hold the profiler (running.c).
 */
#ifndef EP_STATE_PROFILER_H
#define EP_STATE_PROFILER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/config.h"
#include "core/data/contexts.h"
#include "core/data/outbox.h"
#include "core/data/ring.h"
#include "core/data/tags.h"
#include "core/data/tree.h"
#include "core/edgeprof.h"
#include "core/hooks.h"
#include "core/unwind/unwind.h"
#include "port/port.h"
#include "transport/transport.h"

#if EP_MAX_DEPTH < 8 || EP_MAX_DEPTH > 512
#error "EP_MAX_DEPTH must be 8..512"
#endif
#if EP_MAX_THREADS < 4 || EP_MAX_THREADS > 4096
#error "EP_MAX_THREADS must be 4..4096"
#endif
#if EP_MAX_MODULES < 4 || EP_MAX_MODULES > 1024
#error "EP_MAX_MODULES must be 4..1024"
#endif
#if EP_RULE_CACHE < 64 || EP_RULE_CACHE > 65536 || (EP_RULE_CACHE & (EP_RULE_CACHE - 1)) != 0
#error "EP_RULE_CACHE must be a power of two, 64..65536"
#endif
#if EP_RULE_CACHE < 1024 && UINTPTR_MAX > 0xffffffffu
#error "EP_RULE_CACHE must be at least 1024 on 64 bits: the bits of an address that an entry keeps would not do"
#endif

/* A thread that has waited. */
struct ep_waiter {
    atomic_uint tid;               /* 0: free */
    atomic_uintptr_t work;         /* its struct ep_work, 0: not yet */
    _Atomic uint64_t accounted_ns; /* up to when its open wait is charged */
    atomic_uintptr_t unwanted;     /* the frame by which its last wait was of a class that nobody wants; 0: none */
};

enum ep_counter {
    EP_COUNT_SAMPLES,
    EP_COUNT_WEIGHT_NS,
    EP_COUNT_EXACT, /* + enum ep_quality */
    EP_COUNT_GAP,
    EP_COUNT_CUT,
    EP_COUNT_THREAD_EXIT_NS,
    EP_COUNT_RULE_HITS,
    EP_COUNT_RULE_MISSES,
    EP_COUNT_MESSAGES,
    EP_COUNT_MESSAGE_BYTES,
    EP_COUNT_DELIVERED,
    EP_COUNT_DELIVERED_BYTES,
    EP_COUNT_DELIVERY_FAILURES,
    EP_COUNT_INTERVALS_MERGED,
    EP_COUNT_COLLECT_CPU_NS,
    EP_COUNT_DELIVER_CPU_NS,
    EP_COUNT_WAKEUPS,
    EP_COUNT_HANDLER_NS,
    EP_COUNT_COST_PPM,
    EP_COUNT_STRETCH_PCT,
    EP_COUNT_STRETCHES,
    EP_COUNT_SPOOLED,
    EP_COUNT_REPLAYED,
    EP_COUNT_SPOOL_MESSAGES,
    EP_COUNT_SPOOL_BYTES,
    EP_COUNT_SPOOL_WRITTEN,
    EP_COUNT_SPOOL_ERROR,
    EP_COUNT_UNSAMPLED_NS,
    EP_COUNT_THREADS, /* from here on: 32 bits in struct ep_stats */
    EP_COUNT_TREE_NODES,
    EP_COUNTERS
};

/* One of the first of a reason; its name is looked at until it has ended. */
struct ep_unsampled_thread {
    atomic_uint tid; /* 0: none, UINT32_MAX: it has ended */
    _Atomic uint64_t name[2];
};

struct ep_unsampled_reason {
    atomic_int error;
    _Atomic uint64_t limit;
    struct ep_unsampled_thread thread[3];
};

/* How much longer periods are than the level's, in 16ths. */
#define EP_STRETCH_NONE 16u
#define EP_STRETCH_MOST 1024u

/* CPU time, in 1024 ns: the process'; of ours, what goes with the number of samples, and what does not; what the
 * samples would have cost unstretched, in 16ths. */
enum ep_meter {
    EP_METER_PROCESS,
    EP_METER_OWN,
    EP_METER_DRAIN,
    EP_METER_EVENTS,
    EP_METER_TICKS,
    EP_METER_HOOKS,
    EP_METERS
};
enum ep_cost { EP_COST_CPU, EP_COST_SAMPLES, EP_COST_OTHER, EP_COST_DEMAND, EP_COSTS };

struct ep_governor {
    atomic_uint to_time;                /* samples from now on that are to be timed */
    _Atomic uint64_t timed;             /* how many were (bits 0-15), ns of all */
    uint32_t stretch;                   /* 16ths; collect's, like all the rest */
    uint64_t minute[EP_COSTS];          /* sums over about that */
    uint64_t event_ns;                  /* of a sample, in the handler or hook */
    unsigned untimed;                   /* records since some were last told to be timed */
    uint64_t events, drain_ns;          /* records taken from the ring, and the time that took */
    uint64_t since_ns, seen[EP_METERS]; /* at the last measurement */
};

struct ep {
    struct ep_config config; /* strings point into `strings` */
    char strings[EP_STRINGS_BYTES];
    struct ep_identity identity;
    uint32_t run;          /* tells this run of the profiler from others; never 0 */
    atomic_uint level;     /* enum ep_level */
    atomic_uint period_ns; /* of CPU samples, as set by level or rate */
    uint64_t interval_ns;
    uint32_t memory_used;
    uint64_t started_ns;

    /* signal path */
    struct ep_ring ring;
    struct ep_governor governor;
    atomic_uint lost_samples; /* ring full, drained by collect */
    _Atomic uint64_t lost_value[EP_KINDS];
    atomic_uint refused[EP_LOSS_REASONS]; /* threads that are not sampled, by reason */
    _Atomic uint64_t unsampled_ns;        /* modulo 2^64: it may be below 0 for a while */
    atomic_uint rule_misses;

    /* collect */
    struct ep_event collect_event;
    uint64_t frames, misses; /* not yet told as rule hits: frames - misses */
    struct ep_tree tree;
    struct ep_contexts contexts;
    uint64_t interval_start_ns, next_scan_ns;
    uint32_t period_applied_ns; /* of CPU samples */
    uint32_t timers_ns;         /* the port samples with it; 0: not at all */
    uint32_t kinds;             /* that count; as ep_hook_kinds before stop */
    int64_t rest_balance_ns;
    uint64_t segment;
    uint32_t sequence;
    unsigned nodes_declared; /* nodes of the tree that the segment knows */
    unsigned module_hint;
    _Atomic(const struct ep_snapshot *) snapshot; /* NULL: nobody has asked for one yet */
    atomic_uint snapshot_asked;                   /* EP_SNAPSHOT_PUSH, _PULL */
    unsigned snapshot_for;                        /* likewise, of the one that is being taken */
    uint64_t snapshot_next_ns;                    /* when to look again; 0: none is being taken */
    atomic_bool encode_pending;                   /* the interval is over, but the outbox had no room */
    atomic_bool flush, stopping, collected;       /* collected: stopping, and nothing more will come */
    atomic_bool segment_stale;                    /* set by deliver */
    atomic_bool parked;                           /* the two threads wait to be needed */
    uint64_t resume_at_ns;                        /* uptime: when parked threads run at the latest */

    /* between them */
    struct ep_outbox outbox;
    _Atomic uint64_t lost_shown_ns[EP_SHOWN]; /* to be shown in the next profile */

    /* deliver */
    struct ep_event deliver_event;
    const struct ep_transport *transport;
    struct ep_target target;
    uint64_t backoff_ns;
    _Atomic uint64_t retry_at_ns;      /* stop resets it */
    _Atomic uint64_t stop_deadline_ns; /* 0: not stopping */
    _Atomic uint64_t stop_send_ns;     /* with a spool: until when messages may be sent then; stored before it */
    struct ep_deadline send_deadline;  /* of the message that is being sent */
    atomic_int last_error;

    _Atomic uint64_t counter[EP_COUNTERS];
    _Atomic uint64_t kind_count[EP_KINDS], kind_value[EP_KINDS];
    _Atomic uint64_t lost_count[EP_LOSS_REASONS], lost_ns[EP_LOSS_REASONS];

    struct ep_unsampled_reason unsampled[EP_UNSAMPLED];

    /* What is large, last: code for what is near the start is shorter. */
    struct ep_unwinder unwinder;
    struct ep_tags tags;
    struct ep_waiter waiter[EP_MAX_THREADS];
    uint32_t tags_declared[EP_TAG_SETS / 32 + 1]; /* the segment knows these sets */
    _Alignas(8) uint8_t transport_state[EP_TRANSPORT_BYTES];
    _Alignas(8) uint8_t port_memory[EP_PORT_BYTES];
};

extern _Atomic(struct ep *) ep_current;

/* ep->run of the running profiler, 0 when none runs: to be read without holding it. */
extern atomic_uint ep_run;

/* The running profiler or NULL. For edgeprof's own threads and for start and stop; a thread of the service holds it
 * (ep_hold) and hands the pointer on. Context: init, collect, deliver. */
static inline struct ep *ep_running(void)
{
    return atomic_load_explicit(&ep_current, memory_order_acquire);
}

/* What the collect thread does about waits: waits.c, which only those link whose waits are told. Context: collect. */
struct ep_waits {
    void (*charge)(struct ep *ep); /* waits that are still open, to the ring */
    /* Puts the class in place of EP_FRAME_BY_CALLER. False: to be left out. */
    bool (*classify)(struct ep *ep, const struct ep_record *record, unsigned first, unsigned *frame);
    void (*reconsider)(struct ep *ep); /* other kinds are on: what nobody wanted may be wanted now */
};
/* NULL: no thread has waited yet. */
extern _Atomic(const struct ep_waits *) ep_waits;
/* Implemented by core/collect; a program that never waits does not link it. */
extern const struct ep_waits ep_open_waits;

/* Makes it the running one. Context: init. */
void ep_publish(struct ep *ep);

/* In a child that fork() made: no profiler runs here and no thread holds one. Context: init. */
void ep_running_forget(void);

/* Whether a thread is between ep_hold and ep_release. Context: init. */
bool ep_held(void);

/* Between enter and leave the profiler's memory stays valid; enter returns NULL when none runs.
 * Context: signal. */
struct ep *ep_hold(void);
void ep_release(void);

/* Adds to a counter, or a loss by reason. Context: any thread. */
void ep_count(struct ep *ep, enum ep_counter counter, uint64_t amount);
void ep_lose(struct ep *ep, enum ep_loss reason, uint64_t count, uint64_t weight_ns);

/* Adds to a kind's totals. Context: collect. */
void ep_count_kind(struct ep *ep, enum ep_kind kind, uint64_t count, uint64_t value);

/* Sets ep_start_error() to a, b and c joined, or to why; returns error. Context: init. */
int ep_complain(int error, const char *a, const char *b, const char *c);
int ep_refuse(int error, const char *why);

#define EP_KINDS_ALL ((EP_KIND_BIT(EP_KINDS) - 1) & ~1u)

/* Whether parked threads are needed: the ring is nearly full, or a message is due. Context: signal. */
bool ep_threads_due(const struct ep *ep);

/* Lets them run; 0 as well when they do. Context: signal. */
int ep_threads_resume(struct ep *ep);

/* Wakes the collect thread; if it is parked, lets it run. Context: signal. */
void ep_collect_wake(struct ep *ep);

/* Samples that are timed while threads are parked: more than the ring holds. */
#define EP_PARKED_SAMPLES 4096u

/* Iterates "key=value,key=value". Returns the rest behind the pair, NULL at the end or (*error) when it is
 * malformed. Context: any thread. */
struct ep_tag {
    const char *key, *value;
    unsigned key_size, value_size;
};
const char *ep_tag_next(const char *text, struct ep_tag *tag, bool *error);

/* How many characters at the start of the text make a key. Context: any thread. */
unsigned ep_tag_key_size(const char *text);

/* Name of a special frame, "[truncated]". Context: any thread. */
const char *ep_special_name(unsigned frame);

/* Place of a reason in the tables below, EP_UNSAMPLED: threads are not sampled for other reasons. Context: any thread.
 */
unsigned ep_unsampled_index(unsigned reason);
/* Looks at the threads' names again, and at their CPU time. Context: collect. */
void ep_unsampled_look(struct ep *ep);
/* What is known of the reason at that place. Context: any thread. */
void ep_unsampled_read(struct ep *ep, unsigned index, struct ep_unsampled *unsampled);

#endif
