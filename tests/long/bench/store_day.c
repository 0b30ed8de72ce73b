/*
 * One day of 100 devices in a database, or a week of 1,000: made, asked and weighed. Each device sends a profile of CPU
 * time every 10 s of 150 to 400 of its service's 3,000 stacks, which are as uneven as those of real programs (Zipf).
 * Five services of three versions; one of them labels its stacks. The store is kept as `serve` does. Of all but the
 * last three hours, of which nothing is there any more as it came, 30 profiles are made as one: their blocks are the
 * same.
 *
 * For the week, profiles of an hour are made as one before the last two hours, of which a query reads no more than of 5
 * minutes, and each device has one of a few profiles.
 *
 *   store_day fill DB [week|one]  makes it; one: all 100 devices run the same service, and
 *                                 the data ends at the last whole hour
 *   store_day query DB N [week]   asks once, prints milliseconds
 *   store_day queries DB [week]   asks many times, after the file's pages were dropped from the page cache
 *                                 (posix_fadvise): each time in a process of its own, then in one process that keeps
 *                                 the dictionary, as `serve` does. Weighs a day. Prints the figures
 *   store_day relay DB            reads profiles and makes requests of them, as a relay to Pyroscope does, without
 *                                 names: prints profiles for each second of CPU time
 */
#include "../../program.h"
#include "tests/long/bench/draws.h"
#include "tools/serve/relay/relay_backend.h"
#include "tools/store/store_internal.h"
#include "tests/unit/tools/support/keep.h"

#include <malloc.h>

enum { SERVICES = 5, VERSIONS = 3, NODES = 5000, STEPS = 4 };

/* What is made. */
static struct fleet {
    int devices, hours, days; /* days: asked for */
    int services;
    int64_t fine_ns, five_ns; /* ages up to which profiles of 10 s and 5 minutes are made */
    int variants;             /* profiles that are made of each program and length; 0: all are different */
    const char *name;
} fleet = {.devices = 100, .hours = 25, .days = 1, .services = SERVICES, .name = "day_100_devices"};
static const int64_t SECOND = 1000000000, HOUR = 3600000000000, DAY = 24 * 3600000000000;
static int64_t begin_ns = 1700006400000000000; /* a whole hour */
static const uint64_t PERIOD = 52631579;       /* 19 Hz */

static void choose_fleet(bool week, bool one)
{
    fleet.fine_ns = 3 * HOUR;
    fleet.five_ns = 100 * DAY;
    fleet.services = SERVICES;
    if (one) {
        fleet.services = 1;
        fleet.variants = 8; /* filled in a moment */
        begin_ns = (int64_t)time(NULL) / 3600 * HOUR - fleet.hours * HOUR;
    }
    if (week) {
        fleet = (struct fleet){.devices = 1000,
                               .hours = 7 * 24 + 1,
                               .days = 7,
                               .services = SERVICES,
                               .fine_ns = HOUR / 4,
                               .five_ns = 2 * HOUR,
                               .variants = 8,
                               .name = "week_1000_devices"};
    }
}

static void need(bool ok, const char *what, struct et_store *store)
{
    if (!ok) {
        fprintf(stderr, "store_day: %s: %s\n", what, store ? et_store_why(store) : strerror(errno));
        exit(1);
    }
}

/* ---- a program ---- */

struct program {
    int64_t stacks[STACKS];
    int64_t labels[STEPS]; /* 0: it has none */
    struct variant {
        struct et_stacks stacks;
        uint32_t samples;
    } variants[3][8]; /* of each length */
};

/* A tree whose stacks are 15 to 40 frames deep, in three modules. */
static void make_program(struct et_store *store, struct program *program, int service, int version)
{
    int64_t nodes[NODES], modules[3];
    char id[64], path[64];
    for (int i = 0; i < 3; i++) {
        snprintf(id, sizeof id, "%038d%d%d", service, version, i);
        snprintf(path, sizeof path, "/opt/service%d/lib%d.so", service, i);
        modules[i] = et_store_module(store, id, path);
    }
    for (int i = 0; i < NODES; i++) {
        int64_t parent = i < 15 ? (i ? nodes[i - 1] : 0) : nodes[14 + (int)(dice() % (uint32_t)(i - 14)) * 3 / 4];
        uint64_t address = 4096 + 16 * (uint64_t)(dice() % 40000);
        nodes[i] = et_store_node(store, parent, et_store_frame(store, modules[dice() % 3], address, "", "", 0));
        need(nodes[i] > 0, "node", store);
    }
    for (int i = 0; i < STACKS; i++) {
        program->stacks[i] = nodes[NODES - STACKS + i];
    }
    for (int i = STACKS - 1; i > 0; i--) { /* what is frequent stands anywhere in the tree */
        int other = (int)(dice() % (uint32_t)(i + 1));
        int64_t node = program->stacks[i];
        program->stacks[i] = program->stacks[other];
        program->stacks[other] = node;
    }
    for (int i = 0; i < STEPS && service == 0; i++) {
        snprintf(path, sizeof path, "step=step%d\n", i);
        program->labels[i] = et_store_labels(store, path);
    }
}

