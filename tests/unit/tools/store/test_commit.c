/*
 * Group commit (group_commit.h): messages that arrive while the store is busy share a transaction. A refused message is
 * undone alone. When the transaction fails, no sender gets an acknowledgement, nothing is kept, and the next one works.
 * test_powercut.c tests durability.
 */
#include "db.h"
#include "tools/store/group_commit.h"
#include "message.h"
#include "tools/store/store_internal.h"
#include "tests/unit/test.h"

#include <pthread.h>
#include <semaphore.h>
#include <unistd.h>

enum { SENDERS = 24, LONG_MS = 3600000 };

static char *path;
static struct et_store *store;
static struct et_group_commit *commit;
static int commits, refused_commits;
static sem_t reached, released;

/* ---- senders ---- */

struct sender {
    pthread_t thread;
    uint64_t segment;
    uint32_t sequence;
    bool malformed;
    enum et_outcome outcome;
    struct et_group_commit_result result;
};

static void take(struct et_store *of, void *context)
{
    struct sender *sender = context;
    struct message message;
    message_init(&message, sender->segment, sender->sequence);
    if (sender->malformed) {
        message.leaf[1] = 3; /* detected when all else is written */
    }
    sender->outcome = message_push(of, &message);
}

static void *send_one(void *context)
{
    struct sender *sender = context;
    sender->result = et_group_commit_run(commit, take, sender);
    return NULL;
}

static bool send_alone(uint64_t segment, uint32_t sequence)
{
    struct sender sender = {.segment = segment, .sequence = sequence};
    send_one(&sender);
    return sender.result.err == 0 && (sender.outcome == ET_ACCEPTED || sender.outcome == ET_REPEATED);
}

/* Blocks the commit thread within a group. */
static void block(struct et_store *of, void *context)
{
    (void)of;
    (void)context;
    sem_post(&reached);
    sem_wait(&released);
}

static void *hold_up(void *context)
{
    struct et_group_commit_result *result = context;
    *result = et_group_commit_run(commit, block, NULL);
    return NULL;
}

/* All senders wait at the same time; then call() runs. Returns the group's result. */
static struct et_group_commit_result send_together(struct sender *senders, size_t count, void (*call)(void))
{
    pthread_t blocker;
    struct et_group_commit_result result;
    assert_int_equal(pthread_create(&blocker, NULL, hold_up, &result), 0);
    sem_wait(&reached);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(pthread_create(&senders[i].thread, NULL, send_one, &senders[i]), 0);
        while (et_group_commit_waiting(commit) != i + 1) {
            usleep(100); /* in this order */
        }
    }
    if (call) {
        call();
    }
    sem_post(&released);
    for (size_t i = 0; i < count; i++) {
        pthread_join(senders[i].thread, NULL);
    }
    pthread_join(blocker, NULL);
    return result;
}

/* ---- the store ---- */

static int on_commit(void *context)
{
    (void)context;
    commits++;
    return refused_commits && refused_commits-- > 0;
}

static int set_up(void **state)
{
    const char *why = "";
    (void)state;
    db_remove(path);
    sem_init(&reached, 0, 0);
    sem_init(&released, 0, 0);
    store = et_store_open(path, true, &why);
    assert_non_null(store);
    sqlite3_busy_timeout(store->db, 1);
    sqlite3_commit_hook(store->db, on_commit, NULL);
    commit = et_group_commit_start(store, LONG_MS);
    assert_non_null(commit);
    commits = refused_commits = 0;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    et_group_commit_stop(commit);
    et_store_close(store);
    db_remove(path);
    return 0;
}

/* Read by another connection, which sees only committed data. */
static int64_t stored(const char *table)
{
    sqlite3 *db;
    sqlite3_stmt *statement;
    char sql[64];
    snprintf(sql, sizeof sql, "SELECT count(*) FROM %s", table);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &statement, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    int64_t count = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    sqlite3_close(db);
    return count;
}

/* ---- properties ---- */

