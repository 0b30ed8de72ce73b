/*
 * Merging over time: a store with merged profiles gives the same answers as one without. Two stores get the same
 * profiles, some late and out of order; one of them merges in small steps in between. Also with failing steps and
 * killed processes, and after finer rows, old hours, and what only these used in the dictionary are gone.
 */
#include "db.h"
#include "message.h"
#include "tools/lib/kinds.h"
#include "tools/store/store_internal.h"
#include "keep.h"
#include "tests/unit/test.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const int64_t SECOND = 1000000000, MINUTE = 60000000000, HOUR = 3600000000000;
static const int64_t START = 1700006400000000000; /* a whole hour */
static char *path;

/* The same numbers on every machine. */
static uint64_t dice_state;
static uint64_t dice(uint64_t sides)
{
    dice_state = dice_state * 6364136223846793005u + 1442695040888963407u;
    return (dice_state >> 33) % sides;
}

/* ---- profiles ---- */

static const char *const KINDS[] = {"cpu", "cpu", "wait", "live", "alloc"};
enum { DEVICES = 3, NODES = 30, STACKS = 8 };

struct made {
    int device, kind;
    int64_t start_ns, end_ns;
    uint64_t period, quantum;
    int generation; /* part of the names of its module, frames, labels and version */
    int label_sets; /* 0: none, 1: labels, 2: spans, too */
    struct {
        int node, label, span;
        uint64_t value, count;
    } stacks[STACKS];
};

/* 0: all profiles are of one generation. */
static int64_t generation_ns;

static int make_generation(int64_t start_ns)
{
    int now = generation_ns ? 1 + (int)((start_ns - START) / generation_ns) : 0;
    return now && dice(5) == 0 ? 1 + (int)dice((uint64_t)now) : now; /* or an old one again */
}

static struct made make(int64_t start_ns)
{
    struct made made = {.device = (int)dice(DEVICES), .kind = (int)dice(5), .start_ns = start_ns};
    made.end_ns = start_ns + (int64_t)(1 + dice(40)) * SECOND;
    made.generation = make_generation(start_ns);
    made.period = dice(10) ? 10000000 : 7000000;
    made.quantum = dice(10) ? made.period : 1 + dice(5);
    made.label_sets = (int)dice(3);
    for (int i = 0; i < STACKS; i++) {
        made.stacks[i].node = (int)dice(NODES);
        made.stacks[i].label = (int)dice(3);
        made.stacks[i].span = (int)dice(4);
        made.stacks[i].value = dice(50);
        made.stacks[i].count = dice(9);
    }
    return made;
}

/* Node number i below node i / 3. */
static int64_t put_node(struct et_store *store, int64_t module, int i)
{
    int64_t parent = i ? put_node(store, module, i / 3) : 0;
    return et_store_node(store, parent, et_store_frame(store, module, (uint64_t)i * 16, "", "", 0));
}

static int64_t put_labels(struct et_store *store, int generation, const char *lines)
{
    char text[64];
    snprintf(text, sizeof text, generation ? "%sz=%d\n" : "%s", lines, generation);
    return et_store_labels(store, text);
}

static int64_t put_module(struct et_store *store, int generation)
{
    char name[32];
    snprintf(name, sizeof name, generation ? "/bin/app-%d" : "/bin/app", generation);
    return et_store_module(store, "00", name);
}

/* Generations differ only in their stacks. */
static bool one_process;

static void put(struct et_store *store, const struct made *made)
{
    static const char *const labels[] = {"", "step=a\n", "device=own\nstep=b\n"};
    char tags[64], host[16];
    int version = made->generation && !one_process ? made->generation : made->device / 2;
    snprintf(tags, sizeof tags, "device=pi-%d\nversion=%d\n", made->device, version);
    snprintf(host, sizeof host, "box-%d", made->device);
    assert_int_equal(et_store_begin(store), 0);
    struct et_origin origin = {
        .service = "svc", .tags = tags, .host = host, .boot_id = "", .executable = "", .arch = "", .agent = ""};
    const struct et_kind *kind = et_kind_named(KINDS[made->kind]);
    bool counted = strcmp(kind->name, ET_CPU) != 0;
    struct et_stored stored = {
        .origin = et_store_origin(store, &origin),
        .kind = kind->name,
        .unit = kind->unit,
        .start_ns = made->start_ns,
        .end_ns = made->end_ns,
        .period = made->period,
        .samples = STACKS,
        .quantum = made->quantum,
        .stacks.columns =
            (uint8_t)(ET_COLUMN_VALUE | (counted ? ET_COLUMN_COUNT : 0) | (made->label_sets ? ET_COLUMN_LABEL_SET : 0)),
    };
    int64_t module = put_module(store, made->generation);
    for (int i = 0; i < STACKS; i++) {
        struct et_stack stack = {.node = put_node(store, module, made->stacks[i].node),
                                 .value = made->stacks[i].value,
                                 .count = made->stacks[i].count};
        stack.label_set.labels =
            made->label_sets ? put_labels(store, made->generation, labels[made->stacks[i].label]) : 0;
        if (made->label_sets > 1 && made->stacks[i].span) {
            stack.label_set.span_id = (uint64_t)made->stacks[i].span;
            stack.label_set.trace_low = 77;
        }
        et_stacks_add(&stored.stacks, &stack);
    }
    assert_int_equal(et_store_profile(store, &stored), 0);
    et_stacks_free(&stored.stacks);
    assert_int_equal(et_store_end(store, true), 0);
}

/* ---- answers of a store ---- */

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void print_entry(const struct et_profile *p, const struct et_entry *entry, struct et_buf *out)
{
    for (uint32_t node = entry->node; node; node = p->nodes[node].parent) {
        const struct et_frame *frame = &p->frames[p->nodes[node].frame];
        et_buf_printf(out, "%s%llx;", et_text(&p->strings, frame->name), (unsigned long long)frame->address);
    }
    et_buf_printf(out, " %s %llu %llu", et_text(&p->strings, entry->labels), (unsigned long long)entry->value,
                  (unsigned long long)entry->count);
}

/* A query for labels of stacks also counts profiles without such stacks, if their process had some in others. */
static bool sums_alone;

