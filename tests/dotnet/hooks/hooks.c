/*
 * The hooks in port/nativeaot/ without .NET, on every architecture: what they count, where they say stacks begin, and
 * that their trampolines hand on what they were given. And what the one that every allocation context passes costs.
 *
 *   hooks PROFILE      prints `figure` lines; 0 when all is as it should be. PROFILE is for hooks.sh
 */

#include "../../program.h"

#include <edgeprof/hooks.h>
#include "port/nativeaot/glue.h"
#include "port/nativeaot/runtime.h"
#include "runtime.h"

#define NOINLINE __attribute__((noinline, noclone))
#define ROUNDS   40
#define CALLS    200000

/* In the program's writable stretch, as .NET has them. */
struct method_table odd_type = {0, 24}, small_type = {0, 24}, bytes_type = {0x80000001u, 24};
static uint8_t memory[1 << 20];
static atomic_uintptr_t handle[EP_DOTNET_LIVE_PLACES];
static unsigned chances, wrong;

#define CHECK(what) (void)((what) || (wrong++, fprintf(stderr, "hooks: not so: %s\n", #what)))

void OnFirstChanceException(struct object *object)
{
    CHECK(object == thrown);
    chances++;
}

/* The frame that the runtime's assembly makes (PUSH_COOP_PINVOKE_FRAME), of the caller. */
static NOINLINE void lay_frame(uintptr_t *frame, const struct ep_registers *c)
{
    memset(frame, 0x5a, 16 * sizeof frame[0]);
#if defined(__x86_64__)
    frame[0] = c->pc, frame[1] = c->fp, frame[4] = c->base, frame[9] = c->sp;
#elif defined(__aarch64__)
    frame[0] = c->fp, frame[1] = c->pc, frame[14] = c->sp;
#else
    frame[0] = c->fp, frame[1] = c->pc | 1, frame[2] = c->fp, frame[8] = c->base, frame[12] = c->sp;
#endif
}

static NOINLINE void make_small(unsigned n)
{
    struct ep_registers here;
    uintptr_t frame[16];

    (void)ep_port_here(&here);
    lay_frame(frame, &here);
    for (unsigned i = 0; i < n; i++)
        (void)RhpGcAlloc(&small_type, 0, 0, frame);
}

static NOINLINE void make_large(void)
{
    struct ep_registers here;
    uintptr_t frame[16];

    (void)ep_port_here(&here);
    lay_frame(frame, &here);
    (void)RhpGcAlloc(&bytes_type, 0, 600000, frame);
}

static NOINLINE void make_raw(void)
{
    void *array = NULL;

    RhAllocateNewArray(&bytes_type, 600000, 16, &array);
    CHECK(array != NULL);
}

/* ---- the check of the runtime ---- */

static void collect_nothing(void) {}

static unsigned moved; /* words by which the frame is not where it should be */

/* As the runtime's assembly: the frame is its own, with the registers of its caller. */
static NOINLINE void probe_assembly(uint32_t elements)
{
    uintptr_t frame[24];
    const struct ep_registers caller = {.pc = (uintptr_t)__builtin_return_address(0),
                                        .fp = *(uintptr_t *)__builtin_frame_address(0),
                                        .sp = (uintptr_t)__builtin_dwarf_cfa()};

    lay_frame(frame + moved, &caller);
    (void)RhpGcAlloc(&bytes_type, 0, elements, frame);
}

static NOINLINE __attribute__((optimize("no-omit-frame-pointer"))) void probe(void)
{
    void *array = NULL;

    probe_assembly(EP_DOTNET_PROBE_ARRAY);
    RhAllocateNewArray(&bytes_type, EP_DOTNET_PROBE_RAW, 16, &array);
    CHECK(array != NULL);
}

