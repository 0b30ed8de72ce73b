/*
 * Stacks as uneven as those of real programs (Zipf), the same in each run.
 */
#ifndef DRAWS_H
#define DRAWS_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

enum { STACKS = 3000, DRAWS = 1 << 16 };

static uint64_t dice_state = 1;

static inline uint32_t dice(void)
{
    dice_state = dice_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(dice_state >> 33);
}

static uint16_t draws[DRAWS]; /* stack numbers, each as often as it is likely */

static inline void make_draws(void)
{
    double sum = 0, reached = 0;
    size_t at = 0;
    for (int i = 0; i < STACKS; i++) {
        sum += 1 / pow(i + 3, 1.05);
    }
    for (int i = 0; i < STACKS; i++) {
        reached += 1 / pow(i + 3, 1.05);
        while (at < DRAWS && (double)at < reached / sum * DRAWS) {
            draws[at++] = (uint16_t)i;
        }
    }
}

#endif