/* ---- a day ---- */

static int64_t make_origin(struct et_store *store, int device)
{
    char service[32], tags[64], host[32];
    snprintf(service, sizeof service, "service%d", device % fleet.services);
    snprintf(tags, sizeof tags, "device=pi-%02d\nversion=1.%d\n", device, device / fleet.services % VERSIONS);
    snprintf(host, sizeof host, "pi-%02d", device);
    struct et_origin origin = {.service = service,
                               .tags = tags,
                               .host = host,
                               .boot_id = "",
                               .executable = "",
                               .arch = "aarch64",
                               .agent = ""};
    return et_store_origin(store, &origin);
}

/* Packs the stacks of a profile. Returns its samples. */
static uint32_t make_stacks(const struct program *program, int64_t length_ns, struct et_stacks *stacks)
{
    static uint32_t seen[STACKS];
    uint32_t samples = 0;
    for (int64_t at = 0; at < length_ns; at += 10 * SECOND) {
        samples += 250 + dice() % 500;
    }
    stacks->columns = (uint8_t)(ET_COLUMN_VALUE | (program->labels[0] ? ET_COLUMN_LABEL_SET : 0));
    memset(seen, 0, sizeof seen);
    for (uint32_t i = 0; i < samples; i++) {
        seen[draws[dice() % DRAWS]]++;
    }
    for (int i = 0; i < STACKS; i++) {
        if (seen[i]) {
            struct et_stack stack = {.node = program->stacks[i], .value = seen[i]};
            stack.label_set.labels = program->labels[i % STEPS];
            et_stacks_add(stacks, &stack);
        }
    }
    return samples;
}

static void put(struct et_store *store, struct program *program, int64_t origin, int64_t start_ns, int64_t length_ns)
{
    struct variant own = {0}, *made = &own;
    if (fleet.variants) {
        int length = length_ns < 300 * SECOND ? 0 : length_ns < HOUR ? 1 : 2;
        made = &program->variants[length][dice() % (uint32_t)fleet.variants];
    }
    if (!made->samples) {
        made->samples = make_stacks(program, length_ns, &made->stacks);
    }
    struct et_stored stored = {.origin = origin,
                               .kind = "cpu",
                               .unit = "nanoseconds",
                               .start_ns = start_ns,
                               .end_ns = start_ns + length_ns,
                               .period = PERIOD,
                               .samples = made->samples,
                               .quantum = PERIOD,
                               .stacks = made->stacks};
    need(et_store_profile(store, &stored) == 0, "profile", store);
    et_stacks_free(&own.stacks);
}

static struct et_store *open_store(const char *path, bool create)
{
    const char *why = "";
    struct et_store *store = et_store_open(path, create, &why);
    if (!store) {
        fprintf(stderr, "store_day: %s: %s\n", path, why);
        exit(1);
    }
    return store;
}

