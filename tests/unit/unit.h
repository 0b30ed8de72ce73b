/* Included by every unit test: cmocka with its requirements, the core's internals, the simulated port, the receiver. */
#ifndef UNIT_H
#define UNIT_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/core_rooms.h"
#include "port/sim/sim.h"
#include "receiver.h"

/* A random number for permutations: deterministic, so that failures are reproducible. */
static inline uint32_t unit_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

/* The step of a sweep over many places: 1, or what UNIT_STEP says where programs run slowly (a simulated processor,
 * sanitizers). */
static inline unsigned unit_step(void)
{
    const char *step = getenv("UNIT_STEP");
    int value = step ? atoi(step) : 1;

    return value > 1 ? (unsigned)value : 1;
}

#endif
