/* The library in a program of its own: starts before main() with what the environment says, and stops after it. */
#include <stdint.h>
#include <stdio.h>

#include <edgeprof/edgeprof.h>

static uint8_t memory[EP_MEMORY_DEFAULT];

__attribute__((constructor)) static void start(void)
{
    struct ep_config config = {.memory = memory, .memory_size = sizeof memory};

    if (ep_config_from_env(&config) > 0 && ep_start(&config) != 0)
        fprintf(stderr, "linked: %s\n", ep_start_error());
}

__attribute__((destructor)) static void stop(void)
{
    (void)ep_stop(2000);
}
