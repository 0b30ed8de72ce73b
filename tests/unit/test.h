/*
 * Each C file of tests includes this header: cmocka with all it requires, and TEST(), which defines a test and
 * registers it. The tests of a file run in the order of their lines.
 */
#ifndef TEST_H
#define TEST_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct CMUnitTest test_list[64];
static int test_lines[64];
static size_t test_count;
/* Called before and after all tests of the file; a file defines them to have them. */
static int (*test_begin)(void **state);
static int (*test_end)(void **state);

static inline void test_add(const struct CMUnitTest *test, int line)
{
    size_t i = test_count++;

    if (test_count > sizeof test_list / sizeof test_list[0])
        abort();
    for (; i > 0 && test_lines[i - 1] > line; i--) {
        test_list[i] = test_list[i - 1];
        test_lines[i] = test_lines[i - 1];
    }
    test_list[i] = *test;
    test_lines[i] = line;
}

/* Runs the tests of this file. Returns how many failed. */
static inline int test_run(void)
{
    assert_true(test_count > 0);
    return _cmocka_run_group_tests("tests", test_list, test_count, test_begin, test_end);
}

/* TEST_WITH(name, set_up, tear_down) { ... }: a test with functions that are called before and after it, or NULL. */
#define TEST_WITH(name, set_up, tear_down)                                                                             \
    static void name(void **state);                                                                                    \
    __attribute__((constructor)) static void add_##name(void)                                                          \
    {                                                                                                                  \
        test_add(&(struct CMUnitTest){#name, name, set_up, tear_down, NULL}, __LINE__);                                \
    }                                                                                                                  \
    static void name(__attribute__((unused)) void **unused_state)

#define TEST(name) TEST_WITH(name, NULL, NULL)

/* The main() of a file that prepares nothing. */
#define TEST_MAIN                                                                                                      \
    int main(void)                                                                                                     \
    {                                                                                                                  \
        return test_run();                                                                                             \
    }

/* The step of a sweep over many places: 1, or what UNIT_STEP says where programs run slowly (a simulated processor,
 * sanitizers). */
static inline unsigned unit_step(void)
{
    const char *step = getenv("UNIT_STEP");
    int value = step ? atoi(step) : 1;

    return value > 1 ? (unsigned)value : 1;
}

/* Random tries are fewer there: their number is divided by this. */
static inline unsigned unit_part(void)
{
    return 1 + unit_step() / 8;
}

#endif
