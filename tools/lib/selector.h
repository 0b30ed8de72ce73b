/*
 * Selectors, as Prometheus and Pyroscope have them: name{key="value",key!="value",key=~"regex",key!~"regex"}. Values
 * may stand without quotes, up to a comma or brace. Knows nothing of what is selected.
 */
#ifndef ET_SELECTOR_H
#define ET_SELECTOR_H

#include "tools/lib/util.h"

/* What a matcher may ask of besides labels and tags. */
#define ET_SERVICE_NAME "service_name"
#define ET_HOST         "host" /* where no label or tag has that name */

enum et_match { ET_MATCH_EQUAL, ET_MATCH_NOT_EQUAL, ET_MATCH_REGEX, ET_MATCH_NOT_REGEX };

struct et_matcher {
    char *name, *value; /* clean (et_clean) */
    enum et_match how;
    bool process;                   /* asks the process' tags only, whatever its stacks' labels say */
    struct pcre2_real_code_8 *code; /* of a regular expression; it has to match the whole value */
};

struct et_selector {
    char *name; /* what stood before the brace, clean; NULL before the first parse */
    struct et_matcher *matchers;
    size_t count, capacity;
};

/* Adds to what is there; the name is replaced. false: not of that form, *why says in what way (static). */
bool et_selector_parse(struct et_selector *selector, const char *text, const char **why);
/* One matcher without braces and quotes: all behind the operator is its value. */
bool et_selector_add(struct et_selector *selector, const char *text, bool process, const char **why);
void et_selector_free(struct et_selector *selector);

/* As et_selector_parse() reads it; matchers of processes are left out. */
void et_selector_print(const char *name, const struct et_matcher *matchers, size_t count, struct et_buf *out);

/* One of them, as et_selector_add() reads it. */
void et_matcher_print(const struct et_matcher *matcher, struct et_buf *out);

/* A value that is missing is "". An expression that takes too long does not match. Context: any thread. */
bool et_matcher_matches(const struct et_matcher *matcher, const char *value, size_t size);

#endif
