/*
 * A memory budget shared by many threads. Each thread reserves the most it may need, releases what it does not use, and
 * waits or gives up when nothing is left. So a hundred requests that inflate from a few KiB to 32 MiB are decoded one
 * after the other.
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

/* The memory reserved by one thread. Zeroed: none. */
struct et_memory_share {
    struct et_memory_budget *budget;
    size_t bytes;
};

void et_memory_budget_init(struct et_memory_budget *budget, size_t size);
void et_memory_budget_destroy(struct et_memory_budget *budget);

/* Reserves more bytes. False: not available; nothing is reserved. */
bool et_memory_try_reserve(struct et_memory_budget *budget, struct et_memory_share *share, size_t more);
/* Reserves the bytes at once, and waits for them; at most the whole budget. The share must be empty: threads that hold
 * memory while they wait could deadlock. */
void et_memory_reserve(struct et_memory_budget *budget, struct et_memory_share *share, size_t bytes);
/* Releases all but `bytes`. */
void et_memory_shrink(struct et_memory_share *share, size_t bytes);

#endif
