/* Calls of an incident: a sender that chooses names and lines does not choose how long they take. */
#include "tools/formats/incident.h"
#include "tests/unit/test.h"

#include <time.h>

enum { NAMES = 47000, CALLS = 6000 };

static uint32_t name_of(struct et_profile *profile, uint32_t number)
{
    char text[16];
    snprintf(text, sizeof text, "n%u", number);
    return et_intern(&profile->strings, text);
}

static void add_call(struct et_profile *profile, uint32_t name, uint32_t file, uint32_t line)
{
    struct et_frame frame = {.name = name_of(profile, name), .file = name_of(profile, file), .line = line};
    (void)et_profile_node(profile, 0, et_profile_frame(profile, frame));
}

/* Two functions whose lines are mixed with these. */
static double seconds_of(uint32_t first, uint32_t second)
{
    struct et_profile *profile = et_profile_new();
    struct et_calls calls;
    for (uint32_t i = 1; i < NAMES; i++) { /* so that the name number i has the number i in the calls */
        add_call(profile, i, i, 1);
    }
    for (uint32_t i = 0; i < CALLS; i++) {
        add_call(profile, 2, 1, first ^ i);
    }
    for (uint32_t i = 0; i < CALLS; i++) {
        add_call(profile, 46370, 1 ^ 41680, second ^ i);
    }
    clock_t before = clock();
    et_calls_make(profile, &calls);
    double seconds = (double)(clock() - before) / CLOCKS_PER_SEC;
    assert_int_equal(calls.count, NAMES - 1 + 2 * CALLS);
    et_calls_free(&calls);
    et_profile_free(profile);
    return seconds;
}

/* With the product as a key, as it once was, these lines meet a run of others. */
TEST(chosen_lines_take_no_longer)
{
    const uint64_t factor = 0x9e3779b97f4a7c15u;
    double usual = seconds_of(1 << 20, 1 << 21),
           chosen = seconds_of((uint32_t)(2 * factor), (uint32_t)(46370 * factor));
    if (chosen > 8 * usual) {
        fail_msg("%.3f s instead of %.3f", chosen, usual);
    }
}

TEST_MAIN
