/*
 * Storing and querying: compact messages through et_ingest_compact() into a store, and the answers of queries. Messages
 * are made with the generated packer, so each test states only what matters to it.
 */
#include "db.h"
#include "message.h"
#include "tools/store/bounds.h"
#include "tools/store/store_internal.h"
#include "keep.h"
#include "tools/symbols/symbols.h"
#include "tools/profile/tree.h"
#include "tools/lib/time_text.h"
#include "tools/formats/pprof_read.h"
#include "tests/unit/test.h"

#include <limits.h>

static char *path;

/* ---- the store ---- */

static struct et_store *open_store(void)
{
    const char *why = "";
    struct et_store *store = et_store_open(path, true, &why);
    if (!store) {
        fail_msg("%s: %s", path, why);
    }
    return store;
}

static struct et_store *store;

static int set_up(void **state)
{
    (void)state;
    db_remove(path);
    store = open_store();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    et_store_close(store);
    db_remove(path);
    return 0;
}

static struct et_profile *load(struct et_store *store, const struct et_query *query)
{
    struct et_profile *profile = NULL;
    assert_int_equal(et_store_load(store, query, &profile), 0);
    return profile;
}

static uint64_t total(struct et_store *store)
{
    struct et_query all = {.to_ns = INT64_MAX};
    struct et_profile *profile = load(store, &all);
    uint64_t sum = profile->total;
    et_profile_free(profile);
    return sum;
}

