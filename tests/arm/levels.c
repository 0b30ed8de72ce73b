/*
 * Functions of every shape that a compiler gives a frame, for levels.py, which compiles this file at each level of
 * optimization, as C and as C++. Each shape uses the same CPU time.
 *
 *   levels MS ENDPOINT [SHAPE]      MS of CPU time for each shape, or for one
 *
 * Prints `exact N gap N cut N`. Exit code 1: the profiler did not run.
 */
#include "../program.h"

#include <edgeprof/edgeprof.h>

#if defined(__clang__)
#define OWN __attribute__((noinline))
#else
#define OWN __attribute__((noinline, noclone))
#endif
#define ROUNDS 2000

static uint8_t memory[EP_MEMORY_DEFAULT];
static volatile unsigned sink;

static OWN unsigned leaf(unsigned seed)
{
    for (int i = 0; i < 40; i++)
        seed = seed * 1664525u + 1013904223u;
    return seed;
}

static OWN unsigned leaf_of_array(unsigned seed)
{
    unsigned volatile words[40];

    for (unsigned i = 0; i < 40; i++)
        words[i] = seed ^ i;
    return words[seed % 40];
}

static OWN unsigned short_calls(unsigned seed)
{
    return leaf(seed) + 1;
}

static OWN unsigned large_frame(unsigned seed)
{
    unsigned char volatile bytes[6000];

    bytes[seed % 6000] = 1;
    return bytes[0] + leaf(seed);
}

static OWN unsigned variable_frame(unsigned seed)
{
    unsigned char volatile *bytes = (unsigned char volatile *)__builtin_alloca(16 + seed % 64);

    bytes[3] = (unsigned char)seed;
    return leaf(seed) + bytes[3];
}

static OWN unsigned aligned_frame(unsigned seed)
{
    unsigned volatile word[16] __attribute__((aligned(64)));

    word[seed % 16] = seed;
    return leaf(word[seed % 16]);
}

static OWN unsigned summed(int count, ...)
{
    unsigned sum = 0;
    va_list list;

    va_start(list, count);
    for (int i = 0; i < count; i++)
        sum += va_arg(list, unsigned);
    va_end(list);
    return sum;
}

static OWN unsigned variadic(unsigned seed)
{
    return summed(5, seed, seed + 1, seed + 2, seed + 3, seed + 4);
}

static OWN unsigned recursive(unsigned seed)
{
    if (seed % 16 == 0)
        return leaf(seed);
    unsigned deeper = recursive(seed - 1);
    return deeper + leaf(deeper);
}

static OWN unsigned floats(unsigned seed)
{
    double x = seed, y = 1;

    for (int i = 0; i < 20; i++)
        y = y * 0.5 + x / (y + 1);
    return (unsigned)y;
}

static OWN unsigned many_values(unsigned a, unsigned b, unsigned c, unsigned d, unsigned e, unsigned f)
{
    for (int i = 0; i < 20; i++) {
        a += b * 3, b ^= c + 5, c += d * 7, d ^= e + 11;
        e += f * 13, f ^= a + 17;
    }
    return a + b + c + d + e + f;
}

static OWN unsigned many_arguments(unsigned seed)
{
    return many_values(seed, seed + 1, seed + 2, seed + 3, seed + 4, seed + 5);
}

static OWN unsigned chosen(unsigned seed)
{
    switch (seed % 7) {
    case 0:
        return leaf(seed);
    case 1:
        return seed * 3;
    case 2:
        return leaf_of_array(seed);
    case 3:
        return seed ^ 0x55;
    case 4:
        return floats(seed);
    case 5:
        return ~seed;
    default:
        return variadic(seed);
    }
}

static OWN unsigned returns_early(unsigned seed)
{
    if (seed % 3 == 0)
        return seed;
    return leaf(seed) ^ leaf(seed + 1);
}

static OWN unsigned jumps_on(unsigned seed)
{
    return leaf(seed);
}

static unsigned (*volatile const pointer)(unsigned) = leaf;
static OWN unsigned by_pointer(unsigned seed)
{
    return pointer(seed) + 1;
}

struct shape {
    const char *name;
    unsigned (*run)(unsigned);
};

static const struct shape shapes[] = {
    {"leaf", leaf},
    {"leaf_of_array", leaf_of_array},
    {"short_calls", short_calls},
    {"large_frame", large_frame},
    {"variable_frame", variable_frame},
    {"aligned_frame", aligned_frame},
    {"variadic", variadic},
    {"recursive", recursive},
    {"floats", floats},
    {"many_arguments", many_arguments},
    {"chosen", chosen},
    {"returns_early", returns_early},
    {"jumps_on", jumps_on},
    {"by_pointer", by_pointer},
};

#define SHAPES (sizeof shapes / sizeof shapes[0])

static OWN void repeat(const struct shape *shape, uint64_t until)
{
    unsigned seed = 1;

    while (clock_ns(CLOCK_THREAD_CPUTIME_ID) < until)
        for (int i = 0; i < ROUNDS; i++)
            seed += shape->run(seed);
    sink = seed;
}

static OWN int report(void)
{
    struct ep_stats stats;

    if (ep_stop(30000) != 0 || ep_stats_get(&stats) != 0)
        return 1;
    printf("exact %" PRIu64 " gap %" PRIu64 " cut %" PRIu64 "\n", stats.exact, stats.gap, stats.cut);
    return 0;
}

/* As a server's loop in main() does: no way through its code leads to a return. */
static OWN __attribute__((noreturn)) void never_returns(uint64_t until)
{
    for (;;) {
        repeat(shapes, clock_ns(CLOCK_THREAD_CPUTIME_ID) + 1000000u);
        if (clock_ns(CLOCK_THREAD_CPUTIME_ID) >= until)
            exit(report());
    }
}

int main(int argc, char **argv)
{
    struct ep_config config;

    memset(&config, 0, sizeof config);
    config.memory = memory;
    config.memory_size = sizeof memory;
    config.service = "levels";
    config.rate_hz = 1000;
    config.endpoint = argc > 2 ? argv[2] : NULL;
    if (argc < 3 || ep_start(&config) != 0) {
        fprintf(stderr, "levels: %s\n", argc < 3 ? "MS ENDPOINT [SHAPE]" : ep_start_error());
        return 1;
    }
    const uint64_t ns = (uint64_t)atoi(argv[1]) * 1000000u;
    for (size_t i = 0; i < SHAPES; i++)
        if (argc < 4 || strcmp(argv[3], shapes[i].name) == 0)
            repeat(&shapes[i], clock_ns(CLOCK_THREAD_CPUTIME_ID) + ns);
    if (argc < 4)
        never_returns(clock_ns(CLOCK_THREAD_CPUTIME_ID) + ns);
    return report();
}
