/*
 * One day of 100 devices in a database: made, asked and weighed. Each device sends a profile of CPU time every 10 s of
 * 150 to 400 of its service's 3,000 stacks, which are as uneven as those of real programs (Zipf). Five services of
 * three versions; one of them labels its stacks. The store is kept as `serve` does. Of all but the last three hours, of
 * which nothing is there any more as it came, 30 profiles are made as one: their blocks are the same.
 *
 *   store_day fill DB [HOURS]   makes it
 *   store_day query DB N        asks once, prints milliseconds
 *   store_day queries DB        asks many times, each in a process of its own after the file's pages were dropped from
 *                               the page cache (posix_fadvise), and weighs: prints the figures
 */
#include "tests/bench/draws.h"
#include "tools/store/store_internal.h"
#include "tools/store/store_keep.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { DEVICES = 100, SERVICES = 5, VERSIONS = 3, NODES = 5000, STEPS = 4 };
static const int64_t SECOND = 1000000000, HOUR = 3600000000000, DAY = 24 * 3600000000000;
static const int64_t START = 1700006400000000000; /* a whole hour */
static const uint64_t PERIOD = 52631579;          /* 19 Hz */

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
};

/* A tree whose stacks are 15 to 40 frames deep, in three modules. */
static void make_program(struct et_store *store, struct program *program, int service, int version)
{
    int64_t nodes[NODES], modules[3];
    char id[48], path[64];
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
    char service[16], tags[64], host[16];
    snprintf(service, sizeof service, "service%d", device % SERVICES);
    snprintf(tags, sizeof tags, "device=pi-%02d\nversion=1.%d\n", device, device / SERVICES % VERSIONS);
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

static void put(struct et_store *store, const struct program *program, int64_t origin, int64_t start_ns,
                int64_t length_ns)
{
    static uint32_t seen[STACKS];
    uint32_t samples = 0;
    for (int64_t at = 0; at < length_ns; at += 10 * SECOND) {
        samples += 250 + dice() % 500;
    }
    bool labelled = program->labels[0] != 0;
    struct et_stored stored = {.origin = origin,
                               .kind = "cpu",
                               .unit = "nanoseconds",
                               .start_ns = start_ns,
                               .end_ns = start_ns + length_ns,
                               .period = PERIOD,
                               .samples = samples,
                               .quantum = PERIOD,
                               .stacks.columns = (uint8_t)(ET_COLUMN_VALUE | (labelled ? ET_COLUMN_CONTEXT : 0))};
    memset(seen, 0, sizeof seen);
    for (uint32_t i = 0; i < samples; i++) {
        seen[draws[dice() % DRAWS]]++;
    }
    for (int i = 0; i < STACKS; i++) {
        if (seen[i]) {
            struct et_stack stack = {.node = program->stacks[i], .value = seen[i]};
            stack.context.labels = program->labels[i % STEPS];
            et_stacks_add(&stored.stacks, &stack);
        }
    }
    need(et_store_profile(store, &stored) == 0, "profile", store);
    et_stacks_free(&stored.stacks);
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

static void fill(const char *path, int hours)
{
    static struct program programs[SERVICES][VERSIONS];
    int64_t origins[DEVICES];
    struct et_store *store = open_store(path, true);
    sqlite3_exec(store->db, "PRAGMA synchronous = OFF", NULL, NULL, NULL);
    make_draws();
    need(et_store_begin(store) == 0, "begin", store);
    for (int i = 0; i < SERVICES * VERSIONS; i++) {
        make_program(store, &programs[i % SERVICES][i / SERVICES], i % SERVICES, i / SERVICES);
    }
    for (int i = 0; i < DEVICES; i++) {
        origins[i] = make_origin(store, i);
    }
    need(et_store_end(store, true) == 0, "end", store);
    int64_t end = START + hours * HOUR, length;
    for (int64_t at = START; at < end; at += length) {
        length = at < end - 3 * HOUR ? 300 * SECOND : 10 * SECOND;
        need(et_store_begin(store) == 0, "begin", store);
        for (int i = 0; i < DEVICES; i++) {
            put(store, &programs[i % SERVICES][i / SERVICES % VERSIONS], origins[i], at + i * SECOND / 10, length);
        }
        need(et_store_end(store, true) == 0, "end", store);
        if ((at - START) % (1800 * SECOND) == 0) {
            need(et_keep_all(store, &et_policy_default, at) == 0, "keep", store);
        }
    }
    need(et_keep_all(store, &et_policy_default, end + 10 * SECOND) == 0, "keep", store);
    sqlite3_exec(store->db, "PRAGMA wal_checkpoint(TRUNCATE)", NULL, NULL, NULL);
    et_store_close(store);
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

/* The last day, which ends wherever the data does or up to an hour before that. */
static void ask(const char *path, int number)
{
    double before = now_ms();
    struct et_store *store = open_store(path, false);
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
                             .from_ns = to - DAY,
                             .to_ns = to,
                             .group = QUERIES[number % KINDS_OF_QUERY].group,
                             .matchers = selector.matchers,
                             .matcher_count = selector.count};
    need(et_store_load(store, &query, &profile) == 0, "load", store);
    double took = now_ms() - before;
    need(profile->total > 0, "nothing", store);
    printf("%.1f %zu\n", took, profile->node_count);
    et_profile_free(profile);
    et_selector_free(&selector);
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
    need(et_keep_all(store, &hours, START + 30 * DAY) == 0, "keep", store);
    need(et_keep_all(store, &hours, START + 31 * DAY) == 0, "keep", store);
    int64_t after = used_bytes(store);
    printf("figure db_bytes_per_device_day %" PRId64 " bytes\n", after / DEVICES);
    printf("figure db_bytes_recent_per_device %" PRId64 " bytes\n", (before - after) / DEVICES);
    et_store_close(store);
}

static void ask_many(const char *self, const char *path)
{
    double times[RUNS];
    for (int i = 0; i < RUNS; i++) {
        char command[4096];
        drop_pages(path);
        snprintf(command, sizeof command, "'%s' query '%s' %d", self, path, i);
        FILE *child = popen(command, "r");
        need(child && fscanf(child, "%lf", &times[i]) == 1, command, NULL);
        need(pclose(child) == 0, command, NULL);
    }
    qsort(times, RUNS, sizeof *times, by_size);
    printf("figure query_day_100_devices_median_ms %.0f ms\n", times[RUNS / 2]);
    printf("figure query_day_100_devices_p95_ms %.0f ms\n", times[RUNS * 95 / 100]);
    fflush(stdout);
    weigh(path);
}

int main(int argc, char **argv)
{
    if (argc > 2 && strcmp(argv[1], "fill") == 0) {
        fill(argv[2], argc > 3 ? atoi(argv[3]) : 25);
    } else if (argc > 3 && strcmp(argv[1], "query") == 0) {
        ask(argv[2], atoi(argv[3]));
    } else if (argc > 2 && strcmp(argv[1], "queries") == 0) {
        ask_many(argv[0], argv[2]);
    } else {
        fprintf(stderr, "usage: store_day fill DB [HOURS] | query DB N | queries DB\n");
        return 2;
    }
    return 0;
}
