/*
 * Common parts of the routes for Pyroscope's clients: queries to the database, profile types, labels. routes_render.c
 * and routes_querier.c write the answers.
 */
#ifndef ET_PYROSCOPE_H
#define ET_PYROSCOPE_H

#include "tools/formats/flamebearer.h"
#include "tools/formats/pprof_read.h"
#include "tools/serve/http/http.h"
#include "tools/serve/query/pyroscope/query_text.h"

/* The symbolized profile of matching stacks. et_profile_free() it. NULL: the answer has the error. */
struct et_profile *et_pyroscope_profile(struct et_server *server, const struct et_request *request,
                                        const struct et_query *query, struct et_answer *answer);

/* Sums over time. Point i is at start_ms + i * step_ms, until end_ms, and has the profiles that start after the point
 * before it, in milliseconds; the first also has those that start one step earlier. Replaces the query's range. False:
 * the answer has the error. */
struct et_points {
    int64_t start_ms, end_ms, step_ms;
};
bool et_pyroscope_timeline(struct et_server *server, const struct et_request *request, const struct et_query *query,
                           const struct et_points *points, struct et_timeline *out, struct et_answer *answer);

/* The type of a profile's shown measure. et_type_free() it. */
void et_pyroscope_type(const struct et_profile *profile, struct et_type *type);

/* The profile as a pprof message, as Pyroscope answers it: one sample type, the end of the range as its time. Free it
 * with perftools__profiles__profile__free_unpacked(). */
et_pprof *et_pyroscope_pprof(const struct et_profile *profile, int64_t end_ns);

/* Appends the graph; max_nodes 0: 100 nodes. */
void et_pyroscope_dot(const struct et_profile *profile, int64_t end_ns, int64_t max_nodes, struct et_buf *out);

/* Sorted lists without duplicates. et_strings_free() the result; number 0 is "" and not an element. False: the answer
 * has the error. All selectors must match. */
enum et_listing {
    ET_LIST_TYPES,  /* ids of profile types */
    ET_LIST_NAMES,  /* names of labels */
    ET_LIST_VALUES, /* values of the label names[0] */
    ET_LIST_SERIES, /* label lines (labels.h) with the keys `names`, or all */
};

struct et_listed {
    char *const *selectors, *const *names;
    size_t selector_count, name_count;
    int64_t from_ns, to_ns;
    bool all_names; /* also names that Prometheus does not have */
    bool strict;    /* selectors are Prometheus' */
};

bool et_pyroscope_list(struct et_server *server, const struct et_request *request, enum et_listing what,
                       const struct et_listed *of, struct et_strings *out, struct et_answer *answer);

#endif
