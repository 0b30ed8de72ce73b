/* How much a run of a fuzz target computes, in steps of a reference loop that runs right after it. The bounds find what
 * grows with the square of an input, on any machine and under any load. */
#ifndef EP_FUZZ_SPEND_H
#define EP_FUZZ_SPEND_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "memory.h"

/* Ends the program, and says where, unless the condition holds. */
#define REQUIRE(condition)                                                                                             \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                                    \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

enum { FUZZ_STEPS_FIXED = 200000000, FUZZ_STEPS_PER_BYTE = 20000, FUZZ_STEPS_REFERENCE = 1000000 };

static inline long long fuzz_cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

/* Nanoseconds of a million steps now: the slowest of some attempts. */
static inline long long fuzz_reference_ns(void)
{
    long long slowest = 1;

    for (int attempt = 0; attempt < 5; attempt++) {
        volatile uint32_t sum = 1;
        long long began = fuzz_cpu_ns();
        for (uint32_t i = 0; i < FUZZ_STEPS_REFERENCE; i++)
            sum = sum * 1664525u + i;
        long long took = fuzz_cpu_ns() - began;
        slowest = took > slowest ? took : slowest;
    }
    return slowest;
}

/* Ends the program when a run of `size` bytes has computed too much. Short runs are not measured. */
static inline void fuzz_spent(long long since_ns, size_t size)
{
    enum { SHORT_NS = 20000000 };
    long long spent = fuzz_cpu_ns() - since_ns;

    if (spent > SHORT_NS)
        REQUIRE(spent / fuzz_reference_ns() <=
                (FUZZ_STEPS_FIXED + FUZZ_STEPS_PER_BYTE * (long long)size) / FUZZ_STEPS_REFERENCE);
}

/* Begins a run, which fuzz_end() checks. Returns the time. */
static inline long long fuzz_begin(void)
{
    fuzz_memory_begin();
    return fuzz_cpu_ns();
}

/* Ends the program when a run of `size` bytes has computed too much, asked for more than `most` bytes of memory or kept
 * some. Returns 0. */
static inline int fuzz_end(long long began, size_t size, size_t most)
{
    fuzz_spent(began, size);
    REQUIRE(fuzz_memory_asked() <= most);
    REQUIRE(fuzz_memory_held() == 0);
    return 0;
}

#endif
