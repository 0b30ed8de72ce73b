/* What a profiler that has stopped says of itself, for the scripts here: one line of JSON. */
#ifndef E2E_ACCOUNT_H
#define E2E_ACCOUNT_H

#include <stdio.h>

#include <edgeprof/edgeprof.h>

static inline void print_account(int stopped)
{
    struct ep_stats stats;
    uint64_t lost = 0;

    if (ep_stats_get(&stats) != 0)
        return;
    /* Of these two the weight is kept. */
    for (unsigned i = 0; i < EP_LOSS_REASONS; i++)
        lost += i == EP_LOSS_TREE_FULL || i == EP_LOSS_ENTRIES_FULL ? 0 : stats.lost_ns[i];
    printf("{\"stop\": %d, \"measured_ns\": %llu, \"lost_ns\": %llu, \"failures\": %llu, \"merged\": %llu, "
           "\"delivered\": %llu}\n",
           stopped, (unsigned long long)(stats.weight_ns + stats.thread_exit_ns), (unsigned long long)lost,
           (unsigned long long)stats.delivery_failures, (unsigned long long)stats.intervals_merged,
           (unsigned long long)stats.delivered);
}

#endif
