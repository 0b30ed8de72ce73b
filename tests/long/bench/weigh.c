/*
 * What edgeprof adds to a program: weighed with and without the calls (-DWITHOUT), linked with --gc-sections. Start,
 * level, statistics, stop, both formats, HTTP and files. Settings from the environment (4 KiB), tags, waits and events
 * weigh something only where they are used.
 */
#include <edgeprof/edgeprof.h>

#ifdef WITHOUT
int main(void)
{
    return 0;
}
#else
static unsigned char memory[EP_MEMORY_DEFAULT];

int main(void)
{
    struct ep_config config = {.memory = memory, .memory_size = sizeof memory};
    struct ep_stats stats;

    if (ep_start(&config) != 0)
        return 1;
    (void)ep_level_set(EP_LEVEL_HIGH);
    (void)ep_stats_get(&stats);
    return ep_stop(2000);
}
#endif
