/*
 * The store on a disk whose power fails at any write, sync, truncation or removal (support/cut_vfs.h), again and again,
 * while senders fill it and rows are merged and deleted. After each cut:
 *
 *   the database opens, and SQLite's integrity_check finds no error;
 *   each acknowledged message is complete, with all its stacks;
 *   a group without acknowledgement is either complete or absent;
 *   senders continue with the first unacknowledged message, and in the end everything is stored exactly once.
 */
#include "cut_vfs.h"
#include "message.h"
#include "tools/store/store_internal.h"
#include "keep.h"
#include "tests/unit/test.h"

enum { SEGMENTS = 3, MESSAGES = 12, GROUP = 4, CUTS = 3 };

/* A cut at every `stride`-th call. */
static unsigned stride = 4;

static const char *const NAME = "db";

/* Time between messages: blocks of 5 minutes, then of an hour, follow soon. */
static const int64_t STRIDE_NS = 200 * MESSAGE_SECOND;
static const struct et_policy POLICY = {.fine_ns = 600 * MESSAGE_SECOND, .five_ns = 1200 * MESSAGE_SECOND};

/* The messages that each sender knows to be acknowledged. */
static uint32_t acknowledged[SEGMENTS];

/* ---- messages ---- */

static uint64_t value_of(unsigned segment, uint32_t sequence)
{
    return 1 + segment * 1000 + sequence;
}

static uint64_t address_of(unsigned segment, uint32_t sequence)
{
    return 0x100000 + 512 + segment * 512 + sequence;
}

/* A new node below the root, with the whole value of the message. */
static enum et_outcome push(struct et_store *store, unsigned segment, uint32_t sequence)
{
    struct message m;
    message_init(&m, 1 + segment, sequence);
    edgeprof__v1__nodes__init(&m.nodes);
    m.back[0] = 0;
    m.frame[0] = (int64_t)(4096 + address_of(segment, sequence) - 0x100000);
    m.nodes.back = m.back;
    m.nodes.frame = m.frame;
    m.nodes.n_back = m.nodes.n_frame = 1;
    m.message.nodes = &m.nodes;
    m.leaf[0] = 1 + sequence;
    m.value[0] = value_of(segment, sequence);
    m.profile.quantum = 1;
    m.profile.n_node = m.profile.n_value = 1;
    m.profile.start_ns = (uint64_t)(STRIDE_NS * sequence);
    m.message.last = sequence + 1 == MESSAGES;
    return message_push(store, &m);
}

/* ---- contents ---- */

static uint64_t kept[SEGMENTS][MESSAGES];

static void load(struct et_store *store)
{
    struct et_query all = {.to_ns = INT64_MAX};
    struct et_profile *p = NULL;
    memset(kept, 0, sizeof kept);
    assert_int_equal(et_store_load(store, &all, &p), 0);
    for (size_t i = 1; i < p->node_count; i++) {
        uint64_t at = p->frames[p->nodes[i].frame].address - address_of(0, 0);
        assert_true(at / 512 < SEGMENTS && at % 512 < MESSAGES);
        kept[at / 512][at % 512] += p->nodes[i].self;
    }
    et_profile_free(p);
}

