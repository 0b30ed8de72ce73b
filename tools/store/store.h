/*
 * Where profiles are kept: one SQLite file in WAL mode. Modules, frames and stack nodes are stored once; a profile is
 * a list of (node, value).
 *
 * Functions that return int or int64_t give a negative errno value on failure: -ENOSPC disk full, -EBUSY somebody else
 * writes, -EIO anything else; et_store_why() has SQLite's words. Writing happens between et_store_begin() and
 * et_store_end(); a failed step makes et_store_end() take everything back.
 *
 * A store is used by one thread at a time. Several may be open on one file.
 */
#ifndef ET_STORE_H
#define ET_STORE_H

#include "tools/profile/profile.h"
#include "tools/lib/selector.h"
#include "tools/formats/compact.h"

struct et_store;

/* Opens path, ":memory:" for none; create: make it when it is not there. NULL: failed, *why (static or freed by the
 * next call) says how. */
struct et_store *et_store_open(const char *path, bool create, const char **why);
void et_store_close(struct et_store *store);
const char *et_store_why(const struct et_store *store);

int et_store_begin(struct et_store *store);
/* commit: keep what was written since begin, unless a step has failed. Returns 0 or that step's error. */
int et_store_end(struct et_store *store, bool commit);

/* What begins and ends between these two is one transaction: what fails is undone alone, the rest is kept when
 * group_end returns 0, and nothing at all when it returns an error. SQLite may give up all of it earlier: every step
 * fails then. */
int et_store_group_begin(struct et_store *store);
int et_store_group_end(struct et_store *store);

/* Look up or add; return the id, > 0. */
int64_t et_store_module(struct et_store *store, const char *build_id, const char *path);
int64_t et_store_frame(struct et_store *store, int64_t module, uint64_t address, const char *name, const char *file,
                       uint32_t line);
int64_t et_store_node(struct et_store *store, int64_t parent, int64_t frame);

/* Who sent a profile. Strings are clean (et_clean). tags: "key=value" lines, sorted, '\n' after each. */
struct et_origin {
    const char *service, *tags, *host, *boot_id, *executable, *arch, *agent;
    uint32_t pid;
    uint64_t process_start_ns;
};

int64_t et_store_origin(struct et_store *store, const struct et_origin *origin);
/* The same with the tag undated=true. */
int64_t et_store_origin_undated(struct et_store *store, int64_t origin);
/* Running totals of an origin, an encoded edgeprof.v1.Stats. */
int et_store_stats(struct et_store *store, int64_t origin, const void *stats, size_t size);

/* Notes that a profile of a kind that is not known here was left out. */
int et_store_skipped(struct et_store *store, int64_t origin);

/* What may be learnt; NULL, as at first: all. The store's user looks at it before he writes. */
struct et_bounds;
void et_store_set_bounds(struct et_store *store, struct et_bounds *bounds);
struct et_bounds *et_store_bounds(const struct et_store *store);

/* Looks up or adds lines of labels (labels.h); the id, 0 for "". */
int64_t et_store_labels(struct et_store *store, const char *lines);

/* What a stack was measured with. Zeroed: nothing. */
struct et_stored_context {
    int64_t labels; /* et_store_labels() */
    uint64_t span_id, trace_high, trace_low;
};

enum et_column { ET_COLUMN_VALUE = 1, ET_COLUMN_COUNT = 2, ET_COLUMN_CONTEXT = 4 };

struct et_stack {
    int64_t node;
    uint64_t value, count; /* value in quanta */
    struct et_stored_context context;
};

/* A profile's stacks on their way to the store. Set columns first, the rest is zeroed. */
struct et_stacks {
    uint8_t columns;         /* enum et_column: which figures are kept */
    struct et_buf column[4]; /* node, value, count, context: see store_pack.h */
    struct et_buf contexts;
    struct et_strings known; /* contexts */
    int64_t last_node;
};

void et_stacks_add(struct et_stacks *stacks, const struct et_stack *stack);
void et_stacks_free(struct et_stacks *stacks);

struct et_stored {
    int64_t origin;
    const char *kind, *unit;
    int64_t start_ns, end_ns; /* unix time */
    uint64_t period, samples, quantum;
    struct et_stacks stacks;
};

