/*
 * What people and requests write for times and for services with tags.
 */
#ifndef ET_WHEN_H
#define ET_WHEN_H

#include "store.h"

/* Unix time in nanoseconds, now. */
int64_t et_now(void);

/* "90s", "10m", "2h", "7d" -> nanoseconds, > 0. */
bool et_parse_duration(const char *text, int64_t *ns);

/* "now", "now-10m", Unix seconds (10, 13, 16 or 19 digits: s, ms, us, ns; or with a fraction), or UTC as
 * 2026-11-21, 2026-11-21T09:30, 2026-11-21T09:30:00Z. */
bool et_parse_time(const char *text, int64_t *ns);

/* A query that owns its strings. Zeroed: everything. */
struct et_wanted {
    struct et_selector selector;
    char *kind, *group;
    struct et_query query;
    const char *why; /* what was wrong with what was not of its form (static) */
};

/* "service", "service{key=value,other=~"regex"}", "{key!=value}"; adds to what is there. false: not of that form. */
bool et_wanted_name(struct et_wanted *wanted, const char *name);
/* "key=value" of processes; other operators of selectors, too. */
bool et_wanted_tag(struct et_wanted *wanted, const char *tag);
/* "key=value" of stacks, or else of their process. */
bool et_wanted_label(struct et_wanted *wanted, const char *label);
void et_wanted_group(struct et_wanted *wanted, const char *key);
/* "value", "bytes", "time" or "count", "objects" and the like; "": the default. */
bool et_wanted_measure(struct et_wanted *wanted, const char *word);
void et_wanted_kind(struct et_wanted *wanted, const char *kind);
void et_wanted_free(struct et_wanted *wanted);

#endif