/* The contents of a profile, in a canonical order. */
static char *print(const struct et_profile *p)
{
    struct et_buf out = {0};
    size_t count = p->entry_count + (sums_alone ? 0 : p->label_count);
    char **lines = et_alloc(count, sizeof *lines);
    for (size_t i = 0; i < count; i++) {
        struct et_buf line = {0};
        print_entry(p, i < p->entry_count ? &p->entries[i] : &p->label_sums[i - p->entry_count], &line);
        lines[i] = line.data;
    }
    qsort(lines, count, sizeof *lines, by_text);
    et_buf_printf(&out, "%s %s %llu %llu\n", et_text(&p->strings, p->kind), et_text(&p->strings, p->unit),
                  (unsigned long long)p->values, (unsigned long long)p->counts);
    if (!sums_alone) {
        et_buf_printf(&out, "samples %llu profiles %llu processes %llu from %lld to %lld\n",
                      (unsigned long long)p->samples, (unsigned long long)p->profiles, (unsigned long long)p->processes,
                      (long long)p->start_ns, (long long)p->end_ns);
    }
    for (size_t i = 0; i < count; i++) {
        et_buf_printf(&out, "%s\n", lines[i]);
        free(lines[i]);
    }
    free(lines);
    return out.data;
}

static char *ask(struct et_store *store, const struct et_query *query)
{
    struct et_profile *profile = NULL;
    assert_int_equal(et_store_load(store, query, &profile), 0);
    char *text = print(profile);
    et_profile_free(profile);
    return text;
}

static char *ask_series(struct et_store *store, const struct et_query *query, int64_t step)
{
    struct et_timeline line;
    struct et_buf out = {0};
    assert_int_equal(et_store_series(store, query, step, &line), 0);
    et_buf_printf(&out, "%s %s\n", line.kind, line.unit);
    for (size_t i = 0; i < line.line_count; i++) {
        et_buf_printf(&out, "\n%s:", line.lines[i].name);
        uint64_t sum = 0;
        for (size_t k = 0; k < line.steps; k++) {
            et_buf_printf(&out, " %llu", (unsigned long long)line.lines[i].sums[k]);
            sum += line.lines[i].sums[k];
        }
        assert_true(sum == line.lines[i].total);
    }
    et_timeline_free(&line);
    return out.data;
}

static void equal(char *one, char *other)
{
    assert_string_equal(one, other);
    free(one);
    free(other);
}

static void on_origin(void *context, const struct et_origin_row *row)
{
    et_buf_printf(context, "%s %lld %lld %llu %llu\n", row->origin.tags, (long long)row->first_ns,
                  (long long)row->last_ns, (unsigned long long)row->samples, (unsigned long long)row->profiles);
}

static char *ask_origins(struct et_store *store, const struct et_query *query)
{
    struct et_buf out = {0};
    et_buf_text(&out, "");
    assert_int_equal(et_store_origins(store, query, on_origin, &out), 0);
    return out.data;
}

/* ---- queries ---- */

static const char *const MATCHERS[] = {
    "",           "step=a",          "step!=a", "device=pi-1", "device=own", "version=~0", "span_id=0000000000000002",
    "host=box-2", "service_name=svc"};
static const char *const GROUPS[] = {NULL, "step", "device", "span_id", "version"};
static const char *const ASKED[] = {"cpu", "wait", "live", "alloc", "wall"};

static bool collected; /* one store has forgotten labels of deleted profiles */

static void compare(struct et_store *raw, struct et_store *merged, int64_t from, int64_t to, uint64_t matcher,
                    uint64_t group, uint64_t kind)
{
    struct et_selector selector = {0};
    const char *why = "";
    assert_true(matcher == 0 || et_selector_add(&selector, MATCHERS[matcher], false, &why));
    struct et_query query = {.kind = ASKED[kind],
                             .from_ns = from,
                             .to_ns = to,
                             .matchers = selector.matchers,
                             .matcher_count = selector.count,
                             .group = GROUPS[group],
                             .keep_labels = dice(2) == 1};
    sums_alone = collected && matcher;
    equal(ask(raw, &query), ask(merged, &query));
    sums_alone = false;
    if (to - from < 20 * HOUR && from >= 0) {
        static const int64_t steps[] = {17 * 1000000000ll, 60000000000, 300000000000, 3600000000000};
        int64_t step = steps[dice(4)];
        query.from_ns = step % MINUTE ? from : from - from % step; /* like clients that draw timelines */
        equal(ask_series(raw, &query, step), ask_series(merged, &query, step));
    }
    et_selector_free(&selector);
}

static void compare_many(struct et_store *raw, struct et_store *merged, int64_t length, int queries, int64_t grain)
{
    for (int i = 0; i < queries; i++) {
        int64_t from = START + (int64_t)dice((uint64_t)(length / SECOND)) * SECOND;
        int64_t to = from + (int64_t)dice((uint64_t)(length / SECOND)) * SECOND;
        from = dice(6) ? from - from % grain : 0;
        to = dice(6) ? to - to % grain : INT64_MAX;
        compare(raw, merged, from, to, dice(9), dice(5), dice(5));
    }
    struct et_query all = {.to_ns = INT64_MAX};
    equal(ask_origins(raw, &all), ask_origins(merged, &all));
}

/* ---- stores ---- */

static struct et_store *open_store(const char *name)
{
    const char *why = "";
    struct et_store *store = et_store_open(name, true, &why);
    if (!store) {
        fail_msg("%s: %s", name, why);
    }
    return store;
}

static struct stores {
    struct et_store *raw, *merged;
} both, *const stores = &both;

/* Greatest time between two profiles, in seconds. */
static uint64_t spacing;

static int set_up(void **state)
{
    (void)state;
    db_remove(path);
    spacing = 40;
    generation_ns = 0;
    one_process = false;
    collected = false;
    stores->raw = open_store(":memory:");
    stores->merged = open_store(path);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    et_store_close(stores->raw);
    et_store_close(stores->merged);
    db_remove(path);
    return 0;
}

/* One step of about three series, so that most passes need several. */
static int merge(struct et_store *store, int64_t now_ns)
{
    assert_int_equal(et_store_begin(store), 0);
    int got = et_merge_step(store, &(struct et_keep_time){now_ns, now_ns}, 1100);
    assert_int_equal(et_store_end(store, got >= 0), 0);
    return got;
}

/* Stores profiles of a time range in both stores, some of them late, while one store merges. */
static void fill_range(struct stores *stores, int64_t from, int64_t to)
{
    for (int64_t at = from; at < to; at += (int64_t)dice(spacing) * SECOND) {
        int64_t late = dice(8) ? 0 : (int64_t)dice(7000) * SECOND;
        struct made made = make(at > START + late ? at - late : at);
        put(stores->raw, &made);
        put(stores->merged, &made);
        for (uint64_t i = dice(3); i > 0; i--) {
            assert_true(merge(stores->merged, at) >= 0);
        }
    }
}

static void fill(struct stores *stores, int64_t length)
{
    fill_range(stores, START, START + length);
}