int et_store_profile(struct et_store *store, const struct et_stored *stored);

/* What is known of a segment. */
struct et_segment_row {
    int64_t origin;
    uint32_t next_sequence;
    bool ended;
};

/* 1: *row is filled; 0: never heard of; or an error. */
int et_store_segment(struct et_store *store, uint64_t segment, struct et_segment_row *row);
int et_store_segment_put(struct et_store *store, uint64_t segment, const struct et_segment_row *row, int64_t now_ns);
/* Dictionary of a segment: what messages before that one have added, in order. NULL: failed. It is the store's own;
 * whoever writes adds to it what et_store_segment_add() keeps, until the transaction ends, and not after _drop(). */
struct et_segment *et_store_segment_open(struct et_store *store, uint64_t segment, uint32_t sequence);
int et_store_segment_add(struct et_store *store, uint64_t segment, uint32_t sequence,
                         const struct et_segment *segment_now, struct et_segment_mark before);

/* Forgets the dictionary of a segment that has ended. */
int et_store_segment_drop(struct et_store *store, uint64_t segment);

/* ---- reading ---- */

struct et_query {
    const char *service; /* NULL or "": every service */
    const char *kind;    /* NULL or "": "cpu", else whatever there is first */
    int64_t from_ns, to_ns;
    /* All must match: a stack's label, or else its process' tag, service or host. */
    const struct et_matcher *matchers;
    size_t matcher_count;
    const char *group; /* stacks stand under a frame for the value of this label; NULL: they do not */
    enum et_measure measure;
    bool keep_labels; /* entries have their labels; else they are merged */
};

/* Merges what matches. 0 and *out, which has no values when nothing matched. Of a kind that is a level, what each
 * process had at last; the sum of CPU time and waits for ET_WALL, where nobody has sent wall time itself. */
int et_store_load(struct et_store *store, const struct et_query *query, struct et_profile **out);

/* Calls row() for each (service, kind), newest first. */
struct et_service_row {
    const char *service, *kind, *unit;
    int64_t first_ns, last_ns, profiles;
};
int et_store_services(struct et_store *store, void (*row)(void *context, const struct et_service_row *row),
                      void *context);

/* The service that a query means: its own, or the only one there is, "" in an empty store, or when a matcher chooses
 * services. Appends it to *service. -EINVAL: there are several; *service lists them instead. */
int et_store_choose(struct et_store *store, const struct et_query *query, struct et_buf *service);

/* Calls row() for each different set of tags of a service. */
int et_store_tagsets(struct et_store *store, const char *service, void (*row)(void *context, const char *tags),
                     void *context);

/* Calls row() for each set of tags of each service; for all lines of labels. */
int et_store_all_tags(struct et_store *store, void (*row)(void *context, const char *service, const char *tags),
                      void *context);
int et_store_all_labels(struct et_store *store, void (*row)(void *context, const char *lines), void *context);

/* Calls row() for each origin that matches and has stats or profiles in the range, newest first. */
struct et_origin_row {
    struct et_origin origin;
    int64_t first_ns, last_ns; /* first: without levels; where there is nothing else their last interval */
    int64_t profiles;          /* and samples: without those of levels */
    int64_t skipped;           /* profiles of unknown kinds, ever */
    uint64_t samples;
    const void *stats;
    size_t stats_size;
};
int et_store_origins(struct et_store *store, const struct et_query *query,
                     void (*row)(void *context, const struct et_origin_row *row), void *context);

/* Calls row() for each (service, tags, host, kind) with profiles that match and overlap the range, sorted, each once.
 * At most ET_LISTED. A matcher that only labels of stacks satisfy is taken as satisfied when any stack of the process
 * and kind ever had a label of that name. */
struct et_series_row {
    const char *service, *tags, *host, *kind, *unit;
};
int et_store_series_list(struct et_store *store, const struct et_query *query,
                         void (*row)(void *context, const struct et_series_row *row), void *context);

/* Names of labels: tags of processes, labels of stacks, service_name, host; sorted, each once, at most ET_LISTED. Of
 * series that match, as above. query->kind NULL or "": any kind. span_id and trace_id are not listed. */
