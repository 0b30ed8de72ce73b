/* CPU time of a run of a fuzz target. Under sanitizers and on any machine: the bounds find what grows with the square
 * of an input, not what is slow. */
#ifndef EP_FUZZ_SPEND_H
#define EP_FUZZ_SPEND_H

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* Ends the program, and says where, unless the condition holds. */
#define REQUIRE(condition)                                                                                             \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                                    \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

enum { FUZZ_NS_FIXED = 200000000, FUZZ_NS_PER_BYTE = 20000 };

static inline long long fuzz_cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

/* Ends the program when a run of `size` bytes has taken more. */
static inline void fuzz_spent(long long since_ns, size_t size)
{
    REQUIRE(fuzz_cpu_ns() - since_ns <= FUZZ_NS_FIXED + FUZZ_NS_PER_BYTE * (long long)size);
}

#endif
