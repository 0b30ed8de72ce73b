/*
 * Bounds (bounds.h) of a store that receives messages: names that the keeper deletes make room, refused and undone
 * messages take none, and a name takes a few bytes.
 */
#include "db.h"
#include "message.h"
#include "tools/serve/ingest/ingest_batch.h"
#include "tools/store/bounds.h"
#include "tools/store/store_internal.h"
#include "keep.h"
#include "tests/unit/test.h"

static char *path;
static struct et_store *store;
static struct et_bounds *bounds;
static struct et_bounds_config limits;
static uint64_t segments;

static const int64_t HOUR = 3600000000000;

/* Opens the database, as the server does at its start. */
static void open_store(void)
{
    const char *why = "";
    store = et_store_open(path, true, &why);
    assert_non_null(store);
    bounds = et_bounds_new(&limits);
    et_store_set_bounds(store, bounds);
    assert_int_equal(et_bounds_load(bounds, store), 0);
}

static void close_store(void)
{
    et_store_close(store);
    et_bounds_free(bounds);
}

static int set_up(void **state)
{
    (void)state;
    db_remove(path);
    limits = (struct et_bounds_config){.services = 3, .series = 10, .label_values = 10};
    open_store();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    close_store();
    db_remove(path);
    return 0;
}

struct sent {
    const char *service;
    int version, label;
    bool malformed;
};

/* A message of a new process, whose stacks have the label. */
static enum et_outcome send_message(struct sent sent, int64_t at_ns)
{
    struct message m;
    char version[32], value[32];
    Edgeprof__V1__Tag tag = EDGEPROF__V1__TAG__INIT, *tags[] = {&tag};
    Edgeprof__V1__TagSet set = EDGEPROF__V1__TAG_SET__INIT, *sets[] = {&set};
    message_init(&m, ++segments, 0);
    snprintf(version, sizeof version, "%d", sent.version);
    snprintf(value, sizeof value, "%d", sent.label);
    tag.key = (char *)(uintptr_t) "step";
    tag.value = value;
    set.id = 1;
    set.tags = tags;
    set.n_tags = 1;
    m.tag.value = version;
    m.origin.service = (char *)(uintptr_t)sent.service;
    m.origin.pid = (uint32_t)segments;
    m.message.tag_sets = sets;
    m.message.n_tag_sets = 1;
    m.message.last = 1;
    m.message.unix_minus_uptime_ns = (uint64_t)at_ns;
    if (sent.malformed) {
        m.leaf[1] = 3; /* detected when all else is written */
    }
    return message_push(store, &m);
}

TEST_WITH(deleted_names_make_room, set_up, tear_down)
{
    struct et_policy policy = {.keep_ns = HOUR};
    for (int day = 0; day < 8; day++) {
        int64_t at = MESSAGE_NOW + day * 20 * 24 * HOUR;
        for (int i = 0; i < 9; i++) { /* one of each kind stays: the greatest id */
            assert_int_equal(send_message((struct sent){"svc", day * 10 + i, day * 10 + i, false}, at), ET_ACCEPTED);
        }
        assert_int_equal(send_message((struct sent){"svc", 5000 + day, 5000 + day, false}, at),
                         day ? ET_LIMITED : ET_ACCEPTED);
        assert_int_equal(run_keep_all(store, &policy, at + HOUR), 0); /* merges */
        assert_int_equal(run_keep_all(store, &policy, at + 19 * 24 * HOUR), 0);
        assert_int_equal(run_keep_all(store, &policy, at + 20 * 24 * HOUR), 0);
        if (day % 3 == 1) {
            close_store();
            open_store();
        }
    }
}

