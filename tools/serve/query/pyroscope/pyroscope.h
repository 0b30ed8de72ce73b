/*
 * Common parts of the routes for Pyroscope's clients: queries to the store, profile types, labels. routes_render.c and
 * routes_querier.c write the answers.
 */
#ifndef ET_PYROSCOPE_H
#define ET_PYROSCOPE_H

#include "tools/formats/flamebearer.h"
#include "tools/serve/http/http.h"
#include "tools/serve/query/pyroscope/query_text.h"

/* The symbolized profile of matching stacks. et_profile_free() it. NULL: the answer has the error. */
struct et_profile *et_pyroscope_profile(struct et_server *server, const struct et_query *query,
                                        struct et_answer *answer);

/* Sums over time. False: the answer has the error. */
bool et_pyroscope_timeline(struct et_server *server, const struct et_query *query, int64_t step_ns,
                           struct et_timeline *out, struct et_answer *answer);

/* The type of a profile's shown measure. et_type_free() it. */
void et_pyroscope_type(const struct et_profile *profile, struct et_type *type);

/* Sorted lists without duplicates. et_strings_free() the result; number 0 is "" and not an element. False: the answer
 * has the error. Selectors are alternatives; no selector selects everything. */
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
};

bool et_pyroscope_list(struct et_server *server, enum et_listing what, const struct et_listed *of,
                       struct et_strings *out, struct et_answer *answer);

#endif