static void fill(const char *path)
{
    static struct program programs[SERVICES][VERSIONS];
    int64_t *origins = et_alloc((size_t)fleet.devices, sizeof *origins);
    struct et_store *store = open_store(path, true);
    sqlite3_exec(store->db, "PRAGMA synchronous = OFF", NULL, NULL, NULL);
    make_draws();
    need(et_store_begin(store) == 0, "begin", store);
    for (int i = 0; i < fleet.services * VERSIONS; i++) {
        make_program(store, &programs[i % fleet.services][i / fleet.services], i % fleet.services, i / fleet.services);
    }
    for (int i = 0; i < fleet.devices; i++) {
        origins[i] = make_origin(store, i);
    }
    need(et_store_end(store, true) == 0, "end", store);
    int64_t end = begin_ns + fleet.hours * HOUR, length;
    for (int64_t at = begin_ns; at < end; at += length) {
        length = at < end - fleet.five_ns ? HOUR : at < end - fleet.fine_ns ? 300 * SECOND : 10 * SECOND;
        need(et_store_begin(store) == 0, "begin", store);
        for (int i = 0; i < fleet.devices; i++) {
            put(store, &programs[i % fleet.services][i / fleet.services % VERSIONS], origins[i],
                at + i % 100 * SECOND / 10, length);
        }
        need(et_store_end(store, true) == 0, "end", store);
        if ((at - begin_ns) % (1800 * SECOND) == 0) {
            need(run_keep_all(store, &et_policy_default, at) == 0, "keep", store);
        }
    }
    need(run_keep_all(store, &et_policy_default, end + 10 * SECOND) == 0, "keep", store);
    sqlite3_exec(store->db, "PRAGMA wal_checkpoint(TRUNCATE)", NULL, NULL, NULL);
    et_store_close(store);
    for (int i = 0; i < fleet.services * VERSIONS; i++) {
        for (int k = 0; k < 3 * 8; k++) {
            et_stacks_free(&programs[i % fleet.services][i / fleet.services].variants[k / 8][k % 8].stacks);
        }
    }
    free(origins);
}

/* ---- queries ---- */

static const struct {
    const char *service, *matcher, *group;
} QUERIES[] = {{"", "", NULL},
               {"service0", "", NULL},
               {"service1", "", "version"},
               {"service2", "version=1.1", NULL},
               {"", "device=~pi-[0-4].", NULL},
               {"service0", "step=step2", NULL},
               {"service4", "", "device"},
               {"service3", "device=pi-03", NULL}};
enum { KINDS_OF_QUERY = sizeof QUERIES / sizeof *QUERIES, RUNS = 40 };

static double now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

/* The last days, which end wherever the data does or up to an hour before that. Returns milliseconds. */
static double ask_store(struct et_store *store, int number, size_t *nodes)
{
    double before = now_ms();
    struct et_selector selector = {0};
    struct et_profile *profile = NULL;
    const char *why = "", *matcher = QUERIES[number % KINDS_OF_QUERY].matcher;
    need(!matcher[0] || et_selector_add(&selector, matcher, false, &why), why, NULL);
    sqlite3_stmt *last = NULL;
    sqlite3_prepare_v2(store->db, "SELECT max(last_ns) FROM series", -1, &last, NULL);
    need(sqlite3_step(last) == SQLITE_ROW, "last", store);
    int64_t to = sqlite3_column_int64(last, 0) - number * 77 * SECOND;
    sqlite3_finalize(last);
    struct et_query query = {.service = QUERIES[number % KINDS_OF_QUERY].service,
                             .kind = "cpu",
                             .from_ns = to - fleet.days * DAY,
                             .to_ns = to,
                             .group = QUERIES[number % KINDS_OF_QUERY].group,
                             .matchers = selector.matchers,
                             .matcher_count = selector.count};
    need(et_store_load(store, &query, &profile) == 0, "load", store);
    need(profile->total > 0, "nothing", store);
    *nodes = profile->node_count;
    et_profile_free(profile);
    et_selector_free(&selector);
    return now_ms() - before;
}

static void ask(const char *path, int number)
{
    double before = now_ms();
    size_t nodes;
    struct et_store *store = open_store(path, false);
    double opened = now_ms() - before;
    printf("%.1f", opened + ask_store(store, number, &nodes));
    printf(" %zu\n", nodes);
    et_store_close(store);
}

