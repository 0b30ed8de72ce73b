/* See budget.h. */
#include "tools/lib/budget.h"
#include "tools/lib/time_text.h"

#include <errno.h>
#include <stdio.h>

void et_budget_begin(struct et_budget *budget, int64_t time_ns, size_t bytes)
{
    *budget = (struct et_budget){
        .deadline_ns = time_ns ? et_monotonic() + time_ns : 0,
        .allowed_ns = time_ns,
        .limit = bytes,
    };
}

int et_budget_check(struct et_budget *budget)
{
    if (budget && !budget->failed && budget->deadline_ns && et_monotonic() > budget->deadline_ns) {
        budget->failed = -ETIME;
    }
    return budget ? budget->failed : 0;
}

int et_budget_hold(struct et_budget *budget, size_t *held, size_t bytes)
{
    if (budget) {
        budget->used += bytes - *held;
        if (!budget->failed && budget->limit && budget->used > budget->limit) {
            budget->failed = -ENOMEM;
        }
    }
    *held = bytes;
    return budget ? budget->failed : 0;
}

void et_budget_why(const struct et_budget *budget, char *line, size_t size)
{
    if (budget->failed == -ENOMEM) {
        snprintf(line, size,
                 "the query needs more than %zu bytes of memory, see query-memory in [limits]; ask for a shorter time"
                 " or fewer series",
                 budget->limit);
    } else {
        snprintf(line, size,
                 "the query takes longer than %lld s, see query-time in [limits]; ask for a shorter time or fewer"
                 " series",
                 (long long)(budget->allowed_ns / 1000000000));
    }
}
