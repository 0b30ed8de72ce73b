/* The clock; parsing of times and durations from options and requests. */
#ifndef ET_TIME_TEXT_H
#define ET_TIME_TEXT_H

#include "tools/lib/util.h"

/* Unix time in nanoseconds. */
int64_t et_now(void);
/* Whether a Unix time in ns may be of a clock that was set: from 2010 to a day from now. */
bool et_is_date(int64_t ns);
/* Nanoseconds of a clock that is never set. */
int64_t et_monotonic(void);
/* The same since the machine started, with the time that it was suspended. */
int64_t et_since_boot(void);

/* "90s", "10m", "2h", "7d", "1h30m" -> nanoseconds, > 0. */
bool et_parse_duration(const char *text, int64_t *ns);

/* "now", "now-10m", Unix seconds (10, 13, 16 or 19 digits: s, ms, us, ns; or with a fraction), or UTC as
 * 2026-11-21, 2026-11-21T09:30, 2026-11-21T09:30:00Z. A time that does not fit is INT64_MAX. */
bool et_parse_time(const char *text, int64_t *ns);
/* The same, or a local time as people say it: "today" and "yesterday" are their midnights, "19:58" the last one. */
bool et_parse_human_time(const char *text, int64_t *ns);

#endif
