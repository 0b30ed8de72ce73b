/* Verdicts on simulated fleets: a real profile's stacks, devices that differ in load and in what they do, and samples
 * as Poisson counts. How often equal versions are told apart, and how often a planted regression is found. */
#include "tools/profile/verdict.h"
#include "tools/profile/student.h"
#include "shape.h"
#include "tests/unit/test.h"

#include <math.h>

enum {
    STACKS = sizeof shape_stacks / sizeof *shape_stacks,
    NAMES = sizeof shape_names / sizeof *shape_names,
    DEEP = 64
};

static const char PLANTED[] = "sqlite3VdbeRecordCompareWithSkip";

/* How devices differ, as standard deviations of logarithms. */
static const double LOAD = 0.3, MIX = 0.15, AGAIN = 0.05;

static uint64_t seed;

static double uniform(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return ((double)(seed >> 11) + 0.5) / 9007199254740992.0;
}

static double normal(void)
{
    return sqrt(-2 * log(uniform())) * cos(2 * acos(-1) * uniform());
}

static double poisson(double mean)
{
    double limit = exp(-mean), product = uniform(), count = 0;
    if (mean > 30) {
        return fmax(0, floor(mean + sqrt(mean) * normal() + 0.5));
    }
    for (; product > limit; count++) {
        product *= uniform();
    }
    return count;
}

/* ---- the fleet ---- */

struct world {
    size_t devices;   /* per side */
    bool in_place;    /* the same devices run both versions */
    double samples;   /* of a device, on average */
    double effect;    /* of the service's usage, in PLANTED */
    double busier;    /* more load of the new version, in every stack */
    double cheaper;   /* what the new version saves in sqlite3VdbeExec's own time, of it */
    const char *name; /* of the cohort */
};

static unsigned ids[STACKS][DEEP], depth[STACKS];
static double shares[STACKS];

static int read_shape(void **state)
{
    double all = 0;
    (void)state;
    for (size_t i = 0; i < STACKS; i++) {
        const char *at = shape_stacks[i].stack;
        all += shape_stacks[i].us;
        while (*at && depth[i] < DEEP) {
            char *end;
            ids[i][depth[i]++] = (unsigned)strtoul(at, &end, 10);
            at = end;
        }
    }
    for (size_t i = 0; i < STACKS; i++) {
        shares[i] = shape_stacks[i].us / all;
    }
    return 0;
}

struct sums {
    double self[NAMES], total[NAMES];
};

/* Adds samples of 1 s to the stack's functions. */
static void add_stack(struct sums *sums, size_t stack, double samples)
{
    for (unsigned i = 0; i < depth[stack]; i++) {
        bool again = false;
        for (unsigned k = i + 1; k < depth[stack]; k++) {
            again |= ids[stack][k] == ids[stack][i];
        }
        sums->total[ids[stack][i]] += again ? 0 : samples;
    }
    sums->self[ids[stack][depth[stack] - 1]] += samples;
}

/* Names may be there more than once. */
static struct et_fleet_cell *cell_of(struct et_fleet *fleet, size_t entry, const char *name)
{
    struct et_fleet_entry *own = &fleet->entries[entry];
    uint32_t function = et_intern(&fleet->strings, name);
    uint64_t *known = et_map_at(&fleet->cells, (uint64_t)entry << 32 | function);
    if (!*known) {
        own->cells = et_reserve(own->cells, &own->capacity, own->count + 1, sizeof *own->cells);
        own->cells[own->count] = (struct et_fleet_cell){.function = function};
        *known = ++own->count;
    }
    return &own->cells[*known - 1];
}

static void add_sums(struct et_fleet *fleet, size_t entry, const struct sums *sums)
{
    struct et_fleet_entry *own = &fleet->entries[entry];
    for (size_t i = 0; i < NAMES; i++) {
        if (sums->total[i] > 0) {
            struct et_fleet_cell *cell = cell_of(fleet, entry, shape_names[i]);
            cell->self += sums->self[i];
            cell->total += sums->total[i];
            own->total += sums->self[i];
        }
    }
    own->samples = own->total;
}

