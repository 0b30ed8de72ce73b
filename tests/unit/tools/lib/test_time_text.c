/* Times and durations as text: every form, and numbers that do not fit. */
#include "tools/lib/time_text.h"
#include "tests/unit/test.h"

TEST(times_are_read)
{
    static const struct {
        const char *text;
        int64_t ns;
    } cases[] = {
        {"1700000000", 1700000000000000000},
        {"1700000000.5", 1700000000500000000},
        {"1700000000.000000001", 1700000000000000001},
        {"1700000000123", 1700000000123000000},
        {"1700000000123456", 1700000000123456000},
        {"1700000000123456789", 1700000000123456789},
        {"2023-11-14T22:13:20Z", 1700000000000000000},
        {"2023-11-14", 1699920000000000000},
        {"99999999999", INT64_MAX}, /* 11 digits: seconds */
        {"99999999999.5", INT64_MAX},
        {"9223372036.9", INT64_MAX},
        {"9223372035.9", 9223372035900000000},
        {"9223372036", 9223372036000000000},
        {"9999-12-31", INT64_MAX},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t ns = 0;
        if (!et_parse_time(cases[i].text, &ns) || ns != cases[i].ns) {
            fail_msg("%s: %lld", cases[i].text, (long long)ns);
        }
    }
}

TEST(wrong_times_are_refused)
{
    static const char *const wrong[] = {"",       "-1",   "1.",         "1.1234567890",         "1.5x",
                                        "now+1m", "now-", "1969-12-31", "99999999999999999999", "1700000000123.5"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        int64_t ns;
        if (et_parse_time(wrong[i], &ns)) {
            fail_msg("'%s' was understood", wrong[i]);
        }
    }
}

TEST(durations_are_read)
{
    int64_t ns;
    assert_true(et_parse_duration("90s", &ns) && ns == 90000000000);
    assert_true(et_parse_duration("36500d", &ns) && ns == 3153600000000000000);
    assert_true(et_parse_duration("1h30m", &ns) && ns == 5400000000000);
    assert_true(et_parse_duration("1d2h3m4s", &ns) && ns == 93784000000000);
    assert_false(et_parse_duration("30m1h", &ns) || et_parse_duration("1h1h", &ns) || et_parse_duration("1h30", &ns));
    assert_false(et_parse_duration("0s", &ns) || et_parse_duration("36501d", &ns) || et_parse_duration("999999d", &ns));
    assert_false(et_parse_duration("1", &ns) || et_parse_duration("s", &ns) || et_parse_duration("1ms", &ns));
}

TEST_MAIN
