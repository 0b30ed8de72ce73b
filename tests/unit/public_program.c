/*
 * A program that links every public function, on a port without an operating system (template, sim): the core starts,
 * runs its rounds, stops, and has no samples.
 */
#include <stdio.h>
#include <string.h>

#include <edgeprof/edgeprof.h>
#include <edgeprof/transport.h>
#include "public_functions.h"

static uint64_t memory[EP_MEMORY_DEFAULT / sizeof(uint64_t)];

/* The two functions that a language runtime's hooks may define; see hooks.h. */
static int optional(const char *name)
{
    return strcmp(name, "ep_hook_wait_end") == 0 || strcmp(name, "ep_hook_interrupted") == 0;
}

int main(void)
{
    const struct ep_config config = {
        .memory = memory, .memory_size = sizeof memory, .endpoint = "null:", .flags = EP_MANUAL};
    struct ep_stats stats;
    unsigned functions = 0;

    for (const struct public_function *at = public_functions; at->name; at++, functions++)
        if (!at->address && !optional(at->name)) {
            fprintf(stderr, "%s has no definition\n", at->name);
            return 1;
        }
    int start = ep_start(&config), collect = ep_collect(), deliver = ep_deliver(10), stop = ep_stop(10);
    if (start || collect || deliver || stop || ep_stats_get(&stats) != 0 || stats.samples != 0) {
        fprintf(stderr, "start %d, collect %d, deliver %d, stop %d, samples %llu\n", start, collect, deliver, stop,
                (unsigned long long)stats.samples);
        return 1;
    }
    printf("%u public functions are linked, and the core runs\n", functions);
    return 0;
}
