/*
 * The time by which the store's content grows old (age.h): what a clock that is ahead or behind does to it, and what
 * confirms a clock.
 */
#include "db.h"
#include "tools/store/age.h"
#include "tools/store/store_internal.h"
#include "tests/unit/test.h"

static const int64_t HOUR = 3600000000000, DAY = 24 * 3600000000000, YEAR = 365 * 24 * 3600000000000;
static const int64_t START = 1700006400000000000; /* a whole hour */
static char *path;
static struct et_store *store;
static int64_t steady;

static int set_up(void **state)
{
    const char *why = "";
    (void)state;
    db_remove(path);
    steady = 5 * HOUR;
    store = et_store_open(path, true, &why);
    return store == NULL;
}

static int tear_down(void **state)
{
    (void)state;
    et_store_close(store);
    db_remove(path);
    return 0;
}

/* An hour that was merged at `seen`, with rows up to the id. */
static void put_hour(int64_t start, int64_t id, int64_t seen)
{
    char sql[512];
    snprintf(
        sql, sizeof sql,
        "INSERT OR REPLACE INTO bucket (level, start_ns, dirty, low, high, seen_ns) VALUES (2, %lld, 0, %lld, %lld,"
        " %lld); INSERT OR REPLACE INTO sqlite_sequence (rowid, name, seq) VALUES (1, 'profile', %lld)",
        (long long)start, (long long)id, (long long)id, (long long)seen, (long long)id);
    assert_int_equal(sqlite3_exec(store->db, sql, NULL, NULL, NULL), SQLITE_OK);
}

static struct et_age begin(int64_t clock)
{
    struct et_age age;
    assert_int_equal(et_age_begin(&age, store, clock, steady), 0);
    return age;
}

/* Time passes, and the clock shows something. */
static void step(struct et_age *age, int64_t passes, int64_t clock)
{
    steady += passes;
    assert_int_equal(et_age_step(age, store, clock, steady), 0);
}

TEST_WITH(an_empty_store_believes, set_up, tear_down)
{
    struct et_age age = begin(START);
    assert_int_equal(age.count_ns, START);
    step(&age, HOUR, START + HOUR);
    assert_int_equal(age.count_ns, START + HOUR);
    assert_int_equal(age.doubt, ET_CLOCK_RIGHT);
}

TEST_WITH(small_corrections_are_followed, set_up, tear_down)
{
    struct et_age age = begin(START);
    step(&age, HOUR, START + 25 * HOUR);
    assert_int_equal(age.count_ns, START + 25 * HOUR);
    step(&age, HOUR, START + 2 * HOUR); /* never back */
    assert_int_equal(age.count_ns, START + 26 * HOUR);
    assert_int_equal(age.doubt, ET_CLOCK_RIGHT);
}

TEST_WITH(a_clock_far_ahead_is_doubted, set_up, tear_down)
{
    put_hour(START, 1, START + HOUR);
    struct et_age age = begin(START + 5 * YEAR);
    assert_int_equal(age.doubt, ET_CLOCK_AHEAD);
    assert_int_equal(age.count_ns, START + HOUR);
    assert_int_equal(age.wrong_ns, 5 * YEAR - HOUR);
    step(&age, DAY, START + 5 * YEAR + DAY);
    assert_int_equal(age.count_ns, START + HOUR + DAY);
    step(&age, HOUR, START + 2 * HOUR + DAY);
    assert_int_equal(age.doubt, ET_CLOCK_RIGHT);
    assert_int_equal(age.wrong_ns, 0);
    step(&age, HOUR, START + 2 * YEAR); /* and again */
    assert_int_equal(age.doubt, ET_CLOCK_AHEAD);
    assert_int_equal(age.count_ns, START + 3 * HOUR + DAY);
}

TEST_WITH(new_profiles_confirm, set_up, tear_down)
{
    int64_t id = 100;
    for (int i = 0; i < 48; i++) { /* an earlier time with that clock */
        put_hour(START + YEAR + i * HOUR, id, 0);
    }
    put_hour(START, id, START + HOUR);
    struct et_age age = begin(START + YEAR + 48 * HOUR);
    for (int i = 0; i < 30; i++) { /* these contradict */
        put_hour(START + i * HOUR, ++id, START + HOUR);
        step(&age, HOUR, START + YEAR + (48 + i) * HOUR);
        assert_int_equal(age.doubt, ET_CLOCK_AHEAD);
    }
    put_hour(START + 3 * YEAR, ++id, START + HOUR); /* beyond the clock */
    for (int i = 0; i < ET_AGE_HOURS; i++) {
        step(&age, HOUR, START + YEAR + (80 + i) * HOUR);
        assert_int_equal(age.doubt, ET_CLOCK_AHEAD);
        put_hour(START + YEAR + (80 + i) * HOUR, ++id, START + HOUR);
    }
    step(&age, HOUR, START + YEAR + 100 * HOUR);
    assert_true(age.confirmed);
    assert_int_equal(age.count_ns, START + YEAR + 100 * HOUR);
    assert_int_equal(age.doubt, ET_CLOCK_RIGHT);
    assert_int_equal(db_number(store->db, "SELECT count(*) FROM bucket WHERE seen_ns = 1731902400000000000"), 43);
    step(&age, HOUR, START + YEAR + 101 * HOUR);
    assert_false(age.confirmed);
}

TEST_WITH(a_clock_far_behind_changes_nothing, set_up, tear_down)
{
    put_hour(START, 1, START + HOUR);
    struct et_age age = begin(0);
    assert_int_equal(age.doubt, ET_CLOCK_BEHIND);
    assert_int_equal(age.wrong_ns, -START - HOUR);
    step(&age, DAY, DAY);
    assert_int_equal(age.count_ns, START + HOUR + DAY);
    step(&age, HOUR, START + 2 * HOUR + DAY);
    assert_int_equal(age.count_ns, START + 2 * HOUR + DAY);
    assert_int_equal(age.doubt, ET_CLOCK_RIGHT);
}

int main(int argc, char **argv)
{
    path = db_path(argc, argv, "test_age.db");
    return test_run();
}
