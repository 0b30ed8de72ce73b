/*
 * The profiler: struct ep, and the rules for using it.
 *
 * struct ep is at the start of the caller's memory; layout.c divides the rest. Handlers use only members that are
 * atomic or written before the profiler is published. This room contains no other logic: it holds shared state, counts,
 * and keeps the memory valid for the threads that hold the profiler (running.c).
 */
#ifndef EP_STATE_PROFILER_H
#define EP_STATE_PROFILER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <edgeprof/options.h>
#include "core/profile/tree.h"
#include "core/sample/ring.h"
#include "core/sample/tags.h"
#include <edgeprof/edgeprof.h>
#include <edgeprof/hooks.h>
#include "core/unwind/unwind.h"
#include <edgeprof/port_calls.h>

#if EP_MAX_DEPTH < 8 || EP_MAX_DEPTH > 512
#error "EP_MAX_DEPTH must be 8..512"
#endif
#if EP_THREADS < 8 || EP_THREADS > 2048
#error "EP_THREADS must be 8..2048"
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
    atomic_uintptr_t work;         /* address of its struct ep_work, 0: not yet known */
    _Atomic uint64_t accounted_ns; /* its open wait is charged up to here */
    atomic_uintptr_t unwanted;     /* return address that marked its last wait as unwanted; 0: none */
};

/* The detail that was given up so far, the least important first. */
enum ep_detail { EP_DETAIL_ALL, EP_DETAIL_LABELS, EP_DETAIL_ADDRESSES, EP_DETAIL_FRAMES };

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
    EP_COUNT_EARLY,
    EP_COUNT_DEGRADED, /* + enum ep_detail - 1 */
    EP_COUNT_DEGRADED_LAST = EP_COUNT_DEGRADED + 2,
    EP_COUNT_TIMED,
    EP_COUNT_TIMED_FAULTS,
    EP_COUNT_SPOOL_DAMAGED,
    EP_COUNT_SPOOL_DAMAGED_BYTES,
    EP_COUNT_CLOCK_ERROR,
    EP_COUNT_UNANSWERED,
    EP_COUNT_THREADS, /* from here on 32 bits in struct ep_stats */
    EP_COUNT_TREE_NODES,
    EP_COUNTERS
};

/* One of the first threads of a reason; its name is read repeatedly until it ends. */
struct ep_unsampled_thread {
    atomic_uint tid; /* 0: none; UINT32_MAX: it has ended */
    _Atomic uint64_t name[2];
};

struct ep_unsampled_reason {
    atomic_int error;
    _Atomic uint64_t limit;
    struct ep_unsampled_thread thread[3];
};

/* A hook wakes the collect thread after this many events, so that a burst does not fill a large ring. */
#define EP_EVENTS_UNSEEN 64u

/* Which samples are timed, and what they took. */
struct ep_timing {
    atomic_uint to_time;    /* number of next samples to be timed */
    _Atomic uint64_t timed; /* number of timed samples (bits 0-15) and their total ns */
};

struct ep {
    struct ep_config config; /* strings point into `strings` */
    char strings[EP_STRINGS_BYTES];
    struct ep_identity identity;
    atomic_uint level;     /* enum ep_level */
    atomic_uint period_ns; /* of CPU samples, as set by level or rate */
    uint64_t interval_ns;
    uint32_t memory_used;
    unsigned threads; /* the number of places for threads: of waiter, and of the port's table */
    struct ep_waiter *waiter;
    atomic_uint waiters_to; /* places of waiter behind this one were never used */
    void *port_memory;
    uint64_t started_ns;

    /* signal path: what each sample reads is in one cache line */
    _Alignas(64) struct ep_ring ring;
    uint32_t run; /* identifies this run of the profiler; never 0 */
    atomic_uint rule_misses;
    atomic_uint cut_told; /* EP_CUT_TOLD | second in which a handler told of a cut stack; 0: not since a new module */
    atomic_bool parked;   /* the two threads are not started yet */
    atomic_bool threads_run; /* they were started: their end can be waited for */
    struct ep_timing timing;
    atomic_uint unseen;       /* events recorded since the ring was last drained */
    atomic_uint lost_samples; /* samples lost since the last round because the ring was full */
    _Atomic uint64_t lost_value[EP_KINDS];
    atomic_uint refused[EP_LOSS_REASONS]; /* threads that are not sampled, by reason */
    _Atomic uint64_t unsampled_ns;        /* modulo 2^64: may be negative for a while */
    _Atomic uint64_t owed_ns;             /* the same: residuals for which the ring had no room */