static bool ends_in(size_t stack, const char *name)
{
    return strcmp(shape_names[ids[stack][depth[stack] - 1]], name) == 0;
}

static void run_device(struct et_fleet *fleet, const struct world *world, enum et_side side, size_t number, double load,
                       const double mix[STACKS])
{
    char name[32];
    snprintf(name, sizeof name, "device %zu", world->in_place || side == ET_LEFT ? number : number + 10000);
    size_t entry = et_fleet_entry(fleet, world->name ? world->name : "arm64", name, side);
    double seconds = 3600 * (0.7 + 0.6 * uniform()), planted = 0;
    double amount = world->samples * load * exp(AGAIN * normal()) * seconds / 3600;
    amount *= side == ET_RIGHT ? 1 + world->busier : 1;
    struct sums sums = {{0}, {0}};
    fleet->entries[entry].seconds = seconds;
    for (size_t i = 0; i < STACKS; i++) {
        planted += ends_in(i, PLANTED) ? shares[i] : 0;
    }
    for (size_t i = 0; i < STACKS; i++) {
        double more = side == ET_RIGHT && ends_in(i, PLANTED) ? world->effect * shares[i] / planted : 0;
        double less = side == ET_RIGHT && ends_in(i, "sqlite3VdbeExec") ? world->cheaper : 0;
        double rate = (shares[i] * (1 - less) + more) * mix[i] * exp(AGAIN * normal());
        add_stack(&sums, i, poisson(amount * rate));
    }
    add_sums(fleet, entry, &sums);
}

static void draw_device(struct et_fleet *fleet, const struct world *world, size_t number)
{
    double mix[STACKS], load = 0;
    for (enum et_side side = ET_LEFT; side < ET_SIDES; side++) {
        if (side == ET_LEFT || !world->in_place) {
            load = exp(LOAD * normal());
            for (size_t i = 0; i < STACKS; i++) {
                mix[i] = exp(MIX * normal());
            }
        }
        run_device(fleet, world, side, number, load, mix);
    }
}

static void draw(const struct world *world, struct et_fleet *fleet)
{
    for (size_t i = 0; i < world->devices; i++) {
        draw_device(fleet, world, i);
    }
}

/* ---- outcomes ---- */

static const struct et_verdict_row *row_named(const struct et_fleet *fleet, const struct et_verdict *verdict,
                                              const char *name, bool total)
{
    for (size_t i = 0; i < verdict->row_count; i++) {
        const struct et_verdict_row *row = &verdict->rows[i];
        if (row->total == total && strcmp(et_text(&fleet->strings, row->function), name) == 0) {
            return row;
        }
    }
    fail_msg("no row for %s", name);
    return NULL;
}

struct outcome {
    enum et_verdict_result result;
    bool found, others;                        /* PLANTED; own usage of another function */
    double needed, planted_needed, detectable; /* devices: for every function, for PLANTED */
};

static struct outcome judge(const struct world *world)
{
    struct et_fleet fleet = {0};
    struct et_verdict verdict;
    draw(world, &fleet);
    et_verdict_make(&fleet, 0.03, &verdict);
    const struct et_verdict_row *planted = row_named(&fleet, &verdict, PLANTED, false);
    struct outcome out = {.result = verdict.result,
                          .found = planted->judgement == ET_DIFF_MORE,
                          .needed = verdict.devices_needed,
                          .planted_needed = planted->devices_needed,
                          .detectable = verdict.detectable};
    for (size_t i = 0; i < verdict.row_count; i++) {
        out.others |=
            !verdict.rows[i].total && verdict.rows[i].judgement == ET_DIFF_MORE && &verdict.rows[i] != planted;
    }
    et_verdict_free(&verdict);
    et_fleet_free(&fleet);
    return out;
}

/* How many of so many fleets. */
static size_t count_found(const struct world *world, size_t runs, size_t *others)
{
    size_t found = 0;
    for (size_t i = 0; i < runs; i++) {
        struct outcome out = judge(world);
        found += out.found;
        *others += out.others;
    }
    return found;
}

/* ---- tests ---- */