TEST_WITH(refused_messages_take_no_room, set_up, tear_down)
{
    for (int i = 0; i < 20; i++) {
        char service[32];
        snprintf(service, sizeof service, "bad-%d", i);
        assert_int_equal(send_message((struct sent){service, 1, i, true}, MESSAGE_NOW), ET_MALFORMED);
        assert_int_equal(send_message((struct sent){"svc", 100 + i, 100 + i, true}, MESSAGE_NOW), ET_MALFORMED);
    }
    for (int i = 0; i < 10; i++) {
        assert_int_equal(send_message((struct sent){"svc", i, i, false}, MESSAGE_NOW), ET_ACCEPTED);
    }
    assert_int_equal(send_message((struct sent){"svc", 10, 0, false}, MESSAGE_NOW), ET_LIMITED);
    assert_int_equal(send_message((struct sent){"svc", 0, 10, false}, MESSAGE_NOW), ET_LIMITED);
    assert_int_equal(send_message((struct sent){"two", 1, 1, false}, MESSAGE_NOW), ET_ACCEPTED);
    assert_int_equal(send_message((struct sent){"three", 1, 1, false}, MESSAGE_NOW), ET_ACCEPTED);
    assert_int_equal(send_message((struct sent){"four", 1, 1, false}, MESSAGE_NOW), ET_LIMITED);
}

static int refuse_commit(void *context)
{
    (void)context;
    return 1;
}

TEST_WITH(groups_that_fail_take_no_room, set_up, tear_down)
{
    for (int i = 0; i < 5; i++) {
        assert_int_equal(et_store_group_begin(store), 0);
        for (int k = 0; k < 3; k++) {
            char service[32];
            snprintf(service, sizeof service, "lost-%d-%d", i, k);
            assert_int_equal(send_message((struct sent){service, 1, i, false}, MESSAGE_NOW), ET_ACCEPTED);
        }
        assert_int_equal(send_message((struct sent){"more", 1, 1, false}, MESSAGE_NOW), ET_LIMITED);
        sqlite3_commit_hook(store->db, refuse_commit, NULL);
        assert_int_not_equal(et_store_group_end(store), 0);
        sqlite3_commit_hook(store->db, NULL, NULL);
    }
    assert_int_equal(et_store_group_begin(store), 0);
    assert_int_equal(send_message((struct sent){"bad", 1, 1, true}, MESSAGE_NOW), ET_MALFORMED);
    assert_int_equal(send_message((struct sent){"one", 1, 1, false}, MESSAGE_NOW), ET_ACCEPTED);
    assert_int_equal(send_message((struct sent){"two", 1, 1, false}, MESSAGE_NOW), ET_ACCEPTED);
    assert_int_equal(send_message((struct sent){"three", 1, 1, false}, MESSAGE_NOW), ET_ACCEPTED);
    assert_int_equal(et_store_group_end(store), 0);
    assert_int_equal(send_message((struct sent){"four", 1, 1, false}, MESSAGE_NOW), ET_LIMITED);
}

/* The table's memory is limited, and names in the database are known beyond the limit. */
TEST_WITH(names_take_little_memory, set_up, tear_down)
{
    close_store();
    limits = (struct et_bounds_config){.memory = 100000};
    open_store();
    enum { TEXT = 2000 };
    char tags[TEXT + 32];
    struct et_origin origin = {
        .service = "svc", .tags = tags, .host = "", .boot_id = "", .executable = "", .arch = "", .agent = ""};
    int count = 0;
    for (;; count++) {
        snprintf(tags, sizeof tags, "k=%0*d\n", TEXT, count);
        const char *refused = et_bounds_series(bounds, "svc", tags);
        if (refused) {
            assert_int_equal(et_bounds_outcome(refused), ET_LIMITED);
            assert_non_null(strstr(refused, "see names in [limits]"));
            break;
        }
        assert_int_equal(et_store_begin(store), 0);
        assert_true(et_store_origin(store, &origin) > 0);
        assert_int_equal(et_store_end(store, true), 0);
    }
    assert_true(count > 900 && count < 3000); /* 2 MB of text and more */
    close_store();
    limits.memory = 5000;
    open_store();
    assert_non_null(et_bounds_series(bounds, "svc", tags));
    for (int i = 0; i < count; i++) {
        snprintf(tags, sizeof tags, "k=%0*d\n", TEXT, i);
        assert_null(et_bounds_series(bounds, "svc", tags));
    }
}

/* Opens the store again with so much memory for names. */
static void reopen_store(size_t memory)
{
    close_store();
    limits = (struct et_bounds_config){.memory = memory};
    open_store();
}

