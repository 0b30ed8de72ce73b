/*
 * Sums by line: each belongs to an owner, a call of a tree or a function of a table, which the caller numbers. The
 * owner's line is its hottest one, so it does not depend on the order of the addresses.
 */
#ifndef ET_LINE_SUMS_H
#define ET_LINE_SUMS_H

#include "tools/lib/util.h"

struct et_line_sum {
    uint32_t owner;
    uint32_t file, line; /* string number, ""; 0: unknown */
    uint64_t self, total;
};

/* Zeroed: empty. */
struct et_line_sums {
    struct et_line_sum *sums;
    size_t count, capacity;
    struct et_map places; /* file << 32 | line -> number */
    struct et_map index;  /* owner << 32 | place -> sum + 1 */
};

/* Adds the figures to those of the same owner and line. */
void et_line_sums_add(struct et_line_sums *sums, const struct et_line_sum *more);

/* Whether a is the hotter line: the one with the larger total, then self, then the smaller number. A line whose number
 * is unknown is never hotter than a known one. */
bool et_line_is_hotter(const struct et_line_sum *a, const struct et_line_sum *b);

/* Sorts by owner, and the lines of an owner by heat, hottest first. Adding is not possible afterwards. */
void et_line_sums_sort(struct et_line_sums *sums);

void et_line_sums_free(struct et_line_sums *sums);

#endif