static void check_frame(void)
{
    ep_dotnet_alloc_check(probe);
    CHECK(!ep_dotnet_refuses(EP_KIND_ALLOC) && !ep_dotnet_refuses(EP_KIND_LIVE));
    for (moved = 1; moved < 3; moved++) {
        ep_dotnet_alloc_check(probe);
        CHECK(ep_dotnet_refuses(EP_KIND_ALLOC) && ep_dotnet_refuses(EP_KIND_LIVE));
        atomic_store(&ep_kind_missing[EP_KIND_ALLOC], NULL);
        atomic_store(&ep_kind_missing[EP_KIND_LIVE], NULL);
    }
    ep_dotnet_alloc_check(collect_nothing);
    CHECK(ep_dotnet_refuses(EP_KIND_ALLOC));
    atomic_store(&ep_kind_missing[EP_KIND_ALLOC], NULL);
    atomic_store(&ep_kind_missing[EP_KIND_LIVE], NULL);
#if defined(__x86_64__) /* qemu-user may look at the invalid argument first */
    int here = 0;
    CHECK(ep_dotnet_is_readable((uintptr_t)&here) && !ep_dotnet_is_readable(16));
#endif
}

/* Stands for the runtime's assembly, which is left out of stacks. */
static NOINLINE void throw_assembly(struct object *object, void *info)
{
    RhThrowEx(object, info);
    CHECK(thrown == object && thrown_info == info);
}

static NOINLINE void rethrow_assembly(struct object *object, void *info)
{
    RhRethrow(object, info);
    CHECK(thrown == object && thrown_info == info);
}

/* An exception that has a trace: the first is thrown by `throw`, the second by an await. */
struct exception {
    struct object object;
    const uintptr_t *trace;
    uint32_t count;
};

static NOINLINE void throw_odd(void)
{
    static const uintptr_t thrown_on[] = {0, 3, 4711, 1, 0}; /* a type, the length, what was thrown where */
    struct exception odd = {{&odd_type}, thrown_on, 1};
    unsigned before = throws;

    throw_assembly(&odd.object, &before);
    rethrow_assembly(&odd.object, &before);
    odd.count = 2;
    throw_assembly(&odd.object, &before);
    CHECK(throws == before + 3);
}

static NOINLINE void collect(int generation)
{
    _ZN15GCToEEInterface9SuspendEEE14SUSPEND_REASON(1);
    _ZN15GCToEEInterface11GcStartWorkEii(generation, 2);
    _ZN15GCToEEInterface6GcDoneEi(generation);
    _ZN15GCToEEInterface9RestartEEEb(true);
    _ZN15GCToEEInterface9SuspendEEE14SUSPEND_REASON(1); /* for something else */
    _ZN15GCToEEInterface9RestartEEEb(true);
}