TEST(student_is_students)
{
    static const struct {
        double probability, df, t;
    } known[] = {
        {0.05, 1, 12.7062}, {0.05, 4, 2.77645}, {0.01, 10, 3.16927}, {0.001, 30, 3.64596}, {0.05, 1e6, 1.95997}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) { /* from printed tables */
        assert_true(fabs(et_student_quantile(known[i].probability, known[i].df) - known[i].t) < 1e-4);
        assert_true(fabs(et_student_beyond(known[i].t, known[i].df) - known[i].probability) < 1e-5);
    }
    assert_true(et_student_beyond(0, 3) > 1 - 1e-9);
}

/* What `diff` says about the same samples: it takes them as independent. */
static bool diff_sees_more(const struct world *world)
{
    struct et_fleet fleet = {0};
    double self[NAMES][ET_SIDES] = {{0}}, total[ET_SIDES] = {0};
    bool more = false;
    draw(world, &fleet);
    for (size_t i = 0; i < fleet.count; i++) {
        const struct et_fleet_entry *entry = &fleet.entries[i];
        total[entry->side] += entry->total;
        for (size_t k = 0; k < entry->count; k++) {
            for (size_t n = 0; n < NAMES; n++) {
                bool same = strcmp(shape_names[n], et_text(&fleet.strings, entry->cells[k].function)) == 0;
                self[n][entry->side] += same ? entry->cells[k].self : 0;
            }
        }
    }
    struct et_diff diff = {.tests = NAMES};
    for (enum et_side side = ET_LEFT; side < ET_SIDES; side++) {
        diff.total[side] = (uint64_t)total[side];
        diff.samples[side] = total[side];
    }
    for (size_t n = 0; n < NAMES; n++) {
        const uint64_t figure[ET_SIDES] = {(uint64_t)self[n][ET_LEFT], (uint64_t)self[n][ET_RIGHT]};
        more |= et_diff_change(&diff, figure).low > 0;
    }
    et_fleet_free(&fleet);
    return more;
}

/* Of 100 comparisons of equal versions at most 5 find anything, while `diff`, which counts samples, finds something in
 * many: so the devices of the simulation do differ. */
TEST(equal_versions_are_equal)
{
    static const struct world worlds[] = {{.devices = 5, .samples = 3000},
                                          {.devices = 20, .samples = 3000},
                                          {.devices = 12, .samples = 20000, .in_place = true},
                                          {.devices = 20, .samples = 60}};
    size_t naive = 0;
    for (size_t w = 0; w < sizeof worlds / sizeof *worlds; w++) {
        size_t alarms = 0;
        seed = 1000 + w;
        for (int i = 0; i < 100; i++) {
            alarms += judge(&worlds[w]).result == ET_VERDICT_REGRESSION;
        }
        printf("equal versions, %2zu devices%s, %5.0f samples each: %zu of 100 false alarms\n", worlds[w].devices,
               worlds[w].in_place ? ", in place" : "", worlds[w].samples, alarms);
        assert_in_range(alarms, 0, 5);
    }
    seed = 7;
    for (int i = 0; i < 10; i++) {
        naive += diff_sees_more(&(struct world){.devices = 20, .samples = 20000});
    }
    printf("counting samples instead of devices: %zu of 10 false alarms\n", naive);
    assert_in_range(naive, 6, 10);
}

/* A first look at a few devices predicts how many find a regression of 3 % of the service's CPU time. So many find it:
 * in four of five fleets those that this function needs, in all those that the most variable function needs. */
TEST(planted_is_found_as_predicted)
{
    struct world world = {.devices = 4, .samples = 5000};
    double every = 0, planted = 0;
    size_t others = 0, runs = 40;
    seed = 11;
    for (int i = 0; i < 20; i++) {
        struct outcome out = judge(&world);
        assert_int_equal(out.result, ET_VERDICT_NOT_YET);
        assert_true(out.needed >= out.planted_needed && out.needed > 4 && out.detectable > 0.03);
        every += out.needed / 20;
        planted += out.planted_needed / 20;
    }
    world.effect = 0.03;
    world.devices = (size_t)ceil(planted);
    size_t found = count_found(&world, runs, &others);
    printf("3 %% with %zu devices, as 4 predict for the function: found in %zu of %zu, others in %zu\n", world.devices,
           found, runs, others);
    assert_in_range(found, runs * 8 / 10, runs);
    assert_in_range(world.devices, 5, 30);
    world.devices = (size_t)ceil(every);
    found = count_found(&world, 10, &others);
    printf("3 %% with %zu devices, as 4 predict for every function: found in %zu of 10\n", world.devices, found);
    assert_int_equal(found, 10);
    assert_in_range(world.devices, 20, 60);
    assert_in_range(others, 0, 2);
}