static void drop_pages(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    need(fd >= 0 && fdatasync(fd) == 0 && posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0, path, NULL);
    close(fd);
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static int64_t used_bytes(struct et_store *store)
{
    sqlite3_stmt *row = NULL;
    sqlite3_prepare_v2(store->db,
                       "SELECT ((SELECT * FROM pragma_page_count) - (SELECT * FROM pragma_freelist_count)) *"
                       " (SELECT * FROM pragma_page_size)",
                       -1, &row, NULL);
    need(sqlite3_step(row) == SQLITE_ROW, "size", store);
    int64_t bytes = sqlite3_column_int64(row, 0);
    sqlite3_finalize(row);
    return bytes;
}

/* What a day of a device is in the end, when only its hours are left. */
static void weigh(const char *path)
{
    struct et_store *store = open_store(path, false);
    const struct et_policy hours = {.fine_ns = 1, .five_ns = 1};
    int64_t before = used_bytes(store);
    sqlite3_exec(store->db, "PRAGMA synchronous = OFF", NULL, NULL, NULL);
    need(run_keep_all(store, &hours, begin_ns + 30 * DAY) == 0, "keep", store);
    need(run_keep_all(store, &hours, begin_ns + 31 * DAY) == 0, "keep", store);
    int64_t after = used_bytes(store);
    printf("figure db_bytes_per_device_day %" PRId64 " bytes\n", after / fleet.devices);
    printf("figure db_bytes_recent_per_device %" PRId64 " bytes\n", (before - after) / fleet.devices);
    et_store_close(store);
}

static void print_times(double times[RUNS], const char *how)
{
    qsort(times, RUNS, sizeof *times, by_size);
    printf("figure query_%s%s_median_ms %.0f ms\n", fleet.name, how, times[RUNS / 2]);
    printf("figure query_%s%s_p95_ms %.0f ms\n", fleet.name, how, times[RUNS * 95 / 100]);
    fflush(stdout);
}

static void ask_processes(const char *self, const char *path)
{
    double times[RUNS];
    for (int i = 0; i < RUNS; i++) {
        char command[4096];
        drop_pages(path);
        snprintf(command, sizeof command, "'%s' query '%s' %d%s", self, path, i, fleet.days > 1 ? " week" : "");
        FILE *child = popen(command, "r");
        need(child && fscanf(child, "%lf", &times[i]) == 1, command, NULL);
        need(pclose(child) == 0, command, NULL);
    }
    print_times(times, "");
}

static void ask_resident(const char *path)
{
    double times[RUNS];
    size_t nodes;
    struct et_residents *residents = et_residents_new();
    struct et_store *store = open_store(path, false);
    et_store_set_residents(store, residents);
    ask_store(store, 0, &nodes);
    for (int i = 0; i < RUNS; i++) {
        drop_pages(path);
        times[i] = ask_store(store, i, &nodes);
    }
    et_store_close(store);
    et_residents_free(residents);
    print_times(times, "_resident");
}

/* ---- relay ---- */

struct relayed {
    size_t bytes, parts;
};

static void take_part(void *context, const struct et_relay_part *part)
{
    struct relayed *relayed = context;
    struct et_buf bytes = part->bytes;
    relayed->bytes += bytes.size;
    relayed->parts++;
    et_buf_free(&bytes);
}

static double cpu_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static void relay(const char *path)
{
    enum { ROWS = 5000 };
    struct et_store *store = open_store(path, false);
    struct et_residents *residents = et_residents_new();
    const struct et_relay_form form = {.bare = true};
    struct relayed relayed = {0};
    struct et_arrival row = {0};
    mallopt(M_TRIM_THRESHOLD, 1 << 20); /* as a server */
    double reading = 0, before = cpu_ms();
    et_store_set_residents(store, residents);
    for (int i = 0; i < ROWS; i++) {
        double start = cpu_ms();
        need(et_store_next(store, row.id, &row) == 1, "next", store);
        reading += cpu_ms() - start;
        et_relay_pyroscope.cut(&form, &row, take_part, &relayed);
        et_profile_free(row.profile);
    }
    double took = cpu_ms() - before;
    printf("figure relay_profiles_per_s %.0f 1/s\n", ROWS * 1e3 / took);
    printf("figure relay_reading_us %.0f us\n", reading * 1e3 / ROWS);
    printf("figure relay_bytes_per_profile %zu bytes\n", relayed.bytes / ROWS);
    et_store_close(store);
    et_residents_free(residents);
}

int main(int argc, char **argv)
{
    const char *form = argc > 3 ? argv[argc - 1] : "";
    choose_fleet(strcmp(form, "week") == 0, strcmp(form, "one") == 0);
    if (argc > 2 && strcmp(argv[1], "fill") == 0) {
        fill(argv[2]);
    } else if (argc > 3 && strcmp(argv[1], "query") == 0) {
        ask(argv[2], atoi(argv[3]));
    } else if (argc > 2 && strcmp(argv[1], "queries") == 0) {
        ask_processes(argv[0], argv[2]);
        ask_resident(argv[2]);
        if (fleet.days == 1) {
            weigh(argv[2]);
        }
    } else if (argc > 2 && strcmp(argv[1], "relay") == 0) {
        relay(argv[2]);
    } else {
        fprintf(stderr, "usage: store_day fill DB [week|one] | query DB N [week] | queries DB [week] | relay DB\n");
        return 2;
    }
    return 0;
}
