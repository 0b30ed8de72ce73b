/* The core on port/template: starts, runs its rounds, stops, and has no samples. */
#include <stdio.h>

#include <edgeprof/edgeprof.h>
#include <edgeprof/transport.h>

static uint64_t memory[EP_MEMORY_DEFAULT / sizeof(uint64_t)];

int main(void)
{
    const struct ep_config config = {
        .memory = memory, .memory_size = sizeof memory, .endpoint = "null:", .flags = EP_MANUAL};
    struct ep_stats stats;
    int start = ep_start(&config), collect = ep_collect(), deliver = ep_deliver(10), stop = ep_stop(10);

    if (start || collect || deliver || stop || ep_stats_get(&stats) != 0 || stats.samples != 0) {
        fprintf(stderr, "template: start %d, collect %d, deliver %d, stop %d, samples %llu\n", start, collect, deliver,
                stop, (unsigned long long)stats.samples);
        return 1;
    }
    return 0;
}