    /* the two threads, and what one has to know of the other */
    struct ep_event collect_event;
    struct ep_collect *collect;             /* core/collect/state.h */
    struct ep_deliver *deliver;             /* core/deliver/state.h */
    uint32_t period_applied_ns;             /* of CPU samples; written by the collect thread */
    atomic_bool encode_pending;             /* the interval has ended, but the outbox had no room */
    atomic_bool flush, stopping, collected; /* collected: stopping, and no message will follow */
    uint64_t resume_at_ns;                  /* uptime; parked threads start then at the latest */

    _Atomic uint64_t counter[EP_COUNTERS];
    _Atomic uint64_t kind_samples[EP_KINDS], kind_count[EP_KINDS], kind_value[EP_KINDS];
    _Atomic uint64_t lost_count[EP_LOSS_REASONS], lost_ns[EP_LOSS_REASONS];

    struct ep_unsampled_reason unsampled[EP_UNSAMPLED];

    /* Large members come last: access to members near the start takes shorter code. */
    struct ep_unwinder unwinder;
    struct ep_tags tags;
};

extern _Atomic(struct ep *) ep_current;

/* ep->run of the running profiler, 0 when none runs; readable without holding it. */
extern atomic_uint ep_run;

/* The running profiler or NULL, for edgeprof's own threads, start and stop. A thread of the service calls ep_hold()
 * instead and passes the pointer on. Context: init, collect, deliver. */
static inline struct ep *ep_running(void)
{
    return atomic_load_explicit(&ep_current, memory_order_acquire);
}

struct ep_sample;

/* Makes it the running profiler; NULL: none runs. Context: init, signal. */
void ep_publish(struct ep *ep);

/* For the child of a fork(): no profiler runs and no thread holds one. Context: init. */
void ep_running_forget(void);

/* True if a thread is between ep_hold() and ep_release(). Context: init. */
bool ep_held(void);
/* True if exactly one call of ep_hold() has had no ep_release() yet. Context: signal. */
bool ep_held_once(void);

/* Add to a counter, or to the losses of a reason. Context: any thread. */
void ep_count(struct ep *ep, enum ep_counter counter, uint64_t amount);
void ep_lose(struct ep *ep, enum ep_loss reason, uint64_t count, uint64_t weight_ns);

/* Adds a sample to a kind's totals: the events that it stands for, and their value. Context: collect. */
void ep_count_kind(struct ep *ep, enum ep_kind kind, uint64_t count, uint64_t value);

/* Returns how many samples the sums come from. A tree keeps events, not samples, so this divides the events of a kind
 * by the mean of this run; CPU samples are exact. A kind with events has at least one sample.
 * Context: collect, deliver. */
uint64_t ep_samples_of(const struct ep *ep, const struct ep_sums *sums);

/* Sets ep_start_error() to a, b and c joined, or to why; returns error. Context: init. */
int ep_complain(int error, const char *a, const char *b, const char *c);
int ep_refuse(int error, const char *why);

#define EP_KINDS_ALL ((EP_KIND_BIT(EP_KINDS) - 1) & ~1u)

#define EP_CUT_TOLD (1u << 31)

/* While threads are parked, after a sample: starts them if the ring is half full or a message is due. Context:
 * signal. */
void ep_parked_look(struct ep *ep);

/* Moves the memory to where it outlives the process (core/features/outlive), once. NULL: nothing does. The caller holds
 * the profiler. Context: signal. */
void ep_outlive_due(struct ep *ep) __attribute__((weak));

/* Starts parked threads. Returns 0, also if they run already, or a negative errno value. Context: signal. */
int ep_threads_resume(struct ep *ep);

/* Wakes the collect thread, and starts it if it is parked. Context: signal. */
void ep_collect_wake(struct ep *ep);

/* Number of samples that are timed while threads are parked: more than the ring holds. */
#define EP_PARKED_SAMPLES 4096u

/* Reads the first pair of "key=value,key=value". Returns the text behind it, NULL at the end or (*error) if it is
 * malformed. Context: any thread. */
struct ep_tag {
    const char *key, *value;
    unsigned key_size, value_size;
};
const char *ep_tag_next(const char *text, struct ep_tag *tag, bool *error);

/* The number of characters at the start of the text that form a key. Context: any thread. */
unsigned ep_tag_key_size(const char *text);

/* The name of a special frame, such as "[truncated]". Context: any thread. */
const char *ep_special_name(unsigned frame);

/* The index of a reason in the `unsampled` tables; EP_UNSAMPLED for any other reason. Context: any thread. */
unsigned ep_unsampled_index(unsigned reason);
/* Reads the unsampled threads' names again, and publishes their CPU time. Context: collect. */
void ep_unsampled_look(struct ep *ep);
/* Copies what is known about the reason at that index. Context: any thread. */
void ep_unsampled_read(struct ep *ep, unsigned index, struct ep_unsampled *unsampled);

#endif