static void check_integrity(struct et_store *store)
{
    sqlite3_stmt *statement;
    assert_int_equal(sqlite3_prepare_v2(store->db, "PRAGMA integrity_check", -1, &statement, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    assert_string_equal(et_column_text(statement, 0), "ok");
    sqlite3_finalize(statement);
}

static int64_t count(struct et_store *store, const char *sql)
{
    sqlite3_stmt *statement;
    assert_int_equal(sqlite3_prepare_v2(store->db, sql, -1, &statement, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    int64_t number = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return number;
}

/* Complete or absent, and at least the acknowledged ones. In the order of sending, the stored messages end at one
 * place: the end of a group. */
static void check_kept(struct et_store *store)
{
    load(store);
    check_integrity(store);
    for (unsigned segment = 0; segment < SEGMENTS; segment++) {
        bool gone = false;
        for (uint32_t i = 0; i < MESSAGES; i++) {
            assert_true(kept[segment][i] == 0 || kept[segment][i] == value_of(segment, i));
            assert_false(i < acknowledged[segment] && kept[segment][i] == 0);
            assert_false(gone && kept[segment][i]);
            gone |= kept[segment][i] == 0;
        }
    }
}

/* ---- senders ---- */

static struct et_store *open_store(void)
{
    const char *why = "";
    struct et_store *store = et_store_open(NAME, true, &why);
    if (store) { /* for many checkpoints */
        sqlite3_exec(store->db, "PRAGMA wal_autocheckpoint = 24", NULL, NULL, NULL);
    }
    return store;
}

static int64_t now_ns(void)
{
    return MESSAGE_NOW + STRIDE_NS * (acknowledged[0] + 1) + 900 * MESSAGE_SECOND;
}

/* Sends the next messages in turn, like group commit. False: the power has failed. */
static bool send_group(struct et_store *store)
{
    uint32_t sent[SEGMENTS];
    memcpy(sent, acknowledged, sizeof sent);
    if (et_store_group_begin(store)) {
        return false;
    }
    for (unsigned i = 0; i < GROUP; i++) {
        unsigned segment = (sent[0] + sent[1] + sent[2]) % SEGMENTS;
        enum et_outcome outcome = sent[segment] < MESSAGES ? push(store, segment, sent[segment]) : ET_REPEATED;
        if (outcome == ET_ACCEPTED || outcome == ET_REPEATED) {
            sent[segment] += sent[segment] < MESSAGES;
        } else {
            assert_int_equal(outcome, ET_UNAVAILABLE);
        }
    }
    for (int i = 0; i < 2; i++) {
        (void)run_keep_step(store, &POLICY, now_ns());
    }
    if (et_store_group_end(store)) {
        return false;
    }
    memcpy(acknowledged, sent, sizeof sent);
    return true;
}

static bool all_sent(void)
{
    return acknowledged[0] == MESSAGES && acknowledged[1] == MESSAGES && acknowledged[2] == MESSAGES;
}

/* The life of one process, with a concurrent reader. It closes the store once in the middle, which removes the log. */
static bool live(unsigned groups)
{
    struct et_store *store = open_store(), *reader = store ? open_store() : NULL;
    bool alive = reader != NULL;
    for (unsigned i = 0; alive && i < groups && !all_sent(); i++) {
        if (i == 1) {
            sqlite3_exec(reader->db, "BEGIN; SELECT count(*) FROM profile", NULL, NULL, NULL);
        } else if (i == 3) {
            sqlite3_exec(reader->db, "COMMIT", NULL, NULL, NULL);
        }
        alive = send_group(store);
    }
    alive = alive && run_keep_all(store, &POLICY, now_ns()) == 0;
    et_store_close(reader);
    et_store_close(store);
    return alive && !cut_disk.off;
}

static void check_after_cut(void)
{
    struct et_store *store = open_store();
    assert_non_null(store);
    check_kept(store);
    et_store_close(store);
}

/* Sends everything, with several power cuts, the first at a given call. Returns whether there was one. */
static bool through_cuts(unsigned first_cut, uint64_t seed)
{
    cut_disk_reset();
    memset(acknowledged, 0, sizeof acknowledged);
    cut_disk.dice = seed * 7919 + first_cut;
    cut_disk.cut_at = first_cut;
    while (!all_sent()) {
        if (!live(5)) {
            assert_true(cut_disk.off);
            cut_disk_restart();
            check_after_cut();
            cut_disk.calls = 0;
            cut_disk.cut_at = cut_disk.cuts < CUTS ? 1 + (unsigned)(cut_disk.dice >> 40) % 300 : 0;
        }
    }
    bool cut = cut_disk.cuts > 0;
    if (cut_disk.off) {
        cut_disk_restart();
    }
    cut_disk.cut_at = 0;
    struct et_store *store = open_store();
    assert_non_null(store);
    check_kept(store);
    for (int day = 1; day <= 2; day++) { /* rows merged on the first day are old enough to be deleted on the second */
        assert_int_equal(run_keep_all(store, &POLICY, now_ns() + day * 86400 * MESSAGE_SECOND), 0);
        check_kept(store);
    }
    assert_true(count(store, "SELECT count(*) FROM profile") <= 6); /* of two hours; late ones separately */
    et_store_close(store);
    return cut;
}

TEST(nothing_acknowledged_is_lost)
{
    unsigned cuts = 0;
    for (unsigned at = 1; through_cuts(at, 1); at += stride) {
        cuts += cut_disk.cuts;
    }
    print_message("%u power cuts\n", cuts);
    assert_true(cuts > 1000 / stride);
}

int main(int argc, char **argv)
{
    stride = argc > 3 ? (unsigned)atoi(argv[3]) : stride;
    cut_vfs_register();
    int failed = test_run();
    cut_disk_reset();
    return failed;
}