static const struct et_policy KEEP_ALL = {.rollup_rows = 2};

/* Merges everything five hours after the first profile, then applies the policy at that hour. */
static void keep(struct et_store *store, const struct et_policy *policy, int64_t hour)
{
    assert_int_equal(run_keep_all(store, &KEEP_ALL, START + 5 * HOUR), 0);
    assert_int_equal(run_keep_all(store, policy, START + hour * HOUR), 0);
}

/* ---- tests ---- */

TEST_WITH(merged_store_answers_like_raw_store, set_up, tear_down)
{
    dice_state = 1;
    fill(stores, 4 * HOUR);
    compare_many(stores->raw, stores->merged, 4 * HOUR, 150, SECOND);
    assert_int_equal(run_keep_all(stores->merged, &KEEP_ALL, START + 10 * HOUR), 0);
    compare_many(stores->raw, stores->merged, 4 * HOUR, 150, SECOND);
    assert_true(db_number(stores->merged->db, "SELECT count(*) FROM profile WHERE level = 2") >= 4 * 3);
    assert_int_equal(db_number(stores->merged->db, "SELECT count(*) FROM profile WHERE level = 0"),
                     db_number(stores->raw->db, "SELECT count(*) FROM profile"));
    assert_true(db_number(stores->merged->db, "SELECT count(*) FROM rollup") >= 4 * 3);
    assert_int_equal(run_keep_step(stores->merged, &KEEP_ALL, START + 10 * HOUR), 0); /* nothing left to do */
}

