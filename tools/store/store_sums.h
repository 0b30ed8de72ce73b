/* The state of loading a profile, and its sums by (node, labels). */
#ifndef ET_STORE_SUMS_H
#define ET_STORE_SUMS_H

#include "tools/store/store_dictionary.h"
#include "tools/store/store_damage.h"
#include "tools/store/store_rows.h"

/* A stored label set as the query sees it. */
struct query_label_set {
    uint32_t sum;  /* index into the profile's label_sums */
    uint32_t pair; /* index of its labels and group */
    bool wanted;
};

struct sum_pair {
    uint64_t value, count;
};

/* The labels of entries, and the group frame above them. */
struct label_group {
    uint32_t labels, group;
    struct sum_pair **pages; /* of PAGE_NODES each; NULL: none */
};

struct profile_loader {
    struct et_store *store;
    const struct et_query *query;
    struct et_profile *profile;
    const struct et_kind *kind; /* NULL: not in kinds.h */
    bool ids;                   /* the query distinguishes spans or traces */
    struct et_selection selection;
    const struct et_series *series; /* of the current row */
    struct et_buf inflated;
    struct label_group *pairs;
    size_t pair_count, pair_capacity, direct_bytes;
    struct et_map pair_index; /* labels << 32 | group -> pair + 1 */
    struct et_sum *sums;      /* outside the arrays, each (node, labels, group) once */
    size_t count, capacity;
    uint32_t *slots; /* hash table of the sums: index + 1 */
    size_t slot_count;
    struct et_map texts;   /* labels in the database -> string number + 1 */
    struct et_map by_text; /* string number -> index into label_sums + 1 */
    struct et_map latest;  /* series -> middle of its last interval */
    struct et_map origins; /* that have a row in the result */
    struct query_label_set *seen;
    size_t seen_count, seen_capacity;
    struct et_map known;  /* series << 32 | labels -> seen + 1 */
    uint32_t *label_sets; /* of the current row: number -> seen */
    size_t label_set_count, label_set_capacity;
    size_t held;                   /* bytes counted in the database's budget */
    bool began;                    /* this query began the read transaction */
    struct et_damage_check *check; /* NULL: none */
    struct et_map *beyond;         /* rows left out, see struct et_total; NULL: one row is no sum */
    struct et_total total;
    struct sum_pair row_sum;  /* of the last row, in units, not negated */
    bool one_row;             /* whose stacks need no table to be found again */
    struct sum_pair left_out; /* stacks that were excluded by their labels */
    int err;
};

/* Adds the row's stacks. Its label sets are in `label_sets`. Returns 0, or -EIO for malformed bytes or another
 * sum than the row's; some are added then. */
int et_sums_add(struct profile_loader *s, const struct et_row *row, struct et_blob stacks);
/* After the last row: moves sums from pages to the list, then removes zeros, which a difference may leave. */
void et_sums_collect_pages(struct profile_loader *s);
void et_sums_remove_zeros(struct profile_loader *s);
void et_sums_free(struct profile_loader *s);

#endif
