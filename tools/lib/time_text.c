/* See time_text.h. */
#include "tools/lib/time_text.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static const int64_t SECOND = 1000000000;

static int64_t read_clock(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * SECOND + now.tv_nsec;
}

int64_t et_now(void)
{
    return read_clock(CLOCK_REALTIME);
}

int64_t et_monotonic(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

int64_t et_since_boot(void)
{
    return read_clock(CLOCK_BOOTTIME);
}

/* Only digits; fits 63 bits. */
static bool parse_digits(const char *text, size_t size, int64_t *value)
{
    *value = 0;
    if (size == 0 || size > 19 || strspn(text, "0123456789") < size) {
        return false;
    }
    for (size_t i = 0; i < size; i++) {
        if (*value > (INT64_MAX - 9) / 10) {
            return false;
        }
        *value = *value * 10 + (text[i] - '0');
    }
    return true;
}

bool et_is_date(int64_t ns)
{
    static const int64_t year_2010 = 1262304000, day = 86400;
    return ns >= year_2010 * SECOND && ns < et_now() + day * SECOND;
}

bool et_parse_duration(const char *text, int64_t *ns)
{
    static const char units[] = "dhms";
    static const int64_t seconds[] = {86400, 3600, 60, 1};
    const char *least = units; /* each unit is smaller than the one before it */
    int64_t sum = 0, value;
    do {
        size_t digits = strspn(text, "0123456789");
        const char *unit = text[digits] ? strchr(least, text[digits]) : NULL;
        if (!unit || digits > 6 || !parse_digits(text, digits, &value)) {
            return false;
        }
        sum += value * seconds[unit - units];
        least = unit + 1;
        text += digits + 1;
    } while (*text);
    if (sum == 0 || sum > (int64_t)86400 * 36500) {
        return false;
    }
    *ns = sum * SECOND;
    return true;
}

static bool parse_unix_time(const char *text, int64_t *ns)
{
    size_t size = strspn(text, "0123456789");
    if (!parse_digits(text, size, ns)) {
        return false;
    }
    int64_t scale = size >= 18 ? 1 : size >= 15 ? 1000 : size >= 12 ? 1000000 : SECOND;
    if (text[size] == '.' && scale == SECOND) {
        int64_t fraction, unit = SECOND;
        size_t places = strspn(text + size + 1, "0123456789");
        if (places > 9 || !parse_digits(text + size + 1, places, &fraction) || text[size + 1 + places]) {
            return false;
        }
        while (places-- > 0) {
            unit /= 10;
        }
        *ns = *ns > INT64_MAX / SECOND - 1 ? INT64_MAX : *ns * SECOND + fraction * unit;
        return true;
    }
    *ns = *ns > INT64_MAX / scale ? INT64_MAX : *ns * scale;
    return text[size] == '\0';
}

static bool parse_utc_time(const char *text, int64_t *ns)
{
    static const char *const formats[] = {"%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d"};
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        struct tm tm = {0};
        const char *end = strptime(text, formats[i], &tm);
        if (end && *end == '\0') {
            const struct tm asked = tm;
            int64_t seconds = timegm(&tm); /* makes 2 March of 30 February */
            if (tm.tm_mday != asked.tm_mday || tm.tm_mon != asked.tm_mon) {
                return false;
            }
            *ns = seconds > INT64_MAX / SECOND ? INT64_MAX : seconds * SECOND;
            return seconds >= 0;
        }
    }
    return false;
}

bool et_parse_time(const char *text, int64_t *ns)
{
    if (strncmp(text, "now", 3) == 0) {
        int64_t back = 0;
        *ns = et_now();
        if (text[3] == '-' && et_parse_duration(text + 4, &back)) {
            *ns -= back;
            return true;
        }
        return text[3] == '\0';
    }
    return parse_utc_time(text, ns) || parse_unix_time(text, ns);
}

/* "19:58" or "19:58:30" of today, or of yesterday when it is yet to come. */
static bool parse_hour(const char *text, struct tm *today, int64_t *ns)
{
    static const char *const formats[] = {"%H:%M:%S", "%H:%M"};
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        struct tm at = *today;
        const char *end = strptime(text, formats[i], &at);
        if (end && *end == '\0') {
            time_t seconds = mktime(&at);
            if (seconds * SECOND > et_now()) {
                at.tm_mday--;
                at.tm_isdst = -1;
                seconds = mktime(&at);
            }
            *ns = seconds * SECOND;
            return true;
        }
    }
    return false;
}

bool et_parse_human_time(const char *text, int64_t *ns)
{
    time_t now = (time_t)(et_now() / SECOND);
    struct tm day;
    if (et_parse_time(text, ns)) {
        return true;
    }
    if (!localtime_r(&now, &day)) {
        return false;
    }
    day.tm_hour = day.tm_min = day.tm_sec = 0;
    day.tm_isdst = -1; /* of that hour, not of now */
    bool yesterday = strcmp(text, "yesterday") == 0;
    if (!yesterday && strcmp(text, "today") != 0) {
        return parse_hour(text, &day, ns);
    }
    day.tm_mday -= yesterday;
    *ns = mktime(&day) * SECOND;
    return true;
}
