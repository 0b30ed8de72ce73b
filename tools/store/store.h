/*
 * The database of profiles: one SQLite file in WAL mode. Modules, frames and stack nodes are stored once; a profile is
 * a list of (node, value).
 *
 * Functions that return int or int64_t return a negative errno value on failure: -ENOSPC disk full, -EBUSY another
 * writer, -EIO anything else; et_store_why() has SQLite's message. Write between et_store_begin() and et_store_end();
 * after a failed step et_store_end() rolls back.
 *
 * Context: one thread at a time per handle. Several handles may be open on one database.
 */
#ifndef ET_STORE_H
#define ET_STORE_H

#include "tools/profile/profile.h"
#include "tools/lib/budget.h"
#include "tools/lib/selector.h"
#include "tools/formats/compact.h"

/* A handle of a database. */
struct et_store;
struct et_query;

/* Opens path, or ":memory:". create: create a missing database. NULL: *why (static, or freed by the next call) says
 * what failed. */
struct et_store *et_store_open(const char *path, bool create, const char **why);
void et_store_close(struct et_store *store);
const char *et_store_why(const struct et_store *store);

int et_store_begin(struct et_store *store);
/* commit: keep what was written since begin, unless a step has failed. Returns 0 or that step's error. */
int et_store_end(struct et_store *store, bool commit);

/* All transactions between these two calls are one SQLite transaction. A failing part is undone alone.
 * et_store_group_end() returns 0 when the other parts were kept, or an error when nothing was. SQLite may abort the
 * transaction earlier; then every further step fails. */
int et_store_group_begin(struct et_store *store);
int et_store_group_end(struct et_store *store);

/* Look up or add; return the id, > 0. */
int64_t et_store_module(struct et_store *store, const char *build_id, const char *path);
int64_t et_store_frame(struct et_store *store, int64_t module, uint64_t address, const char *name, const char *file,
                       uint32_t line);
int64_t et_store_node(struct et_store *store, int64_t parent, int64_t frame);

/* The process that sent a profile. Strings are clean (et_clean). tags: "key=value" lines, sorted, '\n' after each. */
struct et_origin {
    const char *service, *tags, *host, *boot_id, *executable, *arch, *agent;
    uint32_t pid;
    uint64_t process_start_ns;
};

int64_t et_store_origin(struct et_store *store, const struct et_origin *origin);
/* The origin with the additional tag undated=true. */
int64_t et_store_origin_undated(struct et_store *store, int64_t origin);
/* Sets an origin's running totals, an encoded edgeprof.v1.Stats. */
int et_store_stats(struct et_store *store, int64_t origin, const void *stats, size_t size);

/* Counts a profile that was skipped because its kind is unknown. */
int et_store_skipped(struct et_store *store, int64_t origin);

/* Calls on the database fail with a message for the user when the budget is exceeded: -ETIME, -ENOMEM. What they return
 * counts until the budget ends; et_profile_memory() and et_timeline_memory() say how much of it the caller may give
 * back. NULL: no limit; this also ends what a failed call has left open. The caller keeps the budget. Context: the
 * handle's thread. */
void et_store_set_budget(struct et_store *store, struct et_budget *budget);
struct et_budget *et_store_budget(const struct et_store *store);
/* Counts bytes that the caller makes of what it read. Returns 0, or an error as a read does. */
int et_store_counts(struct et_store *store, size_t bytes);

/* Rows of the dictionary that stay in memory, shared by handles of one database that only read. A handle without them,
 * the default, reads what each profile needs. Free them after the handles. */
struct et_residents;
struct et_residents *et_residents_new(void);
void et_residents_free(struct et_residents *residents);
void et_store_set_residents(struct et_store *store, struct et_residents *residents);

