/*
 * Writes messages for encode_check.py: encode_dump compact|pprof FOLDER. Random stacks of several modules and special
 * frames go through the profiler on the simulated port. Each message is FOLDER/NNN.msg. FOLDER/truth has the samples,
 * one stack per line: nanoseconds, count, frames leaf first as "path:address" with ELF addresses. With pprof,
 * FOLDER/threads has a dump of THREADS threads.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/core_rooms.h"
#include "port/sim/sim.h"

#define MS      1000000ull
#define STACKS  400u
#define DEEPEST 14u
#define THREADS 9u

static uint64_t memory[EP_MEMORY_DEFAULT / sizeof(uint64_t)];
static const char *folder;
static unsigned messages;

static FILE *create(const char *name)
{
    char path[512];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    if (!file) {
        perror(path);
        exit(1);
    }
    return file;
}

static int send_(void *state, const struct ep_message *message, const struct ep_deadline *deadline, uint64_t *retry_ns)
{
    char name[32];

    (void)state;
    (void)deadline;
    (void)retry_ns;
    if (message->family && strcmp(message->family, "goroutine") == 0)
        snprintf(name, sizeof name, "threads");
    else
        snprintf(name, sizeof name, "%03u.msg", messages++);
    FILE *file = create(name);
    size_t written = fwrite(message->data, 1, message->size, file);
    return fclose(file) == 0 && written == message->size ? 0 : -1;
}

static const struct ep_transport transport = {.name = "dump", .send = send_};

static const uint8_t ids[3][20] = {{0xab, 0x01, 0xff}, {0x00, 0x10}, {0}};
static struct ep_module_info modules[3];

/* The kernel's mapping has two functions, the second one larger than what is left of the mapping. */
static bool next_function(uintptr_t from, uintptr_t end, struct ep_port_function *function)
{
    const uintptr_t first = modules[2].start + 64, second = modules[2].end - 64;

    if (end > modules[2].end || from > second)
        return false;
    *function = from > first ? (struct ep_port_function){second, 4096, "second"}
                             : (struct ep_port_function){first, 32, "first"};
    return function->start >= from && function->start < end;
}

/* Three mappings of the synthetic code: with a long build id, a short one and none, at different biases. */
static void modules_make(void)
{
    static const char *const paths[] = {"/usr/bin/service", "/lib/lib with \"quotes\" and \xc3\xa9.so", "[vdso]"};
    static const unsigned limits[] = {0, 1000, 1500, 1600};

    for (unsigned i = 0; i < 3; i++) {
        modules[i] = (struct ep_module_info){
            .start = ep_sim_pc(limits[i]) - EP_SIM_FUNCTION / 2,
            .end = ep_sim_pc(limits[i + 1]) - EP_SIM_FUNCTION / 2,
            .path = paths[i],
            .build_id = ids[i],
            .build_id_size = i == 0   ? 20
                             : i == 1 ? 2
                                      : 0,
        };
        modules[i].bias = modules[i].start - 0x1000 * (i + 1);
    }
    ep_sim.modules = modules;
    ep_sim.module_count = 3;
    ep_sim.function = next_function;
    ep_sim.clock_error = 24; /* EMFILE */
}

static uint32_t dice_of(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

static void tell(FILE *truth, const uint16_t *stack, unsigned depth, unsigned ticks)
{
    fprintf(truth, "%llu 1", (unsigned long long)ticks * ep_sim.period_ns);
    for (unsigned i = 0; i < depth; i++) {
        uintptr_t pc = ep_sim_pc(stack[i]) - (i ? 1 : 0);
        unsigned m = 0;
        while (m < 3 && pc - modules[m].start >= modules[m].end - modules[m].start)
            m++;
        if (m == 3)
            fputs("\t[unknown]", truth);
        else
            fprintf(truth, "\t%s:%#llx", modules[m].path, (unsigned long long)(pc - modules[m].bias));
    }
    /* The walk ends where the synthetic code has no module. */
    if (stack[depth - 1] >= 1600)
        fputs("\t[stack cut]", truth);
    fputc('\n', truth);
}

static unsigned random_stack(uint64_t *dice, uint16_t *stack)
{
    unsigned depth = 1 + dice_of(dice) % DEEPEST;

    for (unsigned i = 0; i < depth; i++)
        stack[i] = (uint16_t)(dice_of(dice) % (dice_of(dice) % 4 ? 40 : 1600));
    if (dice_of(dice) % 10 == 0) /* only as the outermost frame: its caller is unknown */
        stack[depth - 1] = 1700;
    return depth;
}

static void sample_all(FILE *truth)
{
    uint16_t stack[DEEPEST];
    uint64_t dice = 42;

    for (unsigned i = 0; i < STACKS; i++) {
        unsigned depth = random_stack(&dice, stack), ticks = 1 + dice_of(&dice) % 300;
        (void)ep_sim_tick(1, ticks, stack, depth);
        tell(truth, stack, depth, ticks);
        ep_sim.uptime_ns += 20 * MS;
        if (ep_collect() != 0 || ep_deliver(10) != 0)
            exit(1);
    }
    (void)ep_sim_rest(1, 5 * (int64_t)ep_sim.period_ns);
    fprintf(truth, "%llu 0\t[thread exit]\n", 5ull * ep_sim.period_ns);
}

static void dump_threads(void)
{
    static struct ep_sim_thread threads[THREADS];
    static const uint16_t stack[] = {3};

    for (unsigned i = 0; i < THREADS; i++) {
        threads[i].tid = i + 1;
        ep_sim_stack(stack, 1, &threads[i].at);
    }
    ep_sim.thread = threads;
    ep_sim.thread_count = THREADS;
    if (ep_threads_dump() != 0 || ep_collect() != 0 || ep_deliver(10) != 0)
        exit(1);
}

int main(int argc, char **argv)
{
    struct ep_config config = {.memory = memory,
                               .memory_size = sizeof memory,
                               .service = "dump",
                               .tags = "version=1.2,empty=,path=/a=b",
                               .rate_hz = 19,
                               .interval_ms = 1000,
                               .transport = &transport,
                               .flags = EP_MANUAL};

    if (argc != 3 || (strcmp(argv[1], "compact") != 0 && strcmp(argv[1], "pprof") != 0)) {
        fprintf(stderr, "usage: encode_dump compact|pprof FOLDER\n");
        return 2;
    }
    const bool pprof = argv[1][0] == 'p';
    folder = argv[2];
    ep_sim_reset();
    modules_make();
    FILE *truth = create("truth");
    if ((pprof && ep_pprof_start() != 0) || ep_start(&config) != 0)
        return 1;
    sample_all(truth);
    if (pprof)
        dump_threads();
    return ep_stop(1000) == 0 && fclose(truth) == 0 ? 0 : 1;
}
