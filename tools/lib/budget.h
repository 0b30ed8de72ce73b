/*
 * Time and memory that one request may use. All reads of the request share the budget, so many small reads cost as much
 * as one large read. The first limit that is exceeded stays the reason.
 *
 * Context: the request's thread.
 */
#ifndef ET_BUDGET_H
#define ET_BUDGET_H

#include <stddef.h>
#include <stdint.h>

/* Zeroed: unlimited. */
struct et_budget {
    int64_t deadline_ns, allowed_ns; /* CLOCK_MONOTONIC, 0: none; and the time that the request had in all */
    size_t limit, used;              /* bytes; limit 0: none */
    int failed;                      /* 0, -ETIME or -ENOMEM */
};

/* The time begins now. time_ns, bytes: 0 for no limit. */
void et_budget_begin(struct et_budget *budget, int64_t time_ns, size_t bytes);

/* Returns 0, -ETIME or -ENOMEM. budget may be NULL. */
int et_budget_check(struct et_budget *budget);

/* *held: bytes that a holder has counted so far; becomes `bytes`. Returns as et_budget_check(); counts in any case. */
int et_budget_hold(struct et_budget *budget, size_t *held, size_t bytes);

/* One line about the exceeded limit. */
void et_budget_why(const struct et_budget *budget, char *line, size_t size);

#endif
