/*
 * What the history costs at level low, for valgrind to count instructions: a program on the simulated port with one
 * busy processor, so 19 samples a second, and waits. Both ways do the same otherwise.
 *
 *   cost plain|history SECONDS LONG_WAITS SHORT_WAITS      (waits a second)
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <edgeprof/edgeprof.h>
#include "port/sim/sim.h"
#include <edgeprof/transport.h>

#define MS     1000000ull
#define SECOND (1000 * MS)
#define DEPTH  24u
#define LEAVES 200u

static uint64_t memory[EP_MEMORY_DEFAULT / 8], history[EP_INCIDENT_MEMORY / 8];
static uint64_t dice = 1;

static unsigned random_of(unsigned most)
{
    dice = dice * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(dice >> 33) % most;
}

static void stack_make(uint16_t stack[DEPTH])
{
    stack[0] = (uint16_t)random_of(LEAVES);
    for (unsigned i = 1; i < DEPTH; i++)
        stack[i] = (uint16_t)(300 + i + (i < 4 ? random_of(4) : 0));
}

static void wait_for(uint64_t ns)
{
    uint16_t stack[DEPTH];

    stack_make(stack);
    ep_sim_here(stack, DEPTH);
    ep_wait_begin(EP_WAIT_NETWORK);
    ep_sim.uptime_ns += ns;
    ep_wait_end();
}

static void second(unsigned long_waits, unsigned short_waits)
{
    const uint64_t end_ns = ep_sim.uptime_ns + SECOND;
    uint16_t stack[DEPTH];

    for (unsigned i = 0; i < 19; i++) {
        stack_make(stack);
        (void)ep_sim_tick(71, 1, stack, DEPTH);
    }
    for (unsigned i = 0; i < long_waits; i++)
        wait_for(150 * MS / (long_waits + 1));
    for (unsigned i = 0; i < short_waits; i++)
        wait_for(1000);
    ep_sim.uptime_ns = end_ns > ep_sim.uptime_ns ? end_ns : ep_sim.uptime_ns;
    (void)ep_collect();
    (void)ep_deliver(100);
}

int main(int argc, char **argv)
{
    struct ep_config config = {.memory = memory,
                               .memory_size = sizeof memory,
                               .level = EP_LEVEL_LOW,
                               .transport = &ep_transport_null,
                               .flags = EP_MANUAL};
    const struct ep_incident_config incident = {.memory = history, .memory_size = sizeof history};

    if (argc < 5)
        return 2;
    ep_sim_reset();
    if (strcmp(argv[1], "history") == 0 && ep_incident_start(&incident) != 0)
        return 1;
    if (ep_start(&config) != 0)
        return 1;
    for (int i = 0; i < atoi(argv[2]); i++)
        second((unsigned)atoi(argv[3]), (unsigned)atoi(argv[4]));
    return ep_stop(1000) == 0 ? 0 : 1;
}
