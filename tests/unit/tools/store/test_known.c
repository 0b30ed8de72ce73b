/*
 * The resident dictionary (known.h): what it says is always what the database has, through rollbacks, collections and
 * other processes, and it is bounded.
 */
#include "db.h"
#include "tools/store/store_internal.h"
#include "tests/unit/test.h"

static char *path;
static struct et_store *store;

static struct et_store *open_store(void)
{
    const char *why = "";
    struct et_store *opened = et_store_open(path, true, &why);
    assert_non_null(opened);
    return opened;
}

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

static uint64_t random_state = 1;

static uint32_t dice(uint32_t sides)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 33) % sides;
}

/* ---- against the database ---- */

static void check_row(const char *sql, int64_t id, const char *text)
{
    char statement[512];
    snprintf(statement, sizeof statement, sql, text);
    assert_int_equal(db_number(store->db, statement), id);
}

/* Adds names of each table, some of them new, and checks that the ids are those of the database. */
static void add_names(void)
{
    char text[64], where[128];
    uint32_t number = dice(40);
    snprintf(text, sizeof text, "text%u", number);
    int64_t module = et_store_module(store, "", text);
    check_row("SELECT id FROM module WHERE path = '%s'", module, text);
    int64_t frame = et_store_frame(store, module, dice(3), text, "", dice(2));
    assert_true(frame > 0);
    int64_t node = et_store_node(store, dice(2), frame);
    snprintf(where, sizeof where, "SELECT frame FROM node WHERE id = %lld", (long long)node);
    assert_int_equal(db_number(store->db, where), frame);
    snprintf(where, sizeof where, "SELECT module FROM frame WHERE id = %lld", (long long)frame);
    assert_int_equal(db_number(store->db, where), module);
    snprintf(where, sizeof where, "a=%u\n", number);
    check_row("SELECT id FROM labels WHERE lines = '%s'", et_store_labels(store, where), where);
    struct et_origin origin = {.service = text,
                               .tags = "",
                               .host = "",
                               .boot_id = "",
                               .executable = "",
                               .arch = "",
                               .agent = "",
                               .pid = number % 3};
    snprintf(where, sizeof where, "SELECT pid FROM origin WHERE id = %lld AND service = '%s'",
             (long long)et_store_origin(store, &origin), text);
    assert_int_equal(db_number(store->db, where), number % 3);
}

/* Ids of rolled back rows are used again, for other rows. */
TEST_WITH(names_are_those_of_the_database, set_up, tear_down)
{
    for (int i = 0; i < 400; i++) {
        bool grouped = dice(2);
        assert_int_equal(grouped ? et_store_group_begin(store) : 0, 0);
        for (uint32_t part = grouped ? dice(4) : 1; part > 0; part--) {
            assert_int_equal(et_store_begin(store), 0);
            for (uint32_t names = dice(8); names > 0; names--) {
                add_names();
            }
            et_store_end(store, dice(2));
        }
        assert_int_equal(grouped ? et_store_group_end(store) : 0, 0);
        if (dice(20) == 0) { /* as another process that deletes and adds */
            struct et_store *other = open_store();
            assert_int_equal(sqlite3_exec(other->db,
                                          dice(2) ? "DELETE FROM node; DELETE FROM frame; DELETE FROM module"
                                                  : "DELETE FROM labels; DELETE FROM origin",
                                          NULL, NULL, NULL),
                             SQLITE_OK);
            et_store_close(other);
        }
    }
}

/* How often statements ran on the database. */
static int statements_run(void)
{
    int sum = 0;
    for (sqlite3_stmt *one = NULL; (one = sqlite3_next_stmt(store->db, one));) {
        sum += sqlite3_stmt_status(one, SQLITE_STMTSTATUS_RUN, 0);
    }
    return sum;
}

TEST_WITH(known_nodes_are_not_looked_up, set_up, tear_down)
{
    assert_int_equal(et_store_begin(store), 0);
    int64_t frame = et_store_frame(store, 0, 64, "", "", 0), node = et_store_node(store, 0, frame);
    assert_int_equal(et_store_end(store, true), 0);
    assert_int_equal(et_store_begin(store), 0);
    int before = statements_run();
    assert_int_equal(et_store_frame(store, 0, 64, "", "", 0), frame);
    assert_int_equal(et_store_node(store, 0, frame), node);
    assert_int_equal(statements_run(), before);
    assert_int_equal(et_store_end(store, true), 0);
}

/* ---- alone ---- */

static size_t memory_of(const struct et_known *known)
{
    size_t bytes = 0;
    for (int i = 0; i < 2; i++) {
        const struct et_known_half *half = &known->half[i];
        bytes += half->capacity * 32 + half->slot_count * sizeof *half->slots + half->texts.capacity;
    }
    return bytes;
}

/* Names that are used stay while a hundred times as many others pass. */
TEST(memory_is_bounded)
{
    enum { OFTEN = 100, GROUPS = 400, NEW = 20000 };
    struct et_known known = {0};
    for (int64_t i = 0; i < GROUPS; i++) {
        et_known_begin(&known, 0);
        for (int64_t k = 0; k < NEW; k++) {
            et_known_note(&known, &(struct et_known_name){.first = i, .second = k + 1}, i * NEW + k + 1);
        }
        for (int64_t k = 0; k < OFTEN; k++) {
            int64_t id = et_known_find(&known, &(struct et_known_name){.first = 0, .second = k + 1});
            assert_int_equal(id, k + 1);
        }
        assert_true(memory_of(&known) <= ET_KNOWN_BYTES);
    }
    assert_int_equal(et_known_find(&known, &(struct et_known_name){.first = 1, .second = 1}), 0);
    et_known_begin(&known, 0);
    for (int64_t k = 0; k < 1000000; k++) { /* in one transaction, whose names cannot leave */
        et_known_note(&known, &(struct et_known_name){.bytes = "long text of a name", .size = 1 + (size_t)k % 19}, 1);
    }
    assert_true(memory_of(&known) <= ET_KNOWN_BYTES);
    et_known_undo(&known, true);
    assert_int_equal(et_known_find(&known, &(struct et_known_name){.first = 0, .second = 1}), 1);
    assert_int_equal(et_known_find(&known, &(struct et_known_name){.bytes = "long", .size = 4}), 0);
    et_known_clear(&known);
}

int main(int argc, char **argv)
{
    path = db_path(argc, argv, "test_known.db");
    return test_run();
}