static double seconds(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Median of paired rounds. */
static void cost(void)
{
    double more[ROUNDS];
    struct ep_registers here;
    uintptr_t frame[16];

    (void)ep_port_here(&here);
    lay_frame(frame, &here);
    for (unsigned round = 0; round < ROUNDS; round++) {
        double start = seconds();
        for (unsigned i = 0; i < CALLS; i++)
            (void)RhpGcAlloc(&small_type, 0, 0, frame);
        double middle = seconds();
        for (unsigned i = 0; i < CALLS; i++)
            (void)bare_RhpGcAlloc(&small_type, 0, 0, frame);
        more[round] = (middle - start - (seconds() - middle)) * 1e9 / CALLS;
    }
    qsort(more, ROUNDS, sizeof more[0], by_value);
    printf("figure alloc_hook_ns %.2f ns\n", more[ROUNDS / 2]);
}

static void settle(struct ep_stats *stats)
{
    const struct timespec moment = {.tv_nsec = 100000000};

    CHECK(ep_stats_get(stats) == 0);
    uint64_t before = stats->messages;
    CHECK(ep_flush() == 0);
    for (unsigned i = 0; i < 20 && stats->messages == before; i++) { /* longer where the machine is busy */
        (void)nanosleep(&moment, NULL);
        CHECK(ep_stats_get(stats) == 0);
    }
    (void)nanosleep(&moment, NULL);
    CHECK(ep_stats_get(stats) == 0);
}

static void count(void)
{
    const unsigned objects = 1000000;
    struct ep_stats stats;

    make_small(objects);
    for (unsigned i = 0; i < 20; i++) {
        make_large();
        make_raw();
        throw_odd();
        collect((int)(i % 3));
    }
    double truth = 24.0 * objects + 40 * 600024.0;
    heap = (struct heap){.committed = (uint64_t)truth, .size = {0, 0, (uint64_t)truth}};
    settle(&stats);
    double off = 100 * ((double)stats.kind_value[EP_KIND_ALLOC] - truth) / truth;
    printf("figure stub_alloc_error_pct %.2f %%\n", off < 0 ? -off : off);
    CHECK(off < 3 && off > -3);
    CHECK(stats.kind_count[EP_KIND_EXCEPTION] == 20 && chances == 60);
    CHECK(stats.kind_count[EP_KIND_GC] == 20);
    /* Held against what the runtime says: only roundings are left. */
    CHECK(stats.kind_value[EP_KIND_LIVE] > truth * 0.999 && stats.kind_value[EP_KIND_LIVE] < truth * 1.001);
    CHECK(reverse_calls == 20);
#if !defined(__arm__) /* glibc's _start does not say there that it is the root */
    CHECK(stats.cut == 0);
#endif
    for (unsigned i = 0; i < EP_DOTNET_LIVE_PLACES; i++)
        atomic_store(&handle[i], 0);
    settle(&stats);
    CHECK(stats.kind_value[EP_KIND_LIVE] == 0);
}

/* What the last collection left; while threads are stopped, what was told before. */
static void sizes(void)
{
    struct ep_stats stats;

    heap = (struct heap){.committed = 100000, .size = {1, 20, 3000, 40000, 500}, .fragmented = {0, 2, 77, 8, 0}};
    settle(&stats);
    CHECK(stats.kind_value[EP_KIND_HEAP] == 100000);
    _ZN15GCToEEInterface9SuspendEEE14SUSPEND_REASON(1);
    heap.committed = 200000;
    settle(&stats);
    CHECK(stats.kind_value[EP_KIND_HEAP] == 100000);
    _ZN15GCToEEInterface9RestartEEEb(true);
    settle(&stats);
    CHECK(stats.kind_value[EP_KIND_HEAP] == 200000);
    CHECK(ep_kinds_change(0, EP_KIND_BIT(EP_KIND_HEAP)) == 0);
}

/* Lines wait in their order, as many as one start and one send can have. */
static void notices(void)
{
    char line[EP_DOTNET_NOTICE];

    ep_dotnet_notices_keep(1);
    for (char c = 'a'; c < 'a' + 12; c++)
        ep_dotnet_notice((char[]){c, 0});
    ep_dotnet_notices_keep(0);
    for (char c = 'a'; c < 'a' + 12; c++)
        CHECK(ep_dotnet_notice_take(line, sizeof line) == 1 && line[0] == c);
    CHECK(ep_dotnet_notice_take(line, sizeof line) == 0);
}

int main(int argc, char **argv)
{
    char endpoint[512];
    void *handles[EP_DOTNET_LIVE_PLACES];
    const uint32_t kinds = EP_KIND_BIT(EP_KIND_ALLOC) | EP_KIND_BIT(EP_KIND_LIVE) | EP_KIND_BIT(EP_KIND_EXCEPTION) |
                           EP_KIND_BIT(EP_KIND_GC) | EP_KIND_BIT(EP_KIND_HEAP);
    struct ep_config config = {.memory = memory,
                               .memory_size = sizeof memory,
                               .kinds = kinds,
                               .endpoint = endpoint,
                               .interval_ms = 600000,
                               .flags = EP_ALL_EVENTS};

    if (argc != 2) {
        fprintf(stderr, "usage: hooks PROFILE\n");
        return 2;
    }
    (void)snprintf(endpoint, sizeof endpoint, "file://%s", argv[1]);
    for (unsigned i = 0; i < EP_DOTNET_LIVE_PLACES; i++)
        handles[i] = &handle[i];
    CHECK(ep_dotnet_live_attach(handles, EP_DOTNET_LIVE_PLACES) == 0);
    ep_dotnet_heap_attach();
    ep_dotnet_exceptions_attach(offsetof(struct exception, trace), offsetof(struct exception, count));
    check_frame();
    notices();
    forget_allocated();
    if (ep_start(&config) != 0) {
        fprintf(stderr, "hooks: %s\n", ep_start_error());
        return 1;
    }
    sizes();
    count();
    CHECK(ep_kinds_set(EP_KIND_BIT(EP_KIND_ALLOC)) == 0);
    cost();
    CHECK(ep_stop(2000) == 0);
    return wrong != 0;
}