/* Limits for new names; NULL, the default: unlimited. The database does not enforce them; its writers do. */
struct et_bounds;
void et_store_set_bounds(struct et_store *store, struct et_bounds *bounds);
struct et_bounds *et_store_bounds(const struct et_store *store);
/* The time by which the writer's content grows old (age.h). The caller keeps it. */
struct et_age;
void et_store_set_age(struct et_store *store, struct et_age *age);

/* Looks up or adds label lines (labels.h). Returns the id, 0 for "". */
int64_t et_store_labels(struct et_store *store, const char *lines);

/* The labels and ids of a stack. Zeroed: none. */
struct et_stored_label_set {
    int64_t labels; /* et_store_labels() */
    uint64_t span_id, trace_high, trace_low;
};

enum et_column { ET_COLUMN_VALUE = 1, ET_COLUMN_COUNT = 2, ET_COLUMN_LABEL_SET = 4 };

struct et_stack {
    int64_t node;
    uint64_t value, count; /* value in quanta */
    struct et_stored_label_set label_set;
};

/* A profile's stacks, packed for the database. Set columns first; the rest is zeroed. */
struct et_stacks {
    uint8_t columns;         /* enum et_column: columns to keep */
    struct et_buf column[4]; /* node, value, count, label set: see store_pack.h */
    struct et_buf label_sets;
    struct et_strings known; /* label sets */
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

/* Multiplies the values of the received profiles that the query selects by its service, kind and time, and their
 * period. -EBUSY: some are merged already, and nothing has changed. Call it between et_store_begin() and
 * et_store_end(). */
int et_store_scale(struct et_store *store, const struct et_query *query, double factor);

/* Of messages that are kept as they came, the newest so many stay, of so many bytes, so that a query can read them; of
 * one device's service so many of that, so that one that sends again and again leaves those of others. */
struct et_most {
    int64_t rows, bytes, rows_of_one, bytes_of_one;
};
/* Of incidents, what one may have is ten days of its own limits. */
extern const struct et_most et_crashes_most, et_incidents_most;

/* Stores a message that tells of a crash, for the origin. */
int et_store_crash(struct et_store *store, uint64_t segment, int64_t origin, int64_t now_ns, const void *message,
                   size_t size);

/* A part of an incident, as its message came. */
struct et_incident_row {
    int64_t id; /* only for et_store_incident_after() */
    uint64_t incident;
    uint32_t part;
    int64_t received_ns;
    const void *message;
    size_t size;
};
int et_store_incident(struct et_store *store, const struct et_incident_row *row, int64_t origin);

/* State of a segment. */
struct et_segment_row {
    int64_t origin;
    uint32_t next_sequence;
    bool ended;
};

/* Returns 1: *row is filled; 0: unknown segment; or an error. */
int et_store_segment(struct et_store *store, uint64_t segment, struct et_segment_row *row);
int et_store_segment_put(struct et_store *store, uint64_t segment, const struct et_segment_row *row, int64_t now_ns);
/* The dictionary of a segment: the additions of all messages before `sequence`, in order. NULL: failed. The database
 * owns it. Writers may extend it until the transaction ends by what et_store_segment_add() stores. Invalid after
 * _drop(). */
struct et_segment *et_store_segment_open(struct et_store *store, uint64_t segment, uint32_t sequence);
int et_store_segment_add(struct et_store *store, uint64_t segment, uint32_t sequence,
                         const struct et_segment *segment_now, struct et_segment_mark before);

/* Removes the dictionary of an ended segment. */
int et_store_segment_drop(struct et_store *store, uint64_t segment);

/* ---- reading ---- */

/* Calls for each crash that the query selects by service, tags, host and time of arrival, the newest first. Returns 0
 * or an error; -ECANCELED: call() returned false. */
int et_store_crashes(struct et_store *store, const struct et_query *query,
                     bool (*call)(void *context, int64_t received_ns, const void *message, size_t size), void *context);

/* Calls for each part that the query selects by service, tags and host: of that incident, in their order, and of
 * the first such sender if several chose one id; or, with incident 0, of all that arrived in the query's time, the
 * newest first. Returns as et_store_crashes(). */
int et_store_incidents(struct et_store *store, const struct et_query *query, uint64_t incident,
                       bool (*call)(void *context, const struct et_incident_row *row), void *context);
/* Id of the last row; 0: there is none. */
int64_t et_store_incident_last(struct et_store *store);
/* Calls for the first part of the first incident behind that id, if there is one. Returns 0 or an error. */
int et_store_incident_after(struct et_store *store, int64_t id,
                            bool (*call)(void *context, const struct et_incident_row *row), void *context);

struct et_query {
    const char *service; /* NULL or "": every service */
    const char *kind;    /* NULL or "": "cpu" if there is any, else another kind of the service */
    int64_t from_ns, to_ns;
    /* All must match a stack's label, or else its process's tag, service or host. */
    const struct et_matcher *matchers;
    size_t matcher_count;
    /* Labels (et_group_next()): each value, or each combination of values, becomes a frame above its stacks; NULL:
     * none. */
    const char *group;
    bool groups_only; /* et_api_profile(): no frames below those of the group */
    int64_t lead_ns;  /* et_store_series(): the first step also has profiles up to this long before from_ns */
    enum et_measure measure;
    bool keep_labels;   /* entries have their labels; else entries with different labels are merged */
    const int64_t *ids; /* et_store_load(): only received profiles with these ids, as long as they are not merged */
    size_t id_count;    /* 0: any */
    /* et_store_load(): only these processes (et_origin_row.id); each becomes a frame above its stacks, named by its id.
     * Replaces `group`. */
    const int64_t *processes;
    size_t process_count; /* 0: any, and no frames */
};

/* A stored row that cannot be used. */
struct et_damage {
    const char *what; /* "profile", "sum" (of profiles); NULL: a page or an index of the file */
    int64_t id;
    const char *service, *kind; /* "?": unknown */
    int64_t start_ns;
    const char *reason;
};
/* Checks the file and each stored profile with all that it refers to. *rows: how many. Returns 0, whatever it found,
 * or an error. Strings are valid during the call. */
int et_store_check(struct et_store *store, void (*found)(void *context, const struct et_damage *damage), void *context,
                   uint64_t *rows);
/* How many rows this program has found damaged and left out. */
uint64_t et_store_damaged(void);

/* Merges the matching profiles. Returns 0 and *out, which has no values when nothing matched. For a level kind, takes
 * the last value of each process. ET_WALL is the sum of CPU and wait time of a service whose senders send no wall time.
 */
int et_store_load(struct et_store *store, const struct et_query *query, struct et_profile **out);

/* Calls row() for each (service, kind), newest first. */
struct et_service_row {
    const char *service, *kind, *unit;
    int64_t first_ns, last_ns, profiles;
};
int et_store_services(struct et_store *store, void (*row)(void *context, const struct et_service_row *row),
                      void *context);

/* When the newest profile starts, Unix time; where only merged rows are left, the middle of the newest. 0: none; or an
 * error. */
int64_t et_store_newest(struct et_store *store);

/* Appends the service that the query selects to *service: its own, or the only one in the database; "" for an empty
 * store or when a matcher selects services. -EINVAL: there are several, and *service lists them. */
int et_store_choose(struct et_store *store, const struct et_query *query, struct et_buf *service);

/* Calls row() for each distinct tag set of a service. */
int et_store_tagsets(struct et_store *store, const char *service, void (*row)(void *context, const char *tags),
                     void *context);

/* Calls row() for the tags and service of each origin, or for each set of label lines. */
int et_store_all_tags(struct et_store *store, void (*row)(void *context, const char *service, const char *tags),
                      void *context);
int et_store_all_labels(struct et_store *store, void (*row)(void *context, const char *lines), void *context);

/* Calls row() for each matching origin with stats or profiles in the range, newest first. */
struct et_origin_row {
    int64_t id;
    struct et_origin origin;
    int64_t first_ns, last_ns; /* first: without level kinds; if there is nothing else, their last interval */
    int64_t profiles;          /* profiles and samples: without level kinds */
    int64_t skipped;           /* total of skipped profiles of unknown kinds */
    uint64_t samples;
    const void *stats;
    size_t stats_size;
};
int et_store_origins(struct et_store *store, const struct et_query *query,
                     void (*row)(void *context, const struct et_origin_row *row), void *context);

/* Calls change() where the CPU samples of a process became clearly more or fewer: by another level. The time is that of
 * the first profile; in long ranges of five minutes or an hour with it. Returns 0 or an error. */
struct et_rate_change {
    const char *tags, *host;
    int64_t at_ns;
    uint64_t before, after; /* ns of CPU time from sample to sample */
};
int et_store_rate_changes(struct et_store *store, const struct et_query *query,
                          void (*change)(void *context, const struct et_rate_change *change), void *context);

/* Sets the profile's ran_ns: how long the matching processes ran in the range, added. */
int et_store_ran(struct et_store *store, const struct et_query *query, struct et_profile *profile);

/*
 * Calls row() for each distinct (service, tags, host, kind) with matching profiles in the range, sorted; at most
 * ET_LISTED. A matcher for a stack label accepts a series when any stack of the process and kind had that label, unless
 * its profiles are deleted.
 */
struct et_series_row {
    const char *service, *tags, *host, *kind, *unit;
};
int et_store_series_list(struct et_store *store, const struct et_query *query,
                         void (*row)(void *context, const struct et_series_row *row), void *context);

/* Calls name() for each label name of matching series: process tags, stack labels, service_name, host; sorted,
 * distinct, at most ET_LISTED. query->kind NULL or "": any kind. Omits span_id and trace_id. */
enum { ET_LISTED = 10000 };
int et_store_label_names(struct et_store *store, const struct et_query *query,
                         void (*name)(void *context, const char *name), void *context);
/* Calls value() for each value of a label, in the same way; omits "". */
int et_store_label_values(struct et_store *store, const struct et_query *query, const char *name,
                          void (*value)(void *context, const char *value), void *context);

/* ---- over time ---- */

/* Sums per step. A line is for a value of the label query->group, of several labels for their values with line breaks
 * between them; "" for stacks without it, and for all stacks without a group. At most ET_TIMELINE_LINES lines, largest
 * first; if there are more, the last one, "[others]", sums the rest. */
enum { ET_TIMELINE_STEPS = 11000, ET_TIMELINE_LINES = 100 };
struct et_timeline {
    int64_t from_ns, step_ns; /* step i is [from + i * step, from + (i + 1) * step) */
    size_t steps;
    char *kind, *unit; /* of the measure query->measure */
    enum et_measure measure;
    struct et_timeline_line {
        char *name;
        uint64_t total, *sums; /* one per step */
    } * lines;
    size_t line_count;
};

/* Sums matching profiles in steps from query->from_ns to query->to_ns. A profile belongs to the step of its start; a
 * merged row longer than a step belongs to the step of its bucket's middle. For a level kind, takes each process's last
 * value in the step. Reads stacks only when a matcher or the group requires their labels. Returns 0 and *out, which
 * et_timeline_free() frees; -EINVAL: step_ns < 1, more than ET_TIMELINE_STEPS steps, or an empty range. */
int et_store_series(struct et_store *store, const struct et_query *query, int64_t step_ns, struct et_timeline *out);
void et_timeline_free(struct et_timeline *timeline);
size_t et_timeline_memory(const struct et_timeline *timeline); /* bytes */

/* Calls part() for the stacks with one set of labels of each matching profile; spans: for those with one span, and of
 * one trace. Merged rows count as profiles where finer ones are gone. */
struct et_part {
    int64_t at_ns;
    const char *labels; /* lines (labels.h): of the stacks, their process, service_name and host */
    uint64_t ids[3];    /* spans: span, trace */
    int64_t profile;    /* id of the received profile; 0: merged */
    uint64_t value;     /* of the measure query->measure */
};
int et_store_parts(struct et_store *store, const struct et_query *query, bool spans,
                   void (*part)(void *context, const struct et_part *part), void *context);

/* Calls row() for each received profile of the query, latest start first, without reading its stacks. Leaves out merged
 * ones. */
struct et_received_row {
    int64_t id, at_ns, start_ns; /* at_ns: the time that et_store_series() counts it at */
    const char *service, *tags, *host;
    uint64_t value, count; /* sums of all its stacks */
    bool partial;          /* the query may select only some of its stacks */
};
int et_store_received(struct et_store *store, const struct et_query *query,
                      void (*row)(void *context, const struct et_received_row *row), void *context);

/* The first unmerged profile with an id greater than `after`, with all labels and span ids. Returns 1: *out is filled,
 * its profile owns the strings and et_profile_free() frees it; 0: none; or an error. */
struct et_arrival {
    int64_t id;
    struct et_origin origin;
    struct et_profile *profile;
};
int et_store_next(struct et_store *store, int64_t after, struct et_arrival *out);

/* ---- counters ---- */

#define ET_METRIC_LOSS  "loss/"  /* followed by the reason's number: count, and weight in ns as value */
#define ET_METRIC_OTHER "_other" /* service for counts beyond the limit of sets */

struct et_counted {
    uint64_t value, count, profiles;
    int64_t last_ns; /* end of the latest profile, Unix time */
};

struct et_metric {
    const char *service, *version, *device; /* device: the tag, or the host */
    const char *labels;                     /* lines (labels.h) of the tags of et_store_set_metric_labels() */
    const char *kind;
    struct et_counted sum;
};

/* Tags that also distinguish counters from now on: "env, deployment.environment"; NULL: none. A tag is a label of the
 * same name, with '_' for characters that Prometheus does not take. Copied. */
void et_store_set_metric_labels(struct et_store *store, const char *names);
/* Adds to the counters of an origin's service, version, device and labels. At most 4,096 of these sets have counters of
 * their own; one line on stderr says when more count as ET_METRIC_OTHER. Call it in a transaction. Returns 0 or an
 * error. */
int et_store_count(struct et_store *store, int64_t origin, const char *kind, const struct et_counted *more);
/* Counts the losses in stats that will replace the origin's. et_store_stats() calls it. */
int et_store_count_losses(struct et_store *store, int64_t origin, const void *stats, size_t size);
/* Calls metric() for each counter, ordered by service, version, device, labels and kind. */
int et_store_metrics(struct et_store *store, void (*metric)(void *context, const struct et_metric *metric),
                     void *context);

/* ---- relay ---- */

/* Progress of a relay destination and the results of its profiles. lost: too old for the receiver, or deleted before
 * they were sent. */
struct et_relay_mark {
    int64_t cursor; /* id of the last finished profile */
    uint64_t sent, refused, lost;
};

/* Returns 1: *out is filled; 0: unknown destination; or an error. */
int et_store_relay_get(struct et_store *store, const char *name, struct et_relay_mark *out);
/* Adds to all four; creates a new destination. */
int et_store_relay_add(struct et_store *store, const char *name, const struct et_relay_mark *moved);
/* Marks all destinations as not configured until et_store_relay_add() is called for them. Unconfigured ones keep their
 * progress but do not delay deletion. */
int et_store_relay_none(struct et_store *store);
/* The greatest profile id ever used; 0: none; or an error. */
int64_t et_store_last(struct et_store *store);
/* Number of profiles after the cursor, counted up to `most`. */
int64_t et_store_behind(struct et_store *store, int64_t cursor, int64_t most);

#endif