static int64_t count(struct et_store *store, const char *table)
{
    char sql[64];
    sqlite3_stmt *statement;
    snprintf(sql, sizeof sql, "SELECT count(*) FROM %s", table);
    assert_int_equal(sqlite3_prepare_v2(store->db, sql, -1, &statement, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    int64_t rows = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return rows;
}

TEST_WITH(stored_messages_are_loaded, set_up, tear_down)
{
    struct et_query query = {.service = "svc", .to_ns = INT64_MAX};
    assert_int_equal(message_push_number(store, 1, 0), ET_ACCEPTED);
    struct et_profile *p = load(store, &query);
    assert_int_equal(p->total, 50);
    assert_int_equal(p->samples, 5);
    assert_int_equal(p->node_count, 4);
    assert_int_equal(p->start_ns, MESSAGE_NOW + MESSAGE_SECOND);
    assert_int_equal(p->end_ns, MESSAGE_NOW + 2 * MESSAGE_SECOND);
    for (size_t i = 1; i < p->node_count; i++) {
        const struct et_frame *frame = &p->frames[p->nodes[i].frame];
        assert_true(p->nodes[i].parent < i);
        assert_string_equal(et_text(&p->strings, p->modules[frame->module - 1].path), "/bin/app");
        assert_int_equal(frame->address, 0x100000 + 16 * (i - 1));
        assert_int_equal(p->nodes[i].self, i == 1 ? 20 : i == 3 ? 30 : 0);
    }
    et_profile_free(p);
}

TEST_WITH(repeated_messages_count_once, set_up, tear_down)
{
    assert_int_equal(message_push_number(store, 1, 0), ET_ACCEPTED);
    assert_int_equal(message_push_number(store, 1, 0), ET_REPEATED);
    assert_int_equal(message_push_number(store, 1, 1), ET_ACCEPTED);
    assert_int_equal(message_push_number(store, 1, 0), ET_REPEATED);
    assert_int_equal(message_push_number(store, 1, 1), ET_REPEATED);
    assert_int_equal(total(store), 100);
    assert_int_equal(count(store, "profile"), 2);
    assert_int_equal(count(store, "node"), 3);
}

TEST_WITH(gaps_and_strangers_are_stale, set_up, tear_down)
{
    assert_int_equal(message_push_number(store, 2, 1), ET_STALE);
    assert_int_equal(message_push_number(store, 1, 0), ET_ACCEPTED);
    assert_int_equal(message_push_number(store, 1, 2), ET_STALE);
    assert_int_equal(message_push_number(store, 1, UINT32_MAX), ET_STALE);
    assert_int_equal(message_push_number(store, 1, 1), ET_ACCEPTED);
    assert_int_equal(total(store), 100);
    struct message s;
    message_init(&s, 1, 2);
    s.message.last = 1;
    assert_int_equal(count(store, "chunk"), 1);
    assert_int_equal(message_push(store, &s), ET_ACCEPTED);
    assert_int_equal(count(store, "chunk") + count(store, "span"), 0); /* the ended segment's dictionary is gone */
    assert_int_equal(message_push_number(store, 1, 2), ET_REPEATED);
    assert_int_equal(message_push_number(store, 1, 3), ET_STALE);
}

TEST_WITH(a_restart_loses_nothing, set_up, tear_down)
{
    assert_int_equal(message_push_number(store, 1, 0), ET_ACCEPTED);
    for (uint32_t sequence = 1; sequence < 5; sequence++) {
        et_store_close(store);
        store = open_store();
        struct message s;
        message_init(&s, 1, sequence);
        /* one more node below the last one, in the module of message 0 */
        edgeprof__v1__nodes__init(&s.nodes);
        s.back[0] = 1;
        s.frame[0] = 5000 + (int64_t)sequence;
        s.nodes.back = s.back;
        s.nodes.frame = s.frame;
        s.nodes.n_back = s.nodes.n_frame = 1;
        s.message.nodes = &s.nodes;
        s.leaf[0] = 3 + sequence;
        s.profile.n_node = s.profile.n_value = 1;
        assert_int_equal(message_push(store, &s), ET_ACCEPTED);
    }
    struct et_query all = {.to_ns = INT64_MAX};
    struct et_profile *p = load(store, &all);
    assert_int_equal(p->total, 50 + 4 * 20);
    assert_int_equal(p->node_count, 8);
    for (uint32_t i = 4; i < 8; i++) {
        assert_int_equal(p->nodes[i].parent, i - 1);
        assert_int_equal(p->nodes[i].self, 20);
    }
    et_profile_free(p);
}

/* One more node below the root, with the message's value. */
static enum et_outcome push_node(struct et_store *store, uint64_t segment, uint32_t sequence)
{
    struct message s;
    message_init(&s, segment, sequence);
    edgeprof__v1__nodes__init(&s.nodes);
    s.back[0] = 0;
    s.frame[0] = 4096 + sequence;
    s.nodes.back = s.back;
    s.nodes.frame = s.frame;
    s.nodes.n_back = s.nodes.n_frame = 1;
    s.message.nodes = &s.nodes;
    s.leaf[0] = 1 + sequence;
    s.profile.n_node = s.profile.n_value = 1;
    return message_push(store, &s);
}

/* A device's messages may go to several processes in turn: no process may rely on its cache. */
TEST_WITH(processes_share_a_segment, set_up, tear_down)
{
    struct et_store *stores[2] = {store, open_store()};
    for (uint32_t sequence = 0; sequence < 12; sequence++) {
        struct et_store *store = stores[sequence / 3 % 2];
        assert_int_equal(push_node(store, 1, sequence), ET_ACCEPTED);
        assert_int_equal(push_node(store, 1, sequence), ET_REPEATED);
    }
    et_store_close(stores[1]);
    struct et_query all = {.to_ns = INT64_MAX};
    struct et_profile *p = load(store, &all);
    assert_int_equal(p->total, 12 * 20);
    assert_int_equal(p->node_count, 13);
    for (uint32_t i = 1; i < p->node_count; i++) {
        assert_int_equal(p->nodes[i].parent, 0);
        assert_int_equal(p->nodes[i].self, 20);
    }
    et_profile_free(p);
}

/* More segments than the cache holds. */
TEST_WITH(many_segments_go_on, set_up, tear_down)
{
    enum { SEGMENTS = 1100 };
    assert_int_equal(et_store_group_begin(store), 0);
    for (uint32_t sequence = 0; sequence < 3; sequence++) {
        for (uint64_t segment = 1; segment <= SEGMENTS; segment++) {
            assert_int_equal(push_node(store, segment, sequence), ET_ACCEPTED);
        }
    }
    assert_int_equal(et_store_group_end(store), 0);
    assert_true(store->cache.count > 0 && store->cache.count < SEGMENTS);
    assert_int_equal(total(store), 3 * 20 * SEGMENTS);
}

TEST_WITH(a_malformed_message_leaves_nothing, set_up, tear_down)
{
    struct message s;
    message_init(&s, 1, 0);
    s.leaf[1] = 3; /* node 4 of 3, after module, nodes and origin were written */
    assert_int_equal(message_push(store, &s), ET_MALFORMED);
    static const char *const tables[] = {"module", "frame", "node", "origin", "profile", "segment", "span", "chunk"};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        assert_int_equal(count(store, tables[i]), 0);
    }
    assert_int_equal(message_push_number(store, 1, 0), ET_ACCEPTED);
}

TEST_WITH(a_full_disk_is_all_or_nothing, set_up, tear_down)
{
    uint32_t sequence = 0;
    assert_int_equal(sqlite3_exec(store->db, "PRAGMA max_page_count = 40", NULL, NULL, NULL), SQLITE_OK);
    enum et_outcome outcome = ET_ACCEPTED;
    for (; outcome == ET_ACCEPTED && sequence < 5000; sequence++) {
        outcome = message_push_number(store, 1, sequence);
    }
    assert_int_equal(outcome, ET_UNAVAILABLE);
    assert_int_equal(store->failed, -ENOSPC);
    assert_non_null(strstr(et_store_why(store), "full"));
    uint32_t kept = sequence - 1;
    assert_true(kept > 10);
    assert_int_equal(total(store), 50 * (uint64_t)kept);
    assert_int_equal(message_push_number(store, 1, kept), ET_UNAVAILABLE);
    assert_int_equal(message_push_number(store, 1, kept - 1), ET_REPEATED);
    assert_int_equal(sqlite3_exec(store->db, "PRAGMA max_page_count = 4000", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(message_push_number(store, 1, kept), ET_ACCEPTED); /* the device has retried */
    assert_int_equal(total(store), 50 * (uint64_t)(kept + 1));
}

/* Any step of writing a message may fail: nothing is stored, and a retry succeeds. */
static int fail_at, steps;
static int progress(void *context)
{
    (void)context;
    return ++steps == fail_at;
}

TEST_WITH(a_failing_step_leaves_nothing, set_up, tear_down)
{
    bool failed = true;
    for (fail_at = 1; failed && fail_at < 100000; fail_at += 3) {
        uint64_t segment = (uint64_t)fail_at;
        steps = 0;
        sqlite3_progress_handler(store->db, 5, progress, NULL);
        failed = message_push_number(store, segment, 0) != ET_ACCEPTED;
        sqlite3_progress_handler(store->db, 0, NULL, NULL);
        struct et_segment_row row;
        assert_int_equal(et_store_segment(store, segment, &row), failed ? 0 : 1);
        if (failed) {
            assert_int_equal(count(store, "profile"), (fail_at - 1) / 3);
            assert_int_equal(message_push_number(store, segment, 0), ET_ACCEPTED);
        }
    }
    assert_true(fail_at > 10);
    assert_false(failed);
}

/* Stores a profile with a stack of 5 without labels, and one of 7 with. */
static void store_labelled(struct et_store *store)
{
    struct et_origin origin = {
        .service = "svc", .tags = "", .host = "", .boot_id = "", .executable = "", .arch = "", .agent = ""};
    struct et_stored stored = {.kind = "cpu", .unit = "nanoseconds", .end_ns = 1, .period = 1, .quantum = 1};
    assert_int_equal(et_store_begin(store), 0);
    int64_t node = et_store_node(store, 0, et_store_frame(store, 0, 100, "", "", 0));
    struct et_stored_label_set set = {.labels = et_store_labels(store, "user=1\n")};
    stored.origin = et_store_origin(store, &origin);
    stored.stacks.columns = ET_COLUMN_VALUE | ET_COLUMN_LABEL_SET;
    et_stacks_add(&stored.stacks, &(struct et_stack){.node = node, .value = 5});
    et_stacks_add(&stored.stacks, &(struct et_stack){.node = node, .value = 7, .label_set = set});
    assert_int_equal(et_store_profile(store, &stored), 0);
    et_stacks_free(&stored.stacks);
    assert_int_equal(et_store_end(store, true), 0);
}

/* Any step of reading a profile for a relay may fail: it is read as a whole or not at all. */
TEST_WITH(a_failing_read_is_no_smaller_profile, set_up, tear_down)
{
    struct et_arrival arrival;
    int whole = 0;
    store_labelled(store);
    steps = INT_MAX;
    for (fail_at = 1; steps >= fail_at - 1; fail_at++) { /* until no step failed */
        steps = 0;
        sqlite3_progress_handler(store->db, 1, progress, NULL);
        int got = et_store_next(store, 0, &arrival);
        sqlite3_progress_handler(store->db, 0, NULL, NULL);
        assert_int_not_equal(got, 0);
        if (got == 1) {
            assert_int_equal(arrival.profile->total, 12);
            assert_int_equal(arrival.profile->entry_count, 2);
            et_profile_free(arrival.profile);
            whole++;
        }
    }
    assert_true(whole > 0 && fail_at > 20);
}

TEST_WITH(devices_without_a_clock_are_dated_on_arrival, set_up, tear_down)
{
    struct message s;
    message_init(&s, 1, 0);
    s.message.unix_minus_uptime_ns = 0;
    assert_int_equal(message_push(store, &s), ET_ACCEPTED);
    struct et_query all = {.to_ns = INT64_MAX};
    struct et_profile *p = load(store, &all);
    assert_int_equal(p->end_ns, MESSAGE_NOW + 100 * MESSAGE_SECOND);
    assert_int_equal(p->start_ns, MESSAGE_NOW + 99 * MESSAGE_SECOND);
    et_profile_free(p);
}

static uint64_t total_between(struct et_store *store, int64_t from, int64_t to)
{
    struct et_query query = {.from_ns = MESSAGE_NOW + from * MESSAGE_SECOND,
                             .to_ns = MESSAGE_NOW + to * MESSAGE_SECOND};
    struct et_profile *p = load(store, &query);
    uint64_t sum = p->total;
    et_profile_free(p);
    return sum;
}

TEST_WITH(time_ranges_select, set_up, tear_down)
{
    struct message s;
    for (uint32_t i = 0; i < 10; i++) { /* [1,2) .. [10,11) */
        message_init(&s, 1, i);
        s.profile.start_ns = (i + 1) * (uint64_t)MESSAGE_SECOND;
        assert_int_equal(message_push(store, &s), ET_ACCEPTED);
    }
    assert_int_equal(total_between(store, 0, 100), 500);
    assert_int_equal(total_between(store, 0, 1), 0);
    assert_int_equal(total_between(store, 1, 3), 100);
    assert_int_equal(total_between(store, 11, 100), 0);
    assert_int_equal(total_between(store, 10, 11), 50);
}

static uint64_t total_tagged(struct et_store *store, char *tag)
{
    struct et_selector selector = {0};
    const char *why;
    assert_true(et_selector_add(&selector, tag, true, &why));
    struct et_query query = {.to_ns = INT64_MAX, .matchers = selector.matchers, .matcher_count = 1};
    struct et_profile *p = load(store, &query);
    uint64_t sum = p->total;
    et_profile_free(p);
    et_selector_free(&selector);
    return sum;
}

TEST_WITH(services_and_tags_select, set_up, tear_down)
{
    struct message s;
    for (uint64_t i = 0; i < 4; i++) {
        message_init(&s, i + 1, 0);
        s.origin.service = i < 3 ? "svc" : "other'; DROP TABLE profile; --";
        s.tag.value = i < 2 ? "1" : "12";
        assert_int_equal(message_push(store, &s), ET_ACCEPTED);
    }
    struct et_query svc = {.service = "svc", .to_ns = INT64_MAX};
    struct et_profile *p = load(store, &svc);
    assert_int_equal(p->total, 150);
    et_profile_free(p);
    assert_int_equal(total_tagged(store, "version=1"), 100);
    assert_int_equal(total_tagged(store, "version=12"), 100);
    assert_int_equal(total_tagged(store, "version="), 0);
    assert_int_equal(total_tagged(store, "ersion=1"), 0);
    assert_int_equal(total(store), 200);
}

/* A tag or label named service_name, as senders of other formats have, neither hides the service nor is one. */
TEST_WITH(labels_are_no_service, set_up, tear_down)
{
    struct et_origin origin = {.service = "svc",
                               .tags = "service_name=tagged\n",
                               .host = "",
                               .boot_id = "",
                               .executable = "",
                               .arch = "",
                               .agent = ""};
    struct et_stored stored = {.kind = "cpu", .unit = "nanoseconds", .end_ns = 1, .period = 1, .quantum = 1};
    assert_int_equal(et_store_begin(store), 0);
    uint64_t node = (uint64_t)et_store_node(store, 0, et_store_frame(store, 0, 100, "", "", 0));
    const uint64_t fields[] = {(uint64_t)et_store_labels(store, "service_name=labelled\n"), 0, 0, 0};
    stored.stacks.columns = ET_COLUMN_VALUE | ET_COLUMN_LABEL_SET;
    for (size_t i = 0; i < 4; i++) {
        et_varint_put(&stored.stacks.label_sets, fields[i]);
    }
    et_varint_put(&stored.stacks.column[0], 2 * node);
    et_varint_put(&stored.stacks.column[1], 5);
    et_varint_put(&stored.stacks.column[3], 1);
    stored.origin = et_store_origin(store, &origin);
    assert_int_equal(et_store_profile(store, &stored), 0);
    et_stacks_free(&stored.stacks);
    assert_int_equal(et_store_end(store, true), 0);
    assert_int_equal(total_tagged(store, "service_name=svc"), 5);
    assert_int_equal(total_tagged(store, "service_name=tagged"), 0);
    assert_int_equal(total_tagged(store, "service_name=labelled"), 0);
}

/* More than 2^20 spans: every stack keeps its own value. */
TEST_WITH(many_contexts_keep_stacks_apart, set_up, tear_down)
{
    enum { CONTEXTS = (1 << 20) + 200 };
    struct et_origin origin = {
        .service = "svc", .tags = "", .host = "", .boot_id = "", .executable = "", .arch = "", .agent = ""};
    struct et_stored stored = {.kind = "cpu", .unit = "nanoseconds", .end_ns = 1, .period = 1, .quantum = 1};
    assert_int_equal(et_store_begin(store), 0);
    for (uint64_t i = 1; i <= 3; i++) {
        assert_int_equal(et_store_node(store, 0, et_store_frame(store, 0, 100 + i, "", "", 0)), i);
    }
    stored.stacks.columns = ET_COLUMN_VALUE | ET_COLUMN_LABEL_SET;
    for (uint64_t span = 1; span <= CONTEXTS; span++) {
        const uint64_t fields[] = {0, span, 0, 0};
        for (size_t i = 0; i < 4; i++) {
            et_varint_put(&stored.stacks.label_sets, fields[i]);
        }
    }
    static const uint64_t rows[2][3] = {{4, 5, (1 << 20) + 100}, {2, 7, 100}}; /* nodes 2 and 3, values 5 and 7 */
    for (size_t i = 0; i < 2; i++) {
        et_varint_put(&stored.stacks.column[0], rows[i][0]);
        et_varint_put(&stored.stacks.column[1], rows[i][1]);
        et_varint_put(&stored.stacks.column[3], rows[i][2]);
    }
    stored.origin = et_store_origin(store, &origin);
    assert_int_equal(et_store_profile(store, &stored), 0);
    et_stacks_free(&stored.stacks);
    assert_int_equal(et_store_end(store, true), 0);
    struct et_query query = {.kind = "cpu", .to_ns = INT64_MAX, .keep_labels = true};
    struct et_profile *p = load(store, &query);
    assert_int_equal(p->entry_count, 2);
    for (size_t i = 0; i < 2; i++) {
        bool second = p->frames[p->nodes[p->entries[i].node].frame].address == 102;
        assert_int_equal(p->entries[i].value, second ? 5 : 7);
        assert_string_equal(et_text(&p->strings, p->entries[i].labels),
                            second ? "span_id=0000000000100064\n" : "span_id=0000000000000064\n");
    }
    et_profile_free(p);
}

TEST_WITH(few_message_bytes_need_little_memory, set_up, tear_down)
{
    const char *why = "";
    size_t size = ET_MESSAGE_LIMIT;
    uint8_t *bytes = et_alloc(size, 1);
    for (size_t i = 0; i + 1 < size; i += 2) { /* two million empty modules */
        bytes[i] = 4 << 3 | 2;
    }
    assert_null(et_message_decode(bytes, size, &why));
    assert_true(*why != '\0');
    free(bytes);
}

/* ---- pprof ---- */

static enum et_outcome push_pprof(struct et_store *store, const char *name, const void *bytes, size_t size,
                                  const char **why)
{
    struct et_pprof_push one = {.name = name, .bytes = bytes, .size = size};
    return et_ingest_pprof(store, &one, MESSAGE_NOW, why);
}

TEST_WITH(pprof_survives_a_round_trip, set_up, tear_down)
{
    const char *why = "";
    struct et_query all = {.to_ns = INT64_MAX}, cpu = {.service = "pp", .to_ns = INT64_MAX};
    struct et_buf bytes = {0};
    assert_int_equal(message_push_number(store, 1, 0), ET_ACCEPTED);
    struct et_profile *p = load(store, &all);
    struct et_symbols *symbols = et_symbols_new();
    p->modules[0].path = et_intern(&p->strings, "[nowhere]");
    et_symbolize(symbols, p);
    et_symbols_free(symbols);
    et_pprof_encode(p, &bytes);
    et_profile_free(p);
    assert_int_equal(push_pprof(store, "pp{a=b}", bytes.data, bytes.size, &why), ET_ACCEPTED);
    p = load(store, &cpu);
    struct et_table table;
    symbols = et_symbols_new();
    et_symbolize(symbols, p);
    et_symbols_free(symbols);
    et_table_make(p, &table);
    assert_int_equal(p->total, 50);
    assert_int_equal(table.count, 3);
    assert_string_equal(et_text(&p->strings, table.rows[0].function), "[nowhere]+0x100020");
    assert_int_equal(table.rows[0].self, 30);
    et_table_free(&table);
    et_profile_free(p);
    assert_int_equal(push_pprof(store, "bad{", bytes.data, bytes.size, &why), ET_MALFORMED);
    assert_int_equal(push_pprof(store, "", bytes.data, bytes.size, &why), ET_MALFORMED);
    for (size_t cut = 0; cut < bytes.size; cut++) { /* a truncated one may be valid, but must not crash */
        push_pprof(store, "cut", bytes.data, cut, &why);
    }
    et_buf_free(&bytes);
}

/* With bounds, a profile that began now. */
static enum et_outcome push_long(struct et_store *store, uint64_t segment, int64_t seconds)
{
    struct message s;
    message_init(&s, segment, 0);
    s.message.unix_minus_uptime_ns = (uint64_t)et_now();
    s.profile.start_ns = 1;
    s.profile.duration_ns = (uint64_t)(seconds * MESSAGE_SECOND);
    return message_push(store, &s);
}

TEST_WITH(a_profile_ends_within_the_bounds, set_up, tear_down)
{
    struct et_bounds *bounds = et_bounds_new(&(struct et_bounds_config){.future_ns = 600 * MESSAGE_SECOND});
    et_store_set_bounds(store, bounds);
    assert_int_equal(push_long(store, 1, 10), ET_ACCEPTED);
    assert_int_equal(push_long(store, 2, 3600), ET_MALFORMED);
    assert_int_equal(push_long(store, 3, 4000000000), ET_MALFORMED);
    et_store_set_bounds(store, NULL);
    assert_int_equal(count(store, "profile"), 1);
    assert_int_equal(push_long(store, 2, 3600), ET_ACCEPTED);
    et_bounds_free(bounds);
}

TEST_WITH(a_late_query_ends, set_up, tear_down)
{
    struct et_query all = {.to_ns = INT64_MAX};
    struct et_profile *profile = NULL;
    struct et_store *writer = store;
    const char *why = "";
    assert_int_equal(message_push_number(writer, 1, 0), ET_ACCEPTED);
    struct et_store *reader = et_store_open(path, false, &why);
    assert_non_null(reader);
    struct et_budget budget;
    et_budget_begin(&budget, 1, 0);
    et_store_set_budget(reader, &budget);
    assert_int_equal(et_store_load(reader, &all, &profile), -ETIME);
    assert_non_null(strstr(et_store_why(reader), "query-time"));
    assert_int_equal(message_push_number(writer, 2, 0), ET_ACCEPTED); /* and the log can be emptied */
    assert_int_equal(sqlite3_wal_checkpoint_v2(writer->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL), SQLITE_OK);
    et_budget_begin(&budget, MESSAGE_SECOND / 20, 0);
    assert_int_equal(
        sqlite3_exec(reader->db, "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT sum(i) FROM n",
                     NULL, NULL, NULL),
        SQLITE_INTERRUPT);
    et_store_set_budget(reader, NULL);
    assert_int_equal(total(reader), 100);
    et_store_close(reader);
}

TEST_WITH(reads_share_a_budget, set_up, tear_down)
{
    struct et_query all = {.to_ns = INT64_MAX};
    struct et_profile *profile = NULL;
    struct et_budget budget;
    assert_int_equal(message_push_number(store, 1, 0), ET_ACCEPTED);
    et_budget_begin(&budget, 0, 0);
    et_store_set_budget(store, &budget);
    assert_int_equal(et_store_load(store, &all, &profile), 0);
    size_t one = budget.used;
    assert_int_equal(one, et_profile_memory(profile)); /* what it needed meanwhile is given back */
    et_profile_free(profile);
    et_budget_begin(&budget, 0, one * 20);
    int loads = 0, err = 0;
    while (!err && loads < 100) {
        err = et_store_load(store, &all, &profile);
        if (!err) {
            et_profile_free(profile);
            loads++;
        }
    }
    assert_int_equal(err, -ENOMEM);
    assert_in_range(loads, 2, 20);
    assert_non_null(strstr(et_store_why(store), "query-memory"));
    struct et_timeline timeline;
    assert_int_equal(et_store_series(store, &all, INT64_MAX / 2, &timeline), -ENOMEM);
    et_store_set_budget(store, NULL);
    assert_int_equal(et_store_load(store, &all, &profile), 0);
    et_profile_free(profile);
}

/* The device was away for longer than segments without messages stay: what it has queued arrives, message by message.
 */
TEST_WITH(segments_of_queued_messages_stay, set_up, tear_down)
{
    static const int64_t age_ns = 20 * 86400 * MESSAGE_SECOND;
    const char *why = "";
    for (uint32_t sequence = 0; sequence < 3; sequence++) {
        struct message s;
        message_init(&s, 1, sequence);
        size_t size = edgeprof__v1__message__get_packed_size(&s.message);
        uint8_t *bytes = et_alloc(size, 1);
        edgeprof__v1__message__pack(&s.message, bytes);
        const struct et_compact_source source = {.now_ns = MESSAGE_NOW, .age_ns = age_ns};
        assert_int_equal(et_ingest_compact_from(store, bytes, size, &source, &why), ET_ACCEPTED);
        assert_int_equal(run_keep_all(store, &et_policy_default, MESSAGE_NOW + age_ns), 0);
        free(bytes);
    }
    assert_int_equal(run_keep_all(store, &et_policy_default, MESSAGE_NOW + 2 * age_ns), 0);
    assert_int_equal(count(store, "segment"), 0);
}

static int64_t origin_of(struct et_store *store, const char *host)
{
    const struct et_origin origin = {
        .service = "svc", .tags = "", .host = host, .boot_id = "", .executable = "", .arch = "", .agent = ""};
    return et_store_origin(store, &origin);
}

static void crash(struct et_store *store, const char *host, size_t size)
{
    char *message = et_alloc(size, 1);
    assert_int_equal(et_store_begin(store), 0);
    assert_int_equal(et_store_crash(store, 1, origin_of(store, host), 1, message, size), 0);
    assert_int_equal(et_store_end(store, true), 0);
    free(message);
}

/* Neither a device that crashes again and again nor large records push out those of others, or fill the disk. */
TEST_WITH(crashes_are_bounded, set_up, tear_down)
{
    for (int i = 0; i < 20; i++) {
        crash(store, "quiet", 100);
    }
    for (int i = 0; i < 1200; i++) {
        crash(store, "loops", 100);
    }
    assert_int_equal(count(store, "crash WHERE host = 'loops'"), et_crashes_most.rows_of_one);
    assert_int_equal(count(store, "crash WHERE host = 'quiet'"), 20);
    for (int i = 0; i < 6; i++) {
        crash(store, "large", 4 << 20);
    }
    assert_int_equal(count(store, "crash"), et_crashes_most.bytes / (4 << 20));
}

static void incident(struct et_store *store, const char *host, size_t size)
{
    static uint64_t id;
    const struct et_incident_row row = {.incident = ++id, .received_ns = 1, .message = et_alloc(size, 1), .size = size};
    assert_int_equal(et_store_begin(store), 0);
    assert_int_equal(et_store_incident(store, &row, origin_of(store, host)), 0);
    assert_int_equal(et_store_end(store, true), 0);
    free((void *)(uintptr_t)row.message);
}

/* The same of incidents. */
TEST_WITH(incidents_are_bounded, set_up, tear_down)
{
    for (int i = 0; i < 20; i++) {
        incident(store, "quiet", 100);
    }
    for (int i = 0; i < 1200; i++) {
        incident(store, "often", 100);
    }
    assert_int_equal(count(store, "incident WHERE host = 'often'"), et_incidents_most.rows_of_one);
    assert_int_equal(count(store, "incident WHERE host = 'quiet'"), 20);
    for (int i = 0; i < 30; i++) {
        incident(store, "large", 4 << 20);
    }
    assert_int_equal(count(store, "incident WHERE host = 'large'"), et_incidents_most.bytes_of_one / (4 << 20));
    assert_int_equal(count(store, "incident WHERE host = 'quiet'"), 20);
}

int main(int argc, char **argv)
{
    path = db_path(argc, argv, "test_store.db");
    return test_run();
}
