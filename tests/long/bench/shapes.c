/*
 * Services that look different from the sample, with labels and spans: what they need of the tree, the entries and the
 * contexts is at the limits.
 *
 *   shapes deep|distinct|threads SECONDS
 *
 * deep: recursion through two functions, up to 120 frames. distinct: 8,192 stacks, one a request. threads: each request
 * has a thread of its own, which lives for some milliseconds.
 */

#include "../../program.h"

#include <edgeprof/edgeprof.h>

static uint8_t memory[EP_MEMORY_DEFAULT];
static size_t memory_size = sizeof memory;
static volatile uint64_t sink;
static double end;

static double now(void)
{
    return (double)now_ns() / 1e9;
}

static uint32_t next(uint64_t *dice)
{
    *dice = *dice * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return (uint32_t)(*dice >> 33);
}

static void burn(unsigned rounds)
{
    for (unsigned i = 0; i < rounds; i++)
        sink += i * i;
}

static void left(uint32_t way, unsigned depth);
static void right(uint32_t way, unsigned depth);

static void turn(uint32_t way, unsigned depth)
{
    if (depth == 0)
        burn(20000);
    else if (way & 1)
        left(way >> 1 | way << 31, depth - 1);
    else
        right(way >> 1 | way << 31, depth - 1);
}

__attribute__((noinline)) static void left(uint32_t way, unsigned depth)
{
    turn(way, depth);
    sink++;
}

__attribute__((noinline)) static void right(uint32_t way, unsigned depth)
{
    turn(way, depth);
    sink += 2;
}

static void request(uint64_t *dice, bool deep)
{
    (void)ep_tag_push("endpoint", next(dice) % 2 ? "/a" : "/b");
    ep_span_set(1 + next(dice), 1, next(dice));
    if (deep)
        turn(next(dice), next(dice) % 60);
    else
        turn(next(dice) % 8192, 13);
    ep_span_set(0, 0, 0);
    ep_tag_pop();
}

static void *serve(void *deep)
{
    uint64_t dice = (uintptr_t)&dice;

    while (now() < end)
        request(&dice, deep != NULL);
    return NULL;
}

static void *once(void *argument)
{
    uint64_t dice = (uintptr_t)argument;

    for (unsigned i = next(&dice) % 200; i > 0; i--)
        request(&dice, i % 2);
    return NULL;
}

static void serve_by_threads(void)
{
    for (uintptr_t i = 1; now() < end; i++) {
        pthread_t thread[4];
        for (unsigned t = 0; t < 4; t++)
            if (pthread_create(&thread[t], NULL, once, (void *)(i * 4 + t)) != 0)
                abort();
        for (unsigned t = 0; t < 4; t++)
            (void)pthread_join(thread[t], NULL);
    }
}

int main(int argc, char **argv)
{
    struct ep_config config = {
        .memory = memory, .service = "shapes", .level = EP_LEVEL_HIGH, .flags = EP_THREAD_LABELS};
    const char *bytes = getenv("SHAPES_MEMORY");
    bool deep = argc == 3 && strcmp(argv[1], "deep") == 0;
    pthread_t thread[3];

    config.memory_size = bytes ? (size_t)atol(bytes) : memory_size;
    if (argc != 3 || config.memory_size > sizeof memory || ep_config_from_env(&config) < 0 || ep_start(&config) != 0) {
        fprintf(stderr, "shapes: %s\n", argc == 3 ? ep_start_error() : "usage: shapes deep|distinct|threads SECONDS");
        return 2;
    }
    end = now() + atof(argv[2]);
    if (strcmp(argv[1], "threads") == 0) {
        serve_by_threads();
    } else {
        for (unsigned i = 0; i < 3; i++)
            if (pthread_create(&thread[i], NULL, serve, deep ? &deep : NULL) != 0)
                return 1;
        for (unsigned i = 0; i < 3; i++)
            (void)pthread_join(thread[i], NULL);
    }
    struct ep_stats s;
    if (ep_stats_get(&s) != 0 || ep_stop(5000) != 0)
        return 1;
    printf("%llu samples, %llu messages, %llu early; lost: tree %llu, entries %llu, labels %llu, ring %llu\n",
           (unsigned long long)s.samples, (unsigned long long)s.messages, (unsigned long long)s.intervals_early,
           (unsigned long long)s.lost_count[EP_LOSS_TREE_FULL], (unsigned long long)s.lost_count[EP_LOSS_ENTRIES_FULL],
           (unsigned long long)s.lost_count[EP_LOSS_LABELS], (unsigned long long)s.lost_count[EP_LOSS_RING_FULL]);
    return s.lost_count[EP_LOSS_LABELS] * 1000 > s.samples;
}
