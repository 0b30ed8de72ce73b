/*
 * Stored rows that cannot be read, for example after a bad block of the flash. Queries and merges leave them out;
 * standard error names each once in the life of the program.
 */
#ifndef ET_STORE_DAMAGE_H
#define ET_STORE_DAMAGE_H

#include "tools/store/store_rows.h"

/* Whether the row was noted by this connection. */
bool et_damage_known(const struct et_store *store, const struct et_row *row);
/* Notes it, and names it if it is new. Returns -EBADMSG. */
int et_damage_note(struct et_store *store, const struct et_row *row, const struct et_series *series,
                   const char *reason);

/* et_unpack() of a row's stacks. -EIO: malformed, or they do not add up to the row's sum of values. */
int et_row_unpack(struct et_unpacked *out, const struct et_row *row, struct et_blob stacks);
/* value: the sum of the row's stacks, in units. Returns 0 or -EIO. */
int et_row_sum_check(const struct et_row *row, uint64_t value);

/* The sum of rows, which stays below 2^63: a row that would take it there is left out, and named once. A sender's wrong
 * figures cause it, no honest ones. */
struct et_total {
    int64_t value, count;
};
/* False: the row is not added. value, count: its sums, in units. */
bool et_total_add(struct et_total *total, const struct et_row *row, uint64_t value, uint64_t count);
/* Notes the row in `beyond`, so that the next try leaves it out. Returns -EBADMSG. */
int et_total_note(struct et_map *beyond, const struct et_row *row, const struct et_series *series);
bool et_total_beyond(const struct et_map *beyond, const struct et_row *row);

/* Checks all that a row refers to. Zeroed but the database: it remembers what it has found. */
struct et_damage_check {
    struct et_store *store;
    struct et_map nodes, labels; /* that are there */
    struct et_unpacked unpacked;
};
/* Returns 1: the row is damaged, why[] says how; 0: it can be read; or an error of the database. */
int et_damage_find(struct et_damage_check *check, const struct et_row *row, char why[120]);
void et_damage_check_free(struct et_damage_check *check);

#endif
