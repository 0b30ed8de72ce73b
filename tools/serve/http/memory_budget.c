/* See memory_budget.h. */
#include "tools/serve/http/memory_budget.h"

void et_memory_budget_init(struct et_memory_budget *budget, size_t size)
{
    *budget = (struct et_memory_budget){.left = size, .size = size};
    pthread_mutex_init(&budget->lock, NULL);
    pthread_cond_init(&budget->given_back, NULL);
}

void et_memory_budget_destroy(struct et_memory_budget *budget)
{
    pthread_mutex_destroy(&budget->lock);
    pthread_cond_destroy(&budget->given_back);
}

bool et_memory_try_reserve(struct et_memory_budget *budget, struct et_memory_share *share, size_t more)
{
    pthread_mutex_lock(&budget->lock);
    bool there = budget->left >= more;
    if (there) {
        budget->left -= more;
        share->budget = budget;
        share->bytes += more;
    }
    pthread_mutex_unlock(&budget->lock);
    return there;
}

void et_memory_reserve(struct et_memory_budget *budget, struct et_memory_share *share, size_t bytes)
{
    bytes = bytes < budget->size ? bytes : budget->size;
    pthread_mutex_lock(&budget->lock);
    while (budget->left < bytes) {
        pthread_cond_wait(&budget->given_back, &budget->lock);
    }
    budget->left -= bytes;
    *share = (struct et_memory_share){budget, bytes};
    pthread_mutex_unlock(&budget->lock);
}

void et_memory_shrink(struct et_memory_share *share, size_t bytes)
{
    struct et_memory_budget *budget = share->budget;
    if (budget && bytes < share->bytes) {
        pthread_mutex_lock(&budget->lock);
        budget->left += share->bytes - bytes;
        share->bytes = bytes;
        pthread_cond_broadcast(&budget->given_back);
        pthread_mutex_unlock(&budget->lock);
    }
}
