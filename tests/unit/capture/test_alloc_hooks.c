/*
 * port/nativeaot/alloc_hooks.c on a simulated runtime: the samples' weights add up to what was allocated, in total and
 * by site, while the sampling distance changes.
 */
#include "unit.h"

#include "estimate.h"

static int take_event(const struct ep_hook_event *event);
#define ep_hook_event(event) take_event(event) /* not struct ep_hook_event */
#include "port/nativeaot/alloc_hooks.c"
#undef ep_hook_event

#define MIB   (1u << 20)
#define SEEDS 200u
#define SITES 4u

/* Three sites whose objects fit into a context, and one whose do not. */
static const struct ep_dotnet_type types[SITES] = {
    {.base_size = 48}, {.base_size = 320}, {.base_size = 1200}, {.base_size = 700000}};

atomic_uint ep_dotnet_stops;
static uint64_t allocated, left, told[SITES];

static int take_event(const struct ep_hook_event *event)
{
    told[(const struct ep_dotnet_type *)event->type - types] += event->value;
    return 0;
}

uint64_t RhGetAllocatedBytesForCurrentThread(void)
{
    return allocated;
}

void *__real_RhpGcAlloc(const struct ep_dotnet_type *type, uint32_t flags, uintptr_t elements, const uintptr_t *frame)
{
    static char object;

    (void)flags, (void)elements, (void)frame;
    allocated += type->base_size;
    return &object;
}

static bool full; /* there is no memory for the array */

void __real_RhAllocateNewArray(const struct ep_dotnet_type *type, uint32_t elements, uint32_t flags, void **array)
{
    static char object;

    (void)elements, (void)flags;
    allocated += full ? 0 : type->base_size;
    *array = full ? NULL : &object;
}

int ep_dotnet_event(const struct ep_hook_event *event)
{
    return take_event(event);
}

uint32_t ep_dotnet_follow(void *object)
{
    (void)object;
    return 0;
}

bool ep_dotnet_frame_fits(const uintptr_t *frame, uintptr_t top, const struct ep_registers *registers)
{
    (void)frame, (void)top, (void)registers;
    return true;
}

bool ep_dotnet_is_readable(uintptr_t at)
{
    (void)at;
    return true;
}

bool ep_dotnet_live_check(void *object)
{
    (void)object;
    return true;
}

void ep_dotnet_frame(const uintptr_t *frame, struct ep_registers *registers)
{
    (void)frame;
    memset(registers, 0, sizeof *registers);
}

/* The runtime calls the hook only for an object that does not fit into the rest of the context. */
static void allocate(unsigned site)
{
    const struct ep_dotnet_type *type = &types[site];

    if (type->base_size <= left) {
        left -= type->base_size;
        allocated += type->base_size;
        return;
    }
    (void)__wrap_RhpGcAlloc(type, 0, 0, NULL);
    if (type->base_size < CONTEXT_BYTES)
        left = CONTEXT_BYTES - type->base_size;
}

static void set_period(uint64_t period)
{
    atomic_store(&ep_hook_periods[EP_KIND_ALLOC], (unsigned)period);
}

/* A new thread. */
static void begin(uint64_t seed, uint64_t period)
{
    memset(watcher_here(), 0, sizeof *watcher_here());
    memset(told, 0, sizeof told);
    allocated = left = 0;
    watcher_here()->shared.seed = seed * 0x9e3779b97f4a7c15u + 1;
    watcher_here()->lone.seed = seed * 0xbf58476d1ce4e5b9u + 1;
    watcher_here()->coin.seed = seed;
    atomic_store(&ep_hook_kinds, EP_KIND_BIT(EP_KIND_ALLOC));
    set_period(period);
}

static uint64_t all_told(void)
{
    return told[0] + told[1] + told[2] + told[3];
}

/* Reported relative to true weight of the 64 MiB after the distance changed from `before` to `after`. The moment of the
 * change is random, so the weight that the current stratum still stands for is right in the mean. */
static void check_change(uint64_t before, uint64_t after)
{
    struct estimate ratio = {0};

    for (unsigned seed = 1; seed <= SEEDS; seed++) {
        uint64_t dice = seed;
        begin(seed, before);
        for (uint64_t until = 2 * before + unit_random(&dice) % before; allocated < until;)
            allocate(unit_random(&dice) % 3);
        set_period(after);
        uint64_t start = allocated, told_before = all_told();
        while (allocated - start < 64 * MIB)
            allocate(unit_random(&dice) % 3);
        estimate_add(&ratio, (double)(all_told() - told_before) / (double)(allocated - start));
    }
    print_message("%llu -> %llu KiB: %.3f of the true weight, standard error %.3f\n", (unsigned long long)before / 1024,
                  (unsigned long long)after / 1024, estimate_mean(&ratio), estimate_error(&ratio));
    assert_true(fabs(estimate_mean(&ratio) - 1) < 3 * estimate_error(&ratio) + 0.001);
}

TEST(test_distance_changes_once)
{
    check_change(MIB, MIB);
    check_change(MIB, MIB / 2);
    check_change(12 * MIB, MIB / 2);
    check_change(MIB / 2, 12 * MIB);
}

/* Each site's bytes are right in the mean. The rule for the middle of an object is an approximation: 1 % of the bytes
 * of all sites that share contexts. */
TEST(test_sites)
{
    struct estimate error[SITES] = {{0}};
    double all = 0;

    for (unsigned seed = 1; seed <= SEEDS; seed++) {
        uint64_t dice = seed, truth[SITES] = {0};
        begin(seed, MIB / 2);
        while (allocated < 128 * MIB) {
            unsigned number = unit_random(&dice), site = number % 20000 ? number % 3 : 3;
            if (number % 4001 == 0)
                set_period((uint64_t)(MIB / 2) << unit_random(&dice) % 5);
            allocate(site);
            truth[site] += types[site].base_size;
        }
        uint64_t sum = all_told();
        assert_true(sum < allocated + 4 * 8 * MIB && allocated < sum + 4 * 8 * MIB);
        for (unsigned i = 0; i < SITES; i++)
            estimate_add(&error[i], (double)told[i] - (double)truth[i]);
        all = (double)allocated;
    }
    for (unsigned i = 0; i < SITES; i++) {
        print_message("objects of %u bytes: off by %+.2f %% of all bytes, standard error %.2f\n", types[i].base_size,
                      100 * estimate_mean(&error[i]) / all, 100 * estimate_error(&error[i]) / all);
        assert_true(fabs(estimate_mean(&error[i])) < 3 * estimate_error(&error[i]) + (i < 3 ? all / 100 : 0));
    }
}

/* An array for which the program gets an OutOfMemoryException is no allocation, and later ones are seen as before. */
TEST(test_array_without_memory)
{
    void *array = NULL;

    begin(1, MIB / 2);
    for (unsigned round = 0; round < 2; round++) {
        uint64_t start = allocated, told_before = all_told();
        while (allocated - start < 64 * MIB)
            allocate(0);
        assert_in_range(all_told() - told_before, 60 * MIB, 68 * MIB);
        full = true;
        for (unsigned i = 0; i < 1000; i++)
            __wrap_RhAllocateNewArray(&types[3], 1, 0, &array);
        full = false;
        assert_int_equal(told[3], 0);
    }
    __wrap_RhAllocateNewArray(&types[3], 1, 0, &array);
    assert_int_equal(told[3], types[3].base_size);
}

TEST_MAIN