/* The rate of detection at several effects. */
TEST(rates_of_detection)
{
    static const double effects[] = {0.005, 0.01, 0.02, 0.03};
    static const struct world worlds[] = {{.devices = 10, .samples = 5000},
                                          {.devices = 20, .samples = 5000},
                                          {.devices = 10, .samples = 5000, .in_place = true}};
    size_t runs = 20;
    for (size_t w = 0; w < sizeof worlds / sizeof *worlds; w++) {
        size_t before = 0;
        for (size_t e = 0; e < sizeof effects / sizeof *effects; e++) {
            struct world world = worlds[w];
            size_t others = 0;
            seed = 100 + w;
            world.effect = effects[e];
            size_t found = count_found(&world, runs, &others);
            printf("%2zu devices%s: %.1f %% found in %zu of %zu, other functions in %zu\n", world.devices,
                   world.in_place ? " in place" : "", 100 * effects[e], found, runs, others);
            assert_in_range(others, 0, 2);
            assert_in_range(found + 2, before, runs + 2);
            before = found;
        }
        assert_in_range(before, runs - 1, runs);
    }
}

/* More load in all functions is said of the service, not of its functions; a saving in one does not accuse others. */
TEST(others_are_not_accused)
{
    struct world world = {.devices = 20, .samples = 20000, .in_place = true, .busier = 0.2};
    struct et_fleet fleet = {0};
    struct et_verdict verdict;
    seed = 3;
    draw(&world, &fleet);
    et_verdict_make(&fleet, 0.03, &verdict);
    assert_int_equal(verdict.result, ET_VERDICT_REGRESSION);
    assert_int_equal(verdict.all.judgement, ET_DIFF_MORE);
    assert_int_equal(verdict.all.by, ET_BY_LOAD);
    assert_true(verdict.all.load.change > 0.15 && verdict.all.load.change < 0.25);
    assert_true(verdict.all.load.low < 0.2 && verdict.all.load.high > 0.2);
    for (size_t i = 0; i < verdict.row_count; i++) {
        assert_true(verdict.rows[i].judgement != ET_DIFF_MORE || verdict.rows[i].share.before > 0.05);
    }
    et_verdict_free(&verdict);
    et_fleet_free(&fleet);

    world = (struct world){.devices = 20, .samples = 50000, .in_place = true, .cheaper = 0.9};
    draw(&world, &fleet);
    et_verdict_make(&fleet, 0.03, &verdict);
    assert_int_equal(verdict.result, ET_VERDICT_SAME);
    assert_int_equal(row_named(&fleet, &verdict, "sqlite3VdbeExec", false)->judgement, ET_DIFF_LESS);
    assert_int_equal(row_named(&fleet, &verdict, "sqlite3VdbeExec", false)->by, ET_BY_BOTH);
    assert_true(row_named(&fleet, &verdict, "[thread exit]", false)->share.change > ET_DIFF_LEAST_SHARE);
    et_verdict_free(&verdict);
    et_fleet_free(&fleet);
}

