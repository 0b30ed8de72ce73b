/*
 * What the addresses that Pyroscope's clients ask have in common: querying the store for them, profile types that there
 * are, labels. The answers' forms are routes_render.c's and routes_querier.c's.
 */
#ifndef ET_PYROSCOPE_H
#define ET_PYROSCOPE_H

#include "tools/formats/flamebearer.h"
#include "tools/serve/http/http.h"
#include "tools/serve/query/pyroscope/query_text.h"

/* What matches, symbolized. et_profile_free() it; NULL: the answer is the error. */
struct et_profile *et_pyroscope_profile(struct et_server *server, const struct et_query *query,
                                        struct et_answer *answer);

/* Sums over time. false: the answer is the error. */
bool et_pyroscope_timeline(struct et_server *server, const struct et_query *query, int64_t step_ns,
                           struct et_timeline *out, struct et_answer *answer);

/* The type of what a profile shows; et_type_free() it. */
void et_pyroscope_type(const struct et_profile *profile, struct et_type *type);

/* Distinct lists, sorted. et_strings_free() it; number 0 is "" and belongs to none. false: the answer is the error.
 * Selectors are alternatives; none of them: everything. */
enum et_listing {
    ET_LIST_TYPES,  /* ids of profile types */
    ET_LIST_NAMES,  /* names of labels */
    ET_LIST_VALUES, /* values of the label `names[0]` */
    ET_LIST_SERIES, /* as lines of labels (labels.h) with the keys `names`, or all */
};

struct et_listed {
    char *const *selectors, *const *names;
    size_t selector_count, name_count;
    int64_t from_ns, to_ns;
};

bool et_pyroscope_list(struct et_server *server, enum et_listing what, const struct et_listed *of,
                       struct et_strings *out, struct et_answer *answer);

#endif
