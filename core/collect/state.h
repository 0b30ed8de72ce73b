/*
 * The state of the collect thread. Other threads may read nothing of it while the profiler runs.
 */
#ifndef EP_COLLECT_STATE_H
#define EP_COLLECT_STATE_H

#include "core/profile/labels.h"
#include "core/profile/tree.h"
#include "core/sample/profiler.h"

/* The factor by which periods are longer than the level's, in 16ths. */
#define EP_STRETCH_NONE 16u
#define EP_STRETCH_MOST 1024u

/* Costs in 1024 ns of CPU time: of the process; of profiling, the part proportional to the number of samples, and
 * the other part; and, in 16ths, what the samples would have cost without stretch. Meters are the raw readings. */
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
    uint32_t stretch;                   /* in 16ths */
    uint64_t minute[EP_COSTS];          /* sums over about the last minute */
    uint64_t event_ns;                  /* mean cost of a sample in the handler or hook */
    unsigned untimed;                   /* records since to_time was last set */
    uint64_t events, drain_ns;          /* records taken from the ring, and the CPU time for that */
    uint64_t since_ns, seen[EP_METERS]; /* at the last measurement */
};

/* Events of kinds with a limit per second (core/collect/rates.c). */
enum { EP_RATE_ALLOC, EP_RATE_EXCEPTION, EP_RATE_WAIT, EP_RATE_WRITE, EP_RATE_SYNC, EP_RATES };

struct ep_rate {
    uint32_t distance; /* between samples, without stretch */
    uint32_t events;   /* in the current window; this and volume: of all events that distance has an effect on */
    uint32_t check_at; /* the number of events that is a burst's next check; 0: not yet known */
    uint64_t volume;
    uint64_t since_ns; /* begin of the window */
};

/* The outermost frames of the stack that was added last, and their nodes: the next stack often shares them. Whoever
 * changes ids of nodes or its detail sets depth to 0. */
#define EP_PATH_FRAMES 32u
struct ep_path {
    unsigned depth;   /* 0: none */
    unsigned end;     /* ep_record.end */
    unsigned modules; /* number of modules: an address may belong to a new one */
    uintptr_t pc[EP_PATH_FRAMES];
    uint16_t node[EP_PATH_FRAMES];
};

/* What the periods were last set from. */
struct ep_applied {
    uint32_t kinds, period_ns, stretch;
};

struct ep_collect {
    uint64_t frames, misses; /* not yet counted as rule hits: frames - misses */
    struct ep_tree tree;
    struct ep_labels labels;
    uint64_t interval_start_ns, interval_due_ns; /* start: of what is in the tree */
    uint64_t next_scan_ns, scan_pause_ns;
    unsigned detail, depth_limit; /* enum ep_detail, and of stacks; until the interval is encoded */
    bool interval_open;           /* for a converter: what is encoded now is not the interval's end */
    bool interval_promised;       /* likewise, what was encoded last */
    uint32_t timers_ns;           /* period of the port's timers; 0: no CPU samples */
    struct ep_applied applied;
    uint32_t kinds; /* enabled kinds; equals ep_hook_kinds until stop */
    int64_t residual_balance_ns;
    uint64_t segment;
    uint32_t sequence;
    unsigned nodes_declared; /* tree nodes already sent in this segment */
    unsigned module_hint;
    /* For a reader after the process's end: tree, labels and segment do not belong together, and where the ring's
     * oldest record is that is not in the tree. */
    atomic_uint unsettled; /* 0 or 1 */
    atomic_uint ring_tail;
    struct ep_path path;
    struct ep_governor governor;
    struct ep_rate rate[EP_RATES];
    uint32_t tags_declared[EP_TAG_SETS / 32 + 1]; /* tag sets already sent in this segment */
};

#endif