enum { ET_LISTED = 10000 };
int et_store_label_names(struct et_store *store, const struct et_query *query,
                         void (*name)(void *context, const char *name), void *context);
/* The same for the values of one of them; "" is not listed. */
int et_store_label_values(struct et_store *store, const struct et_query *query, const char *name,
                          void (*value)(void *context, const char *value), void *context);

/* ---- over time ---- */

/* Sums per step. Line i is that of the label value names[i] of query->group, of stacks that have none "", of all
 * stacks when nothing is grouped. Most lines are ET_TIMELINE_LINES, largest first; what is left of the others is the
 * last, called "[others]". */
enum { ET_TIMELINE_STEPS = 11000, ET_TIMELINE_LINES = 100 };
struct et_timeline {
    int64_t from_ns, step_ns; /* step i is [from + i * step, from + (i + 1) * step) */
    size_t steps;
    char *kind, *unit; /* of what is shown, as query->measure says */
    enum et_measure measure;
    struct et_timeline_line {
        char *name;
        uint64_t total, *sums; /* steps of them */
    } * lines;
    size_t line_count;
};

/* Sums of what matches in steps from query->from_ns until query->to_ns. A profile belongs to the step that its middle
 * is in; what was merged so far that its time is longer than a step, to that of its bucket's middle. Of a level, what
 * each process had at last in a step. Reads no stacks unless a matcher or the group asks for their labels. 0 and *out,
 * which et_timeline_free() frees; -EINVAL: step_ns < 1, more than ET_TIMELINE_STEPS, or a range that is none. */
int et_store_series(struct et_store *store, const struct et_query *query, int64_t step_ns, struct et_timeline *out);
void et_timeline_free(struct et_timeline *timeline);

/* The first profile that came after the one with id `after` (0: the first at all), as it came, with all its labels and
 * ids of spans. 1: *out is filled, its strings belong to its profile, which et_profile_free() frees; 0: there is none.
 */
struct et_arrival {
    int64_t id;
    struct et_origin origin;
    struct et_profile *profile;
};
int et_store_next(struct et_store *store, int64_t after, struct et_arrival *out);

/* ---- sums that only grow ---- */

#define ET_METRIC_LOSS  "loss/"  /* and the reason's number: count, and weight in ns as value */
#define ET_METRIC_OTHER "_other" /* the service of what there was no room for */

struct et_counted {
    uint64_t value, count, profiles;
    int64_t last_ns; /* end of the latest profile, unix time */
};

struct et_metric {
    const char *service, *version, *device; /* device: the tag, or the host */
    const char *kind;
    struct et_counted sum;
};

/* Adds to the sums of an origin's service, version and device. In a transaction; 0 or an error. */
int et_store_count(struct et_store *store, int64_t origin, const char *kind, const struct et_counted *more);
/* The same of the losses in stats that are about to replace the origin's; et_store_stats() does it. */
int et_store_count_losses(struct et_store *store, int64_t origin, const void *stats, size_t size);
/* Calls metric() for each, by service, version, device and kind. */
int et_store_metrics(struct et_store *store, void (*metric)(void *context, const struct et_metric *metric),
                     void *context);

/* ---- who it is passed on to ---- */

/* How far a destination of the relay has come, and what became of its profiles; lost: too old for the receiver, or gone
 * before they were sent. */
struct et_relay_mark {
    int64_t cursor; /* id of the last profile that it is done with */
    uint64_t sent, refused, lost;
};

/* 1: *out is filled; 0: never heard of; or an error. */
int et_store_relay_get(struct et_store *store, const char *name, struct et_relay_mark *out);
/* Adds to all four; a new destination begins with them. */
int et_store_relay_add(struct et_store *store, const char *name, const struct et_relay_mark *moved);
/* From now on none is configured but those that are added to; their marks stay and hold nothing back. */
int et_store_relay_none(struct et_store *store);
/* The greatest id that a profile ever had, 0 when there was none, or an error. */
int64_t et_store_last(struct et_store *store);
/* How many came after that one, counted up to `most`. */
int64_t et_store_behind(struct et_store *store, int64_t cursor, int64_t most);

#endif