TEST_WITH(waiting_messages_share_a_commit, set_up, tear_down)
{
    struct sender senders[SENDERS] = {0};
    for (uint32_t i = 0; i < SENDERS; i++) {
        senders[i].segment = 1 + i / 4;
        senders[i].sequence = i % 4; /* each message builds on uncommitted ones */
    }
    assert_int_equal(send_together(senders, SENDERS, NULL).err, 0);
    assert_int_equal(commits, 1);
    assert_int_equal(stored("profile"), SENDERS);
    for (size_t i = 0; i < SENDERS; i++) {
        assert_int_equal(senders[i].result.err, 0);
        assert_int_equal(senders[i].outcome, ET_ACCEPTED);
    }
}

TEST_WITH(a_group_ends, set_up, tear_down)
{
    struct sender senders[SENDERS] = {0};
    et_group_commit_stop(commit);
    commit = et_group_commit_start(store, 0);
    assert_non_null(commit);
    for (uint32_t i = 0; i < SENDERS; i++) {
        senders[i].segment = 1 + i;
    }
    assert_int_equal(send_together(senders, SENDERS, NULL).err, 0);
    assert_int_equal(commits, 1 + SENDERS);
    assert_int_equal(stored("profile"), SENDERS);
}

TEST_WITH(a_single_call_is_committed_alone, set_up, tear_down)
{
    for (uint32_t i = 0; i < 10; i++) {
        assert_true(send_alone(1, i));
        assert_int_equal(stored("profile"), i + 1);
    }
    assert_int_equal(commits, 10);
}

TEST_WITH(a_refused_message_is_undone_alone, set_up, tear_down)
{
    struct sender senders[SENDERS] = {0};
    for (uint32_t i = 0; i < SENDERS; i++) {
        senders[i].segment = 1 + i;
        senders[i].malformed = i % 3 == 1;
        senders[i].sequence = i % 3 == 2; /* of an unknown segment */
    }
    assert_int_equal(send_together(senders, SENDERS, NULL).err, 0);
    for (size_t i = 0; i < SENDERS; i++) {
        static const enum et_outcome wanted[] = {ET_ACCEPTED, ET_MALFORMED, ET_STALE};
        assert_int_equal(senders[i].result.err, 0);
        assert_int_equal(senders[i].outcome, wanted[i % 3]);
    }
    assert_int_equal(stored("profile"), SENDERS / 3);
    assert_int_equal(stored("segment"), SENDERS / 3);
    assert_int_equal(stored("chunk"), SENDERS / 3);
}

/* Refused or undone messages leave no state: the same message may be sent again and be accepted. */
TEST_WITH(undone_messages_may_come_again, set_up, tear_down)
{
    struct sender senders[3] = {{.segment = 1, .malformed = true}, {.segment = 1}, {.segment = 1, .sequence = 1}};
    assert_int_equal(send_together(senders, 3, NULL).err, 0);
    assert_int_equal(senders[0].outcome, ET_MALFORMED);
    assert_int_equal(senders[1].outcome, ET_ACCEPTED);
    assert_int_equal(senders[2].outcome, ET_ACCEPTED);
    assert_int_equal(stored("profile"), 2);
    assert_int_equal(stored("node"), 3);
}

static void group_fails(struct sender *senders, int err, void (*call)(void))
{
    for (uint32_t i = 0; i < SENDERS; i++) { /* each message twice: the second one is known within the group */
        senders[i] = (struct sender){.segment = 100 + i / 2};
    }
    struct et_group_commit_result result = send_together(senders, SENDERS, call);
    assert_int_equal(result.err, err);
    assert_true(result.why[0] != '\0');
    for (size_t i = 0; i < SENDERS; i++) {
        assert_int_equal(senders[i].result.err, err);
        assert_string_equal(senders[i].result.why, result.why);
    }
    assert_int_equal(stored("profile"), 1);
    assert_int_equal(stored("segment"), 1);
}

static void works_again(void)
{
    struct sender senders[SENDERS] = {0};
    for (uint32_t i = 0; i < SENDERS; i++) {
        senders[i] = (struct sender){.segment = 100 + i / 2};
    }
    assert_int_equal(send_together(senders, SENDERS, NULL).err, 0);
    assert_int_equal(stored("profile"), 1 + SENDERS / 2);
    assert_true(send_alone(1, 1));
    assert_int_equal(stored("profile"), 2 + SENDERS / 2);
}

static void refuse_commit(void)
{
    refused_commits = 1;
}

