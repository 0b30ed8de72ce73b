/* Rates of notifications (fair_rate.h): noisy devices silence themselves, not others, in fixed memory. */
#include "tools/serve/fair_rate.h"
#include "tests/unit/test.h"

static const int64_t SECOND = 1000000000, HOUR = INT64_C(3600) * 1000000000;
static struct et_fair_rate rate;

static void begin(uint64_t per_hour, uint64_t device_per_hour)
{
    rate = (struct et_fair_rate){.per_hour = per_hour, .device_per_hour = device_per_hour};
}

/* Of so many attempts, those that were allowed. */
static int allowed(uint64_t device, int attempts, int64_t now_ns)
{
    int count = 0;
    for (int i = 0; i < attempts; i++) {
        count += et_fair_take(&rate, device, now_ns) == ET_FAIR_ALLOWED;
    }
    return count;
}

TEST(one_device_has_its_rate)
{
    begin(20, 5);
    assert_int_equal(allowed(1, 100, HOUR), 5);
    assert_int_equal(et_fair_take(&rate, 1, HOUR), ET_FAIR_DEVICE);
    assert_int_equal(allowed(1, 100, 2 * HOUR), 5);
    int later = 0;
    for (int i = 1; i <= 3600; i++) {
        later += allowed(1, 1, 2 * HOUR + i * SECOND);
    }
    assert_int_equal(later, 5);
}

/* Four noisy devices, each above its own rate, and then fifteen with one incident each: half of the total is theirs. */
TEST(noisy_devices_do_not_silence_others)
{
    int noisy = 0, quiet = 0;
    begin(20, 5);
    for (uint64_t round = 0; round < 100; round++) {
        for (uint64_t device = 1; device <= 4; device++) {
            noisy += allowed(device, 1, HOUR);
        }
    }
    assert_int_equal(noisy, 10);
    for (uint64_t device = 100; device < 115; device++) {
        quiet += allowed(device, 1, HOUR);
    }
    assert_int_equal(quiet, 10);
    assert_int_equal(et_fair_take(&rate, 200, HOUR), ET_FAIR_TOTAL);
}

TEST(the_smallest_rate)
{
    begin(1, 1);
    assert_int_equal(allowed(1, 10, HOUR), 1);
    assert_int_equal(allowed(2, 10, HOUR), 0);
    assert_int_equal(allowed(2, 10, 2 * HOUR), 1);
}

/* More devices than entries: the total holds, and a noisy device is forgotten now and then. */
TEST(memory_is_fixed)
{
    int all = 0, noisy = 0;
    begin(3600, 1);
    for (uint64_t i = 0; i < 3600; i++) {
        int64_t now = HOUR + (int64_t)i * SECOND;
        noisy += allowed(1, 1, now);
        all += allowed(1000 + i, 1, now);
    }
    assert_int_equal(all, 3600);
    assert_in_range(noisy, 1, 6);
}

TEST_MAIN