/* Stores sets of three labels until one is refused, or `most`. Returns how many were stored. */
static int store_label_sets(int most)
{
    int count = 0;
    assert_int_equal(et_store_begin(store), 0);
    for (; count < most; count++) {
        char lines[100];
        snprintf(lines, sizeof lines, "a=%d\nb=%d\nc=%d\n", count, count, count);
        const char *refused = et_bounds_labels(bounds, lines);
        if (refused) {
            assert_non_null(strstr(refused, "see names in [limits]"));
            break;
        }
        assert_true(et_store_labels(store, lines) > 0);
    }
    assert_int_equal(et_store_end(store, true), 0);
    return count;
}

/* 4,096 entries of 24 bytes are within the limit, half of which may be used; 8,192 are not. */
TEST_WITH(sets_of_many_names_respect_the_limit, set_up, tear_down)
{
    reopen_store(100000);
    int count = store_label_sets(10000), names = 3 + 3 * count;
    assert_true(names <= 2048 && names + 3 > 2048);
}

/* At a start with more names than allowed the table has room left. That is not for new names. */
TEST_WITH(a_lower_limit_counts_at_once, set_up, tear_down)
{
    reopen_store(1000000);
    assert_int_equal(store_label_sets(478), 478); /* 1,437 names: 0.7 of half of 4,096 */
    reopen_store(5000);
    assert_null(et_bounds_labels(bounds, "a=1\nb=1\nc=1\n"));
    assert_non_null(et_bounds_labels(bounds, "a=478\n"));
    assert_non_null(et_bounds_series(bounds, "svc", "k=v\n"));
    reopen_store(100000);
    assert_null(et_bounds_labels(bounds, "a=478\n"));
    assert_null(et_bounds_series(bounds, "svc", "k=v\n"));
}

/* A profile of a new instance, with so many stacks that have new values of a label. */
static void add_item(struct et_batch *batch, int instance, int values)
{
    struct et_profile *p = et_profile_new();
    char text[64];
    p->kind = et_intern(&p->strings, "cpu");
    p->value_unit = et_intern(&p->strings, "nanoseconds");
    uint32_t leaf = et_profile_node(p, 0, et_profile_frame(p, (struct et_frame){.address = 1 + (uint64_t)instance}));
    for (int i = 0; i < values; i++) {
        snprintf(text, sizeof text, "user=%d-%d\n", instance, i);
        et_profile_entry(p, &(struct et_entry){.node = leaf, .labels = et_intern(&p->strings, text), .value = 5});
    }
    snprintf(text, sizeof text, "instance=%d\n", instance);
    et_batch_add(batch, "svc", text, p, MESSAGE_NOW, MESSAGE_NOW + MESSAGE_SECOND);
}

/* What a batch with a profile in bounds stores of the others would use up the limits for all later ones. */
TEST_WITH(refused_items_of_a_batch_take_no_room, set_up, tear_down)
{
    for (int round = 0; round < 5; round++) {
        struct et_batch batch = {0};
        const char *why = "";
        for (int i = 0; i < 30; i++) {
            add_item(&batch, 1000 * round + i, i == 20 ? 1 : 11 + i % 2);
        }
        assert_int_equal(et_batch_store(store, &batch, &why), ET_ACCEPTED);
        assert_non_null(strstr(why, "label-values in [limits]"));
        for (size_t i = 0; i < batch.count; i++) {
            assert_int_equal(batch.items[i].refused == NULL, i == 20);
        }
        et_batch_free(&batch);
        assert_int_equal(db_number(store->db, "SELECT count(*) FROM origin"), round + 1);
        assert_int_equal(db_number(store->db, "SELECT count(*) FROM labels"), round + 1);
        assert_int_equal(db_number(store->db, "SELECT count(*) FROM node"), round + 1);
        assert_int_equal(db_number(store->db, "SELECT count(*) FROM profile"), round + 1);
    }
    struct et_batch batch = {0};
    const char *why = "";
    for (int i = 0; i < 6; i++) { /* room is left for five */
        add_item(&batch, 9000 + i, 1);
    }
    assert_int_equal(et_batch_store(store, &batch, &why), ET_ACCEPTED);
    assert_null(batch.items[4].refused);
    assert_non_null(batch.items[5].refused);
    et_batch_free(&batch);
}

int main(int argc, char **argv)
{
    path = db_path(argc, argv, "test_bounds.db");
    return test_run();
}