TEST_WITH(a_failed_commit_acknowledges_nothing, set_up, tear_down)
{
    struct sender senders[SENDERS];
    assert_true(send_alone(1, 0));
    group_fails(senders, -EIO, refuse_commit);
    works_again();
}

static void fill_disk(void)
{
    assert_int_equal(sqlite3_exec(store->db, "PRAGMA max_page_count = 1", NULL, NULL, NULL), SQLITE_OK);
}

/* Acknowledged messages fit. With space again the segment continues. */
TEST_WITH(a_full_disk_refuses_what_does_not_fit, set_up, tear_down)
{
    struct sender senders[SENDERS];
    uint32_t kept = 0, sequence = 0;
    assert_true(send_alone(1, sequence++));
    fill_disk(); /* SQLite uses the current size as the minimum */
    for (bool refused = false; !refused;) {
        for (uint32_t i = 0; i < SENDERS; i++) {
            senders[i] = (struct sender){.segment = 1, .sequence = sequence++};
        }
        int err = send_together(senders, SENDERS, NULL).err;
        for (uint32_t i = 0; i < SENDERS; i++) {
            bool taken = err == 0 && senders[i].outcome == ET_ACCEPTED;
            refused |= !taken;
            assert_true(err != 0 || refused != taken); /* messages after a gap are not accepted */
            kept += taken;
        }
        assert_int_equal(stored("profile"), 1 + kept);
    }
    assert_true(kept > 0);
    while (send_alone(1, 1 + kept)) {
        kept++;
    }
    assert_int_equal(stored("profile"), 1 + kept);
    assert_int_equal(sqlite3_exec(store->db, "PRAGMA max_page_count = 4000", NULL, NULL, NULL), SQLITE_OK);
    assert_true(send_alone(1, 1 + kept));
    assert_int_equal(stored("profile"), 2 + kept);
}

TEST_WITH(a_locked_database_acknowledges_nothing, set_up, tear_down)
{
    sqlite3 *other;
    assert_true(send_alone(1, 0));
    assert_int_equal(sqlite3_open(path, &other), SQLITE_OK);
    assert_int_equal(sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    struct sender sender = {.segment = 100};
    send_one(&sender);
    assert_int_equal(sender.result.err, -EBUSY);
    assert_non_null(strstr(sender.result.why, "locked"));
    assert_int_equal(sqlite3_exec(other, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(other);
    assert_int_equal(stored("profile"), 1);
    works_again();
}

/* SQLite rolls back the whole transaction when a statement is interrupted, at any step of any message. */
static int fail_at, steps;
static bool failing;
static int progress(void *context)
{
    (void)context;
    return failing && ++steps == fail_at;
}

static void begin_to_fail(void)
{
    failing = true;
}

TEST_WITH(an_interrupt_at_any_step_fails_the_group, set_up, tear_down)
{
    uint32_t kept = 0;
    bool failed = true;
    sqlite3_progress_handler(store->db, 5, progress, NULL);
    for (fail_at = 1; failed; fail_at += 7) {
        struct sender senders[4];
        for (uint32_t i = 0; i < 4; i++) {
            senders[i] = (struct sender){.segment = (uint64_t)fail_at, .sequence = i};
        }
        steps = 0;
        int err = send_together(senders, 4, begin_to_fail).err;
        failing = false;
        failed = err != 0;
        for (size_t i = 0; i < 4; i++) {
            assert_int_equal(senders[i].result.err, err);
            kept += err == 0 && senders[i].outcome == ET_ACCEPTED;
            failed |= senders[i].outcome == ET_UNAVAILABLE;
        }
        assert_int_equal(stored("profile"), kept);
    }
    assert_true(kept >= 4);
}

TEST_WITH(stopping_finishes_queued_calls, set_up, tear_down)
{
    for (int i = 0; i < 20; i++) {
        assert_true(send_alone(1, (uint32_t)i));
        et_group_commit_stop(commit);
        commit = et_group_commit_start(store, LONG_MS);
        assert_non_null(commit);
    }
    assert_int_equal(stored("profile"), 20);
}

int main(int argc, char **argv)
{
    path = db_path(argc, argv, "test_commit.db");
    return test_run();
}
