/*
 * Selectors in the syntax of Prometheus and Pyroscope: name{key="value",key!="value",key=~"regex",key!~"regex"}. A
 * value without quotes ends at a comma or brace. This file does not know what is selected.
 */
#ifndef ET_SELECTOR_H
#define ET_SELECTOR_H

#include "tools/lib/util.h"

/* Names that a matcher may use besides labels and tags. */
#define ET_SERVICE_NAME "service_name"
#define ET_HOST         "host" /* used when no label or tag has that name */

enum et_match { ET_MATCH_EQUAL, ET_MATCH_NOT_EQUAL, ET_MATCH_REGEX, ET_MATCH_NOT_REGEX };

struct et_matcher {
    char *name, *value; /* clean (et_clean) */
    enum et_match how;
    bool process;                   /* matches only the process's tags, not labels of stacks */
    struct pcre2_real_code_8 *code; /* compiled regular expression, must match the whole value */
    struct pcre2_real_match_context_8 *limits;
};

struct et_selector {
    char *name; /* the part before the brace, clean; NULL before the first parse */
    struct et_matcher *matchers;
    size_t count, capacity;
    bool strict; /* as Prometheus: only letters, digits and _ in a name without quotes; values have quotes */
};

/* Adds the text's matchers; replaces the name. False: malformed; *why is a static string. */
bool et_selector_parse(struct et_selector *selector, const char *text, const char **why);
/* Adds one matcher without braces and quotes: everything after the operator is the value. */
bool et_selector_add(struct et_selector *selector, const char *text, bool process, const char **why);
void et_selector_free(struct et_selector *selector);

/* Prints a form that et_selector_parse() reads. Omits process matchers. */
void et_selector_print(const char *name, const struct et_matcher *matchers, size_t count, struct et_buf *out);

/* Prints one matcher in a form that et_selector_add() reads. */
void et_matcher_print(const struct et_matcher *matcher, struct et_buf *out);

/* A missing value is "". An expression that exceeds its limits does not match. Context: any thread. */
bool et_matcher_matches(const struct et_matcher *matcher, const char *value, size_t size);

#endif