/* Without the stacks of blocks of an hour, only queries that read roll-ups alone can answer. */
TEST_WITH(roll_ups_replace_blocks, set_up, tear_down)
{
    dice_state = 21;
    one_process = true;
    fill(stores, 4 * HOUR);
    assert_int_equal(run_keep_all(stores->merged, &KEEP_ALL, START + 10 * HOUR), 0);
    assert_int_equal(sqlite3_exec(stores->merged->db,
                                  "DELETE FROM stacks WHERE profile IN (SELECT m.profile FROM stacks m JOIN profile p"
                                  " ON p.id = m.profile WHERE p.level = 2 AND p.series IN (SELECT s.id FROM series s"
                                  " JOIN origin o ON o.id = s.origin WHERE o.tags NOT LIKE '%version=1%'))",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    for (int i = 0; i < 20; i++) {
        struct et_selector selector = {0};
        const char *why = "";
        assert_true(et_selector_add(&selector, "version=0", false, &why));
        int64_t from = START + (int64_t)dice(3) * HOUR;
        struct et_query query = {.kind = dice(2) ? "cpu" : "alloc",
                                 .from_ns = from,
                                 .to_ns = from + HOUR,
                                 .matchers = selector.matchers,
                                 .matcher_count = selector.count,
                                 .group = dice(2) ? "step" : NULL};
        equal(ask(stores->raw, &query), ask(stores->merged, &query));
        et_selector_free(&selector);
    }
}

/* Without the stacks of finer rows in the middle of hours, only queries that subtract the ends of an hour from its
 * block can answer for the rest. */
TEST_WITH(part_hours_are_differences, set_up, tear_down)
{
    dice_state = 22;
    spacing = 20;
    fill(stores, 4 * HOUR);
    assert_int_equal(run_keep_all(stores->merged, &KEEP_ALL, START + 10 * HOUR), 0);
    assert_int_equal(sqlite3_exec(stores->merged->db,
                                  "DELETE FROM stacks WHERE profile IN (SELECT id FROM profile WHERE level < 2 AND"
                                  " at_ns / 60000000000 % 60 BETWEEN 15 AND 44)",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    for (int i = 0; i < 100; i++) {
        struct et_selector selector = {0};
        const char *why = "", *matcher = MATCHERS[dice(6)];
        assert_true(!*matcher || et_selector_add(&selector, matcher, false, &why));
        int64_t first = (int64_t)dice(3), last = first + 1 + (int64_t)dice(3 - (uint64_t)first);
        struct et_query query = {.kind = dice(2) ? "cpu" : "alloc",
                                 .from_ns = START + first * HOUR + (int64_t)dice(600) * SECOND,
                                 .to_ns = START + last * HOUR + 50 * MINUTE + (int64_t)dice(600) * SECOND,
                                 .matchers = selector.matchers,
                                 .matcher_count = selector.count,
                                 .group = GROUPS[dice(3)]};
        equal(ask(stores->raw, &query), ask(stores->merged, &query));
        et_selector_free(&selector);
    }
}

/* Blocks of an hour have no span ids, so queries with them are omitted. */
static void compare_hours(struct stores *stores, int64_t grain, int queries)
{
    for (int i = 0; i < queries; i++) {
        int64_t from = START + (int64_t)dice(4) * grain,
                to = from + (int64_t)dice((uint64_t)(4 * HOUR / grain)) * grain;
        struct et_query query = {
            .kind = ASKED[dice(5)], .from_ns = from, .to_ns = to, .group = dice(2) ? "step" : "device"};
        equal(ask(stores->raw, &query), ask(stores->merged, &query));
        equal(ask_series(stores->raw, &query, grain), ask_series(stores->merged, &query, grain));
        equal(ask_origins(stores->raw, &query), ask_origins(stores->merged, &query));
    }
}

TEST_WITH(late_profiles_are_added, set_up, tear_down)
{
    struct et_policy policy = {.rollup_rows = 2, .fine_ns = HOUR, .five_ns = 2 * HOUR};
    dice_state = 2;
    fill(stores, 2 * HOUR);
    keep(stores->merged, &policy, 10);
    fill(stores, 2 * HOUR); /* the same two hours again */
    compare_hours(stores, HOUR, 60);
    keep(stores->merged, &policy, 10);
    compare_hours(stores, HOUR, 60);
}

TEST_WITH(finer_rows_go, set_up, tear_down)
{
    struct et_policy policy = {.rollup_rows = 2, .fine_ns = HOUR};
    dice_state = 3;
    fill(stores, 4 * HOUR);
    keep(stores->merged, &policy, 10);
    assert_int_equal(db_number(stores->merged->db, "SELECT count(*) FROM profile WHERE level = 0"), 0);
    assert_true(db_number(stores->merged->db, "SELECT count(*) FROM profile WHERE level = 1") > 50);
    compare_hours(stores, 5 * MINUTE, 60);
    policy.five_ns = HOUR;
    keep(stores->merged, &policy, 10);
    assert_int_equal(db_number(stores->merged->db, "SELECT count(*) FROM profile WHERE level = 1"), 0);
    compare_hours(stores, HOUR, 60);
    assert_int_equal(db_number(stores->merged->db, "SELECT count(*) FROM stacks"),
                     db_number(stores->merged->db, "SELECT count(*) FROM profile"));
}

/* The parts of a range, cut at any time, add up to the whole, in every remaining resolution. */
TEST_WITH(cut_ranges_add_up, set_up, tear_down)
{
    static const struct et_policy policies[] = {{0},
                                                {.fine_ns = 9 * 3600000000000},
                                                {.fine_ns = 3600000000000},
                                                {.fine_ns = 3600000000000, .five_ns = 9 * 3600000000000},
                                                {.fine_ns = 3600000000000, .five_ns = 3600000000000}};
    dice_state = 4;
    fill(stores, 4 * HOUR);
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
        keep(stores->merged, &policies[i], 12);
        struct et_query query = {.kind = "cpu", .to_ns = INT64_MAX};
        struct et_profile *whole = NULL;
        assert_int_equal(et_store_load(stores->merged, &query, &whole), 0);
        for (int cut = 0; cut < 20; cut++) {
            int64_t at = START + (int64_t)dice(14400) * SECOND;
            struct et_profile *before = NULL, *after = NULL;
            query = (struct et_query){.kind = "cpu", .to_ns = at};
            assert_int_equal(et_store_load(stores->merged, &query, &before), 0);
            query = (struct et_query){.kind = "cpu", .from_ns = at, .to_ns = INT64_MAX};
            assert_int_equal(et_store_load(stores->merged, &query, &after), 0);
            assert_int_equal(before->values + after->values, whole->values);
            assert_int_equal(before->counts + after->counts, whole->counts);
            et_profile_free(before);
            et_profile_free(after);
        }
        et_profile_free(whole);
    }
}

static int steps_left;

static int interrupt(void *context)
{
    (void)context;
    return --steps_left <= 0;
}

static int kill_self(void *context)
{
    (void)context;
    if (--steps_left <= 0) {
        raise(SIGKILL);
    }
    return 0;
}

TEST_WITH(steps_that_fail_change_nothing, set_up, tear_down)
{
    struct et_policy policy = {.rollup_rows = 2, .fine_ns = HOUR, .five_ns = 2 * HOUR};
    dice_state = 5;
    fill(stores, HOUR);
    assert_int_equal(run_keep_all(stores->merged, &KEEP_ALL, START + 40 * MINUTE), 0);
    int failed = 0, got = 1;
    for (int most = 1; got; most += 3) {
        steps_left = most;
        sqlite3_progress_handler(stores->merged->db, 50, interrupt, NULL);
        got = run_keep_step(stores->merged, &policy, START + 9 * HOUR);
        sqlite3_progress_handler(stores->merged->db, 0, NULL, NULL);
        failed += got < 0;
        if (most % 15 == 1) {
            compare_hours(stores, HOUR, 1);
        }
        most = got < 0 ? most : 1;
    }
    assert_true(failed > 100);
    compare_hours(stores, HOUR, 60);
}

/* Runs the keeper in processes that are killed at later and later steps, until one ends by itself. compare() is called
 * after each. */
static void keep_with_kills(struct stores *stores, const struct et_policy *policy, int64_t now_ns, int more, int steps,
                            void (*compare)(struct stores *))
{
    int killed = 0, status = -1;
    for (int run = 0; status != 0; run++) {
        et_store_close(stores->merged);
        pid_t child = fork();
        if (child == 0) {
            struct et_store *store = open_store(path);
            steps_left = 10 + more * run;
            sqlite3_progress_handler(store->db, steps, kill_self, NULL);
            _exit(run_keep_all(store, policy, now_ns) != 0);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(status == 0 || (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
        killed += status != 0;
        stores->merged = open_store(path);
        compare(stores);
    }
    assert_true(killed > 10);
}

static void compare_first_hour(struct stores *stores)
{
    compare_hours(stores, HOUR, 2);
}

TEST_WITH(killed_processes_leave_equal_sums, set_up, tear_down)
{
    struct et_policy policy = {.rollup_rows = 2, .fine_ns = HOUR, .five_ns = 2 * HOUR};
    dice_state = 6;
    fill(stores, HOUR);
    assert_int_equal(run_keep_all(stores->merged, &KEEP_ALL, START + 40 * MINUTE), 0);
    keep_with_kills(stores, &policy, START + 9 * HOUR, 6, 20, compare_first_hour);
    compare_hours(stores, HOUR, 60);
}

/* Rows of level 0 that a relay destination has not received stay for a day. */
TEST_WITH(a_relay_is_waited_for, set_up, tear_down)
{
    struct et_policy policy = {.rollup_rows = 2, .fine_ns = HOUR, .five_ns = 2 * HOUR, .keep_ns = 72 * HOUR};
    dice_state = 7;
    fill(stores, 2 * HOUR);
    int64_t all = db_number(stores->raw->db, "SELECT count(*) FROM profile");
    sqlite3_exec(
        stores->merged->db,
        "INSERT INTO relay (name, cursor) SELECT 'one', id FROM profile WHERE NOT level ORDER BY id LIMIT 1 OFFSET 20",
        NULL, NULL, NULL);
    int64_t cursor = db_number(stores->merged->db, "SELECT cursor FROM relay");
    keep(stores->merged, &policy, 20);
    assert_int_equal(db_number(stores->merged->db, "SELECT count(*) FROM profile WHERE level = 0"), all - 21);
    compare_hours(stores, HOUR, 60);
    struct et_arrival arrival;
    for (int64_t i = 0; i < all - 21; i++) {
        assert_int_equal(et_store_next(stores->merged, cursor, &arrival), 1);
        assert_true(arrival.id > cursor);
        assert_string_equal(arrival.origin.service, "svc");
        cursor = arrival.id;
        et_profile_free(arrival.profile);
    }
    assert_int_equal(et_store_next(stores->merged, cursor, &arrival), 0);
    keep(stores->merged, &policy, 40);
    assert_int_equal(db_number(stores->merged->db, "SELECT count(*) FROM profile WHERE level = 0"), 0);
    assert_int_equal(db_number(stores->merged->db, "SELECT lost FROM relay"), all - 21);
}

TEST_WITH(old_profiles_go, set_up, tear_down)
{
    struct et_policy policy = {.rollup_rows = 2, .fine_ns = HOUR, .five_ns = 2 * HOUR, .keep_ns = 24 * HOUR};
    dice_state = 8;
    fill(stores, 3 * HOUR);
    assert_int_equal(run_keep_all(stores->merged, &KEEP_ALL, START + 3 * HOUR), 0);
    assert_int_equal(run_keep_all(stores->merged, &policy, START + 27 * HOUR), 0);
    int64_t first = db_number(stores->merged->db, "SELECT min(at_ns) FROM profile");
    assert_true(first > START + HOUR && first < START + 3 * HOUR);
    struct et_query rest = {.kind = "cpu", .from_ns = first - first % HOUR, .to_ns = INT64_MAX};
    struct et_query all = {.kind = "cpu", .to_ns = INT64_MAX};
    equal(ask(stores->raw, &rest), ask(stores->merged, &all));
    assert_int_equal(db_number(stores->merged->db, "SELECT min(first_ns) FROM series"), rest.from_ns);
    keep(stores->merged, &policy, 60);
    static const char *const empty[] = {"profile", "stacks", "series", "bucket", "series_labels"};
    for (size_t i = 0; i < sizeof empty / sizeof *empty; i++) {
        char sql[64];
        snprintf(sql, sizeof sql, "SELECT count(*) FROM %s", empty[i]);
        assert_int_equal(db_number(stores->merged->db, sql), 0);
    }
}

static void on_size(struct stores *stores, int64_t bytes)
{
    struct et_policy policy = {.rollup_rows = 2, .max_bytes = bytes};
    keep(stores->merged, &policy, 70);
    int64_t used = db_number(stores->merged->db,
                             "SELECT (SELECT * FROM pragma_page_count) - (SELECT * FROM pragma_freelist_count)") *
                   db_number(stores->merged->db, "SELECT * FROM pragma_page_size");
    assert_true(used <= bytes);
}

TEST_WITH(large_databases_lose_the_oldest, set_up, tear_down)
{
    dice_state = 9;
    fill(stores, 8 * HOUR);
    spacing = 600;
    fill_range(stores, START + 8 * HOUR, START + 34 * HOUR);
    assert_int_equal(run_keep_all(stores->merged, &KEEP_ALL, START + 70 * HOUR), 0);
    int64_t used = db_number(stores->merged->db, "SELECT * FROM pragma_page_count") *
                   db_number(stores->merged->db, "SELECT * FROM pragma_page_size");
    on_size(stores, used * 95 / 100); /* fine rows are deleted, no sum changes */
    struct et_query all = {.kind = "cpu", .group = "step", .to_ns = INT64_MAX};
    equal(ask(stores->raw, &all), ask(stores->merged, &all));
    assert_true(db_number(stores->merged->db, "SELECT count(*) FROM profile WHERE level = 0") > 0);
    on_size(stores, used * 4 / 10);
    int64_t first = db_number(stores->merged->db, "SELECT min(at_ns) FROM profile");
    all.from_ns = first - first % HOUR;
    equal(ask(stores->raw, &all), ask(stores->merged, &all));
    assert_true(db_number(stores->merged->db, "SELECT count(*) FROM profile") > 0);
}

/* ---- what the size limit leaves ---- */

static int64_t hours_of(struct et_store *store)
{
    return db_number(store->db, "SELECT count(DISTINCT start_ns / 3600000000000) FROM bucket");
}

static uint64_t deleted(struct et_store *store, enum et_deleted what)
{
    uint64_t counts[ET_DELETED_COUNT];
    assert_int_equal(et_store_deleted(store, counts), 0);
    return counts[what];
}

static void newest_hours_answer_like_raw_store(struct stores *stores)
{
    int64_t first = db_number(stores->merged->db, "SELECT min(start_ns) / 3600000000000 * 3600000000000 FROM bucket");
    for (size_t i = 0; i < sizeof ASKED / sizeof *ASKED; i++) {
        struct et_query query = {.kind = ASKED[i], .group = "step", .from_ns = first, .to_ns = INT64_MAX};
        equal(ask(stores->raw, &query), ask(stores->merged, &query));
    }
}

/* The dictionary alone is larger than the limit. */
TEST_WITH(the_size_limit_leaves_the_newest_hours, set_up, tear_down)
{
    struct et_policy policy = {.rollup_rows = 2, .max_bytes = 200000};
    dice_state = 12;
    spacing = 300;
    generation_ns = MINUTE;
    fill(stores, 30 * HOUR);
    int64_t hours = hours_of(stores->merged);
    keep(stores->merged, &policy, 40);
    assert_true(db_number(stores->merged->db, "SELECT count(*) FROM node") * 30 > policy.max_bytes);
    assert_int_equal(hours_of(stores->merged), ET_KEPT_HOURS);
    newest_hours_answer_like_raw_store(stores);
    assert_int_equal(deleted(stores->merged, ET_DELETED_BIG_HOURS), hours - ET_KEPT_HOURS);
    struct et_keep_limit limit = et_keep_limit(stores->merged);
    assert_true(limit.exceeded && limit.used > policy.max_bytes && limit.hours == ET_KEPT_HOURS);
    assert_true(limit.profiles > 0 && limit.profiles < policy.max_bytes);
    policy.max_bytes = limit.used + 1000000;
    keep(stores->merged, &policy, 41);
    assert_false(et_keep_limit(stores->merged).exceeded);
    assert_int_equal(hours_of(stores->merged), ET_KEPT_HOURS);
}

TEST_WITH(the_size_limit_leaves_what_fits, set_up, tear_down)
{
    struct et_policy policy = {.rollup_rows = 2, .max_bytes = 50000};
    dice_state = 13;
    spacing = 300;
    generation_ns = 5 * MINUTE;
    fill(stores, 30 * HOUR);
    keep(stores->merged, &policy, 40);
    int64_t hours = hours_of(stores->merged);
    assert_true(hours > 1 && hours < ET_KEPT_HOURS);
    assert_true(et_keep_limit(stores->merged).profiles <= policy.max_bytes);
    newest_hours_answer_like_raw_store(stores);
    policy.max_bytes = 1;
    keep(stores->merged, &policy, 42);
    assert_int_equal(hours_of(stores->merged), 1);
    newest_hours_answer_like_raw_store(stores);
    assert_true(et_keep_limit(stores->merged).exceeded);
}

static int64_t used_bytes(struct et_store *store)
{
    return db_number(store->db, "SELECT (SELECT * FROM pragma_page_count) - (SELECT * FROM pragma_freelist_count)") *
           db_number(store->db, "SELECT * FROM pragma_page_size");
}

/* A step deletes fewer rows than the oldest hour has, and that is enough for the limit. */
TEST_WITH(hours_go_entirely, set_up, tear_down)
{
    enum { PROCESSES = 700 };
    struct et_policy policy = {.rollup_rows = 2, .fine_ns = 1, .five_ns = 1};
    dice_state = 16;
    spacing = 600;
    for (int i = 1; i <= PROCESSES; i++) {
        struct made made = make(START + i * SECOND);
        made.generation = i;
        put(stores->merged, &made);
    }
    fill_range(stores, START + HOUR, START + (ET_KEPT_HOURS + 4) * HOUR);
    keep(stores->merged, &policy, 60);
    keep(stores->merged, &policy, 61);
    assert_int_equal(db_number(stores->merged->db, "SELECT count(*) FROM profile WHERE level < 2"), 0);
    int64_t hours = hours_of(stores->merged);
    policy.max_bytes = used_bytes(stores->merged) - 20000;
    keep(stores->merged, &policy, 62);
    assert_int_equal(hours_of(stores->merged), hours - 1);
    assert_true(db_number(stores->merged->db, "SELECT min(at_ns) FROM profile") > START + HOUR);
    assert_int_equal(deleted(stores->merged, ET_DELETED_BIG_HOURS), 1);
}

static void put_unused_nodes(struct et_store *store, int count)
{
    assert_int_equal(et_store_begin(store), 0);
    int64_t module = et_store_module(store, "01", "/bin/gone");
    for (int i = 0; i < count; i++) {
        assert_true(et_store_node(store, 0, et_store_frame(store, module, (uint64_t)i, "unused", "", 0)) > 0);
    }
    assert_int_equal(et_store_end(store, true), 0);
}

TEST_WITH(garbage_goes_before_hours, set_up, tear_down)
{
    struct et_policy policy = {.rollup_rows = 2, .fine_ns = 1, .five_ns = 1};
    dice_state = 14;
    spacing = 300;
    fill(stores, 30 * HOUR);
    keep(stores->merged, &policy, 40);
    int64_t hours = hours_of(stores->merged);
    policy.max_bytes = used_bytes(stores->merged) + 50000;
    put_unused_nodes(stores->merged, 3000);
    assert_true(used_bytes(stores->merged) > policy.max_bytes);
    sqlite3_exec(stores->merged->db, "UPDATE collect SET hours = 1", NULL, NULL, NULL);
    keep(stores->merged, &policy, 41);
    assert_int_equal(hours_of(stores->merged), hours);
    assert_int_equal(deleted(stores->merged, ET_DELETED_NODES), 3000 - 1);
    assert_true(used_bytes(stores->merged) <= policy.max_bytes);
}

/* ---- garbage collection ---- */

TEST_WITH(unused_entries_go, set_up, tear_down)
{
    struct et_policy policy = {.rollup_rows = 2, .keep_ns = 24 * HOUR};
    static const char *const tables[] = {"node", "frame", "module", "labels", "origin"};
    static const enum et_deleted counts[] = {ET_DELETED_NODES, ET_DELETED_FRAMES, ET_DELETED_MODULES, ET_DELETED_LABELS,
                                             ET_DELETED_ORIGINS};
    dice_state = 15;
    spacing = 100;
    generation_ns = HOUR;
    fill(stores, 6 * HOUR);
    keep(stores->merged, &policy, 60);
    keep(stores->merged, &policy, 100);
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        char sql[64];
        snprintf(sql, sizeof sql, "SELECT count(*) FROM %s", tables[i]);
        int64_t left = db_number(stores->merged->db, sql), all = db_number(stores->raw->db, sql);
        assert_true(all > 5);
        assert_int_equal(left, 1); /* the greatest id */
        assert_int_equal(deleted(stores->merged, counts[i]), all - left);
    }
    assert_int_equal(db_number(stores->merged->db, "SELECT count(*) FROM mark"), 0);
    et_store_close(stores->raw);
    stores->raw = open_store(":memory:");
    fill(stores, HOUR); /* the same names again */
    compare_many(stores->raw, stores->merged, HOUR, 40, SECOND);
}

static void count_series(void *context, const struct et_series_row *row)
{
    (void)row;
    ++*(uint64_t *)context;
}

TEST_WITH(labels_of_deleted_profiles_go, set_up, tear_down)
{
    struct et_policy policy = {.rollup_rows = 2, .keep_ns = 24 * HOUR};
    dice_state = 16;
    spacing = 200;
    generation_ns = 2 * HOUR;
    one_process = true;
    fill(stores, 30 * HOUR);
    int64_t before = db_number(stores->merged->db, "SELECT count(*) FROM series_labels");
    keep(stores->merged, &policy, 50);
    assert_true(db_number(stores->merged->db, "SELECT count(*) FROM series_labels") < before / 2);
    for (int i = 1; i <= 15; i++) { /* what the lists say is what the stacks have */
        char text[32];
        struct et_selector selector = {0};
        const char *why = "";
        snprintf(text, sizeof text, "z=%d", i);
        assert_true(et_selector_add(&selector, text, false, &why));
        uint64_t found = 0, listed = 0;
        for (size_t k = 0; k < sizeof ASKED / sizeof *ASKED - 1; k++) {
            struct et_query query = {
                .kind = ASKED[k], .to_ns = INT64_MAX, .matchers = selector.matchers, .matcher_count = 1};
            struct et_profile *profile = NULL;
            assert_int_equal(et_store_load(stores->merged, &query, &profile), 0);
            found += profile->values + profile->counts;
            et_profile_free(profile);
            assert_int_equal(et_store_series_list(stores->merged, &query, count_series, &listed), 0);
        }
        assert_int_equal(found != 0, listed != 0);
        et_selector_free(&selector);
    }
}

/* Stores some hours in both stores, and keeps one of them by some random number of steps after each. */
static void live(struct stores *stores, const struct et_policy *policy, int64_t hours)
{
    for (int64_t hour = 0; hour < hours; hour++) {
        fill_range(stores, START + hour * HOUR, START + (hour + 1) * HOUR);
        if (dice(8) == 0) {
            sqlite3_exec(stores->merged->db, "UPDATE collect SET hours = 24", NULL, NULL, NULL);
        }
        for (uint64_t i = dice(60); i > 0; i--) {
            assert_true(run_keep_step(stores->merged, policy, START + (hour + 1) * HOUR) >= 0);
            if (dice(10) == 0) {
                int64_t at = START + hour * HOUR + (int64_t)dice(3600) * SECOND;
                fill_range(stores, at, at + 1);
            }
        }
    }
}

/* Asks about random parts of the hours that must be there. */
static void compare_newest(struct stores *stores, int64_t hours, int64_t kept, int queries)
{
    int64_t first = START + (hours > kept ? hours - kept : 0) * HOUR, length = START + hours * HOUR - first;
    for (int i = 0; i < queries; i++) {
        int64_t from = first + (int64_t)dice((uint64_t)(length / SECOND)) * SECOND;
        int64_t to = dice(4) ? from + (int64_t)dice((uint64_t)(length / SECOND)) * SECOND : INT64_MAX;
        compare(stores->raw, stores->merged, dice(4) ? from : first, to, dice(9), dice(5), dice(5));
    }
    struct et_query all = {.from_ns = first, .to_ns = INT64_MAX};
    equal(ask_origins(stores->raw, &all), ask_origins(stores->merged, &all));
}

TEST_WITH(collecting_changes_no_answer, set_up, tear_down)
{
    struct et_policy policy = {.rollup_rows = 2, .keep_ns = 12 * HOUR};
    struct et_residents *residents = et_residents_new();
    et_store_set_residents(stores->merged, residents); /* nothing that it writes is undone */
    collected = true;
    dice_state = 17;
    spacing = 800;
    generation_ns = HOUR;
    for (int64_t hours = 20; hours <= 60; hours += 20) {
        live(stores, &policy, hours);
        compare_newest(stores, hours, 12, 40);
    }
    assert_int_equal(run_keep_all(stores->merged, &policy, START + 60 * HOUR), 0);
    compare_newest(stores, 60, 12, 100);
    assert_true(deleted(stores->merged, ET_DELETED_PASSES) > 5);
    assert_true(deleted(stores->merged, ET_DELETED_NODES) > 500);
    assert_true(deleted(stores->merged, ET_DELETED_ORIGINS) > 20);
    et_store_set_residents(stores->merged, NULL);
    et_residents_free(residents);
}

static void compare_twelve_hours(struct stores *stores)
{
    compare_newest(stores, 30, 12, 1);
}

TEST_WITH(killed_collections_change_no_answer, set_up, tear_down)
{
    struct et_policy policy = {.rollup_rows = 2, .keep_ns = 12 * HOUR};
    collected = true;
    dice_state = 18;
    spacing = 900;
    generation_ns = HOUR;
    fill(stores, 30 * HOUR);
    assert_int_equal(run_keep_all(stores->merged, &KEEP_ALL, START + 18 * HOUR), 0);
    sqlite3_exec(stores->merged->db, "UPDATE bucket SET seen_ns = start_ns WHERE NOT dirty", NULL, NULL, NULL);
    keep_with_kills(stores, &policy, START + 30 * HOUR, 4, 100, compare_twelve_hours);
    assert_true(deleted(stores->merged, ET_DELETED_PASSES) == 1 && deleted(stores->merged, ET_DELETED_NODES) > 100);
    compare_newest(stores, 30, 12, 60);
}

static uint64_t message_total(struct et_store *store)
{
    struct et_query all = {.kind = "cpu", .to_ns = INT64_MAX};
    struct et_profile *profile = NULL;
    assert_int_equal(et_store_load(store, &all, &profile), 0);
    uint64_t total = profile->total;
    for (size_t i = 1; i < profile->node_count; i++) {
        const struct et_frame *frame = &profile->frames[profile->nodes[i].frame];
        assert_string_equal(et_text(&profile->strings, profile->modules[frame->module - 1].path), "/bin/app");
        assert_int_equal(frame->address, 0x100000 + 16 * (i - 1));
    }
    et_profile_free(profile);
    return total;
}

/* A device sends on, or comes again, after so many steps of a pass that found its nodes without a profile. */
static void come_again(int steps, bool ended)
{
    struct et_store *store = open_store(":memory:");
    struct et_policy policy = {.rollup_rows = 2, .keep_ns = HOUR};
    int64_t now = MESSAGE_NOW + 72 * HOUR;
    struct message m;
    message_init(&m, 1, 0);
    m.message.last = ended;
    assert_int_equal(message_push(store, &m), ET_ACCEPTED);
    sqlite3_exec(store->db, "UPDATE bucket SET dirty = 0", NULL, NULL, NULL);
    for (int i = 0; i < steps; i++) {
        assert_true(run_keep_step(store, &policy, now) >= 0);
    }
    message_init(&m, ended ? 2 : 1, ended ? 0 : 1);
    m.message.unix_minus_uptime_ns = (uint64_t)now;
    m.profile.n_node = m.profile.n_value = 1; /* only the dictionary has the others */
    assert_int_equal(message_push(store, &m), ET_ACCEPTED);
    assert_int_equal(run_keep_all(store, &policy, now), 0);
    assert_int_equal(message_total(store), 20);
    message_init(&m, ended ? 2 : 1, ended ? 1 : 2);
    m.message.unix_minus_uptime_ns = (uint64_t)now;
    assert_int_equal(message_push(store, &m), ET_ACCEPTED);
    assert_int_equal(message_total(store), 70);
    assert_true(steps < 20 || deleted(store, ET_DELETED_PASSES) == 1);
    et_store_close(store);
}

/* The same without a segment: after so many steps a profile uses the nodes of deleted ones. */
static void use_again(int steps)
{
    struct et_store *store = open_store(":memory:"), *raw = open_store(":memory:");
    struct et_policy policy = {.rollup_rows = 2, .keep_ns = HOUR};
    struct made made = make(START);
    put(store, &made);
    sqlite3_exec(store->db, "UPDATE bucket SET dirty = 0", NULL, NULL, NULL);
    for (int i = 0; i < steps; i++) {
        assert_true(run_keep_step(store, &policy, START + 72 * HOUR) >= 0);
    }
    made.start_ns = START + 72 * HOUR;
    made.end_ns = made.start_ns + SECOND;
    put(store, &made);
    put(raw, &made);
    assert_int_equal(run_keep_all(store, &policy, START + 72 * HOUR), 0);
    for (size_t i = 0; i < sizeof ASKED / sizeof *ASKED; i++) {
        struct et_query query = {.kind = ASKED[i], .from_ns = made.start_ns, .to_ns = INT64_MAX, .group = "step"};
        equal(ask(raw, &query), ask(store, &query));
    }
    et_store_close(store);
    et_store_close(raw);
}

TEST_WITH(dictionaries_of_segments_stay, set_up, tear_down)
{
    dice_state = 21;
    for (int steps = 0; steps < 24; steps++) {
        come_again(steps, false);
        come_again(steps, true);
        use_again(steps);
    }
}

/* A segment that ended takes no more messages, so its process goes with its profiles. A repeated message is still
 * known. */
TEST_WITH(processes_of_ended_segments_go, set_up, tear_down)
{
    struct et_store *store = open_store(":memory:");
    struct et_policy policy = {.keep_ns = HOUR};
    struct message m;
    for (uint64_t i = 1; i <= 3; i++) {
        message_init(&m, i, 0);
        m.tag.value = i == 1 ? "ended" : i == 2 ? "cut off" : "last";
        m.message.last = i == 1;
        assert_int_equal(message_push(store, &m), ET_ACCEPTED);
    }
    sqlite3_exec(store->db, "UPDATE bucket SET dirty = 0", NULL, NULL, NULL);
    assert_int_equal(run_keep_all(store, &policy, MESSAGE_NOW + 72 * HOUR), 0);
    assert_int_equal(db_number(store->db, "SELECT count(*) FROM origin WHERE tags LIKE '%ended%'"), 0);
    assert_int_equal(db_number(store->db, "SELECT count(*) FROM origin"), 2);
    assert_int_equal(message_push_number(store, 1, 0), ET_REPEATED);
    assert_int_equal(message_push_number(store, 1, 1), ET_STALE);
    et_store_close(store);
}

/* ---- the work of a step ---- */

/* A step merges some processes of many. */
TEST_WITH(a_step_merges_some_of_many_processes, set_up, tear_down)
{
    enum { FLEET = 250 };
    struct et_store *store = open_store(":memory:");
    int64_t merged = 0, before = 0, after;
    dice_state = 31;
    for (int i = 0; i < FLEET; i++) {
        struct made made = make(START + i * SECOND / 10);
        made.kind = 2;
        made.device = i;
        put(store, &made);
    }
    while (run_keep_step(store, &KEEP_ALL, START + HOUR) == 1) {
        after = db_number(store->db, "SELECT count(*) FROM profile WHERE level > 0");
        merged = after - before > merged ? after - before : merged;
        before = after;
    }
    assert_int_equal(before, FLEET);
    assert_in_range(merged, 1, FLEET * 4 / 5);
    et_store_close(store);
}

TEST_WITH(damaged_profiles_stop_a_collection, set_up, tear_down)
{
    struct et_policy policy = {.rollup_rows = 2, .fine_ns = 1, .five_ns = 1};
    dice_state = 19;
    fill(stores, HOUR);
    keep(stores->merged, &policy, 10);
    put_unused_nodes(stores->merged, 10);
    sqlite3_exec(stores->merged->db,
                 "UPDATE collect SET hours = 24;"
                 "UPDATE stacks SET stacks = x'ff' WHERE profile = (SELECT max(profile) FROM stacks)",
                 NULL, NULL, NULL);
    int64_t nodes = db_number(stores->merged->db, "SELECT count(*) FROM node");
    keep(stores->merged, &policy, 11);
    assert_int_equal(db_number(stores->merged->db, "SELECT count(*) FROM node"), nodes);
    assert_int_equal(deleted(stores->merged, ET_DELETED_NOTHING), 1);
    assert_int_equal(deleted(stores->merged, ET_DELETED_PASSES), 0);
    sqlite3_exec(stores->merged->db, "DELETE FROM profile WHERE id = (SELECT max(profile) FROM stacks)", NULL, NULL,
                 NULL);
    keep(stores->merged, &policy, 40);
    assert_int_equal(deleted(stores->merged, ET_DELETED_NODES), 9);
}

static void on_name(void *context, const char *name)
{
    et_buf_printf(context, "%s ", name);
}

static void on_series(void *context, const struct et_series_row *row)
{
    et_buf_printf(context, "%s/%s/%s ", row->service, row->host, row->kind);
}

TEST_WITH(labels_are_listed, set_up, tear_down)
{
    struct et_query all = {.to_ns = INT64_MAX};
    struct et_buf out = {0};
    dice_state = 10;
    fill(stores, HOUR);
    assert_int_equal(et_store_label_names(stores->merged, &all, on_name, &out), 0);
    assert_string_equal(out.data, "device host service_name step version ");
    out.size = 0;
    assert_int_equal(et_store_label_values(stores->merged, &all, "device", on_name, &out), 0);
    assert_string_equal(out.data, "own pi-0 pi-1 pi-2 ");
    out.size = 0;
    assert_int_equal(et_store_label_values(stores->merged, &all, "service_name", on_name, &out), 0);
    assert_string_equal(out.data, "svc ");
    out.size = 0;
    assert_int_equal(et_store_label_values(stores->merged, &all, "nothing", on_name, &out), 0);
    assert_int_equal(out.size, 0);
    struct et_selector selector = {0};
    const char *why = "";
    assert_true(et_selector_add(&selector, "host=box-1", false, &why));
    all.matchers = selector.matchers;
    all.matcher_count = 1;
    et_buf_text(&out, "");
    assert_int_equal(et_store_series_list(stores->merged, &all, on_series, &out), 0);
    assert_string_equal(out.data, "svc/box-1/alloc svc/box-1/cpu svc/box-1/live svc/box-1/wait ");
    out.size = 0;
    all.from_ns = START + 2 * HOUR;
    assert_int_equal(et_store_series_list(stores->merged, &all, on_series, &out), 0);
    assert_int_equal(out.size, 0);
    et_selector_free(&selector);
    et_buf_free(&out);
}

TEST_WITH(many_lines_share_the_last, set_up, tear_down)
{
    dice_state = 11;
    for (int i = 0; i < 3 * ET_TIMELINE_LINES; i++) {
        struct made made = make(START + i * SECOND);
        made.device = i;
        made.kind = 2;
        put(stores->merged, &made);
    }
    struct et_query query = {.kind = "wait", .group = "host", .from_ns = START, .to_ns = START + HOUR};
    struct et_timeline lines;
    struct et_profile *profile = NULL;
    uint64_t sum = 0;
    assert_int_equal(et_store_series(stores->merged, &query, MINUTE, &lines), 0);
    assert_int_equal(lines.steps, 60);
    assert_int_equal(lines.line_count, ET_TIMELINE_LINES);
    assert_string_equal(lines.lines[ET_TIMELINE_LINES - 1].name, "[others]");
    for (size_t i = 0; i < lines.line_count; i++) {
        sum += lines.lines[i].total;
        assert_true(i < 2 || i + 1 == lines.line_count || lines.lines[i - 1].total >= lines.lines[i].total);
    }
    assert_int_equal(et_store_load(stores->merged, &query, &profile), 0);
    assert_int_equal(sum, profile->total);
    et_profile_free(profile);
    et_timeline_free(&lines);
    assert_int_equal(et_store_series(stores->merged, &query, 0, &lines), -EINVAL);
    assert_int_equal(et_store_series(stores->merged, &query, SECOND / 4, &lines), -EINVAL);
    query.to_ns = START - 1;
    assert_int_equal(et_store_series(stores->merged, &query, SECOND, &lines), -EINVAL);
}

int main(int argc, char **argv)
{
    path = db_path(argc, argv, "merge.db");
    return test_run();
}
