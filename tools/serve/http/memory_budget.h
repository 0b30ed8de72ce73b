/*
 * Memory that many threads share. Each thread reserves the most that it may need, gives back what it does not use, and
 * waits or gives up when nothing is left. A hundred senders whose few KiB inflate to 32 MiB each are decoded one after
 * the other.
 */
#ifndef ET_MEMORY_BUDGET_H
#define ET_MEMORY_BUDGET_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

struct et_memory_budget {
    pthread_mutex_t lock;
    pthread_cond_t given_back;
    size_t left, size;
};

/* What one has taken. All 0: nothing. */
struct et_memory_share {
    struct et_memory_budget *budget;
    size_t bytes;
};

void et_memory_budget_init(struct et_memory_budget *budget, size_t size);
void et_memory_budget_destroy(struct et_memory_budget *budget);

/* Takes more, or nothing: false when it is not there. */
bool et_memory_try_reserve(struct et_memory_budget *budget, struct et_memory_share *share, size_t more);
/* Takes so much at once, waiting for it; more than there is altogether is all of it. The share must be empty: who
 * holds some while he waits could wait forever. */
void et_memory_reserve(struct et_memory_budget *budget, struct et_memory_share *share, size_t bytes);
/* Gives back all but so much. */
void et_memory_shrink(struct et_memory_share *share, size_t bytes);

#endif
