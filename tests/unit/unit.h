/* Included by every unit test: cmocka with its requirements, the core's internals, the simulated port, the receiver. */
#ifndef UNIT_H
#define UNIT_H

#include "tests/unit/test.h"
#include "tests/unit/core_rooms.h"
#include "port/sim/sim.h"
#include "receiver.h"

/* A random number for permutations: deterministic, so that failures are reproducible. */
static inline uint32_t unit_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

/* Chooses the format of the runs that follow. */
static inline void unit_pprof(bool on)
{
    assert_int_equal(on ? ep_pprof_start() : ep_pprof_stop(), 0);
}

#endif