/* Devices of different kinds are compared each with their like: the new version runs mostly on the slower boards. */
TEST(cohorts_are_kept_apart)
{
    struct et_fleet fleet = {0};
    struct et_verdict verdict;
    struct world fast = {.samples = 5000, .name = "x86_64"}, slow = {.samples = 15000, .name = "arm64"};
    seed = 5;
    for (size_t i = 0; i < 40; i++) { /* 30 fast and 10 slow ones before, the other way round after */
        double mix[STACKS];
        for (size_t k = 0; k < STACKS; k++) {
            mix[k] = exp(MIX * normal());
        }
        run_device(&fleet, i < 30 ? &fast : &slow, ET_LEFT, i, exp(LOAD * normal()), mix);
        run_device(&fleet, i < 10 ? &fast : &slow, ET_RIGHT, i, exp(LOAD * normal()), mix);
    }
    run_device(&fleet, &(struct world){.samples = 100, .name = "riscv64"}, ET_RIGHT, 99, 1, (double[STACKS]){0});
    et_verdict_make(&fleet, 0.03, &verdict);
    assert_int_not_equal(verdict.result, ET_VERDICT_REGRESSION);
    assert_true(fabs(verdict.all.load.change) < 0.5);
    assert_int_equal(verdict.cohort_count, 3);
    assert_true(verdict.cohorts[0].used && verdict.cohorts[1].used && !verdict.cohorts[2].used);
    assert_int_equal(verdict.devices[ET_LEFT], 40);
    et_verdict_free(&verdict);
    et_fleet_free(&fleet);
}

TEST(few_devices_decide_nothing)
{
    struct et_fleet fleet = {0};
    struct et_verdict verdict;
    seed = 9;
    et_verdict_make(&fleet, 0.03, &verdict);
    assert_int_equal(verdict.result, ET_VERDICT_NOT_YET);
    draw(&(struct world){.devices = 2, .samples = 100000, .effect = 0.5}, &fleet);
    et_verdict_free(&verdict);
    et_verdict_make(&fleet, 0.03, &verdict);
    assert_int_equal(verdict.result, ET_VERDICT_NOT_YET);
    assert_true(verdict.devices_needed == ET_VERDICT_LEAST_DEVICES && verdict.row_count == 0);
    et_verdict_free(&verdict);
    et_fleet_free(&fleet);
}

/* ---- profiles ---- */

static uint32_t call(struct et_profile *p, uint32_t parent, const char *name, uint64_t samples)
{
    uint32_t frame = et_profile_frame(p, (struct et_frame){.name = et_intern(&p->strings, name)});
    et_profile_line(p, &p->frames[frame], name, "", 0);
    uint32_t node = et_profile_node(p, parent, frame);
    et_profile_entry(p, &(struct et_entry){.node = node, .value = 10 * samples, .count = samples});
    return node;
}

static size_t entry_of(void *context, const char *process)
{
    (void)context;
    return strcmp(process, "7") == 0 ? 0 : strcmp(process, "8") == 0 ? 1 : SIZE_MAX;
}

/* A profile by processes becomes their devices' cells; recursion counts once. */
TEST(profiles_are_split)
{
    struct et_fleet fleet = {0};
    struct et_profile *p = et_profile_new();
    et_fleet_entry(&fleet, "c", "one", ET_LEFT);
    et_fleet_entry(&fleet, "c", "two", ET_RIGHT);
    assert_int_equal(et_fleet_entry(&fleet, "c", "one", ET_LEFT), 0);
    uint32_t main_call = call(p, call(p, 0, "7", 0), "main", 1);
    call(p, call(p, main_call, "f", 2), "f", 4);
    call(p, call(p, 0, "8", 0), "main", 8);
    call(p, call(p, 0, "9", 0), "main", 16); /* a process of no entry */
    et_profile_show(p, ET_MEASURE_DEFAULT);
    et_fleet_add_profile(&fleet, p, entry_of, NULL);
    assert_true(fleet.entries[0].total == 70 && fleet.entries[0].samples == 7 && fleet.entries[0].count == 2);
    assert_true(fleet.entries[1].total == 80 && fleet.entries[1].count == 1);
    for (size_t i = 0; i < 2; i++) {
        const struct et_fleet_cell *cell = &fleet.entries[0].cells[i];
        bool is_f = strcmp(et_text(&fleet.strings, cell->function), "f") == 0;
        assert_true(cell->self == (is_f ? 60 : 10) && cell->total == (is_f ? 60 : 70));
    }
    et_profile_free(p);
    et_fleet_free(&fleet);
}

static int (*test_begin)(void **state) = read_shape;

TEST_MAIN
