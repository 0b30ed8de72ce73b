/* A regular expression that a user typed, found anywhere in a text; PCRE2's syntax and default limits. */
#ifndef ET_PATTERN_H
#define ET_PATTERN_H

#include "tools/lib/util.h"

struct et_pattern;

/* NULL: malformed, *why says how and where. et_pattern_free() it. */
struct et_pattern *et_pattern_new(const char *text, struct et_buf *why);
/* False also for a text that exceeds the limits. */
bool et_pattern_matches(const struct et_pattern *pattern, const char *text);
/* NULL is ignored. */
void et_pattern_free(struct et_pattern *pattern);

#endif
