/*
 * Config files: sections of settings. The form, and nothing of what the settings mean:
 *
 *   # a comment is a line of its own
 *   [scrape gateway]
 *   url = http://10.0.0.7:6060
 *   tags = zone=a, device="pi-7"
 *
 * A section has a kind and may have a name. A key is of a-z, 0-9, '-' and '_'; its value is the rest of the line
 * without the blanks around it, and without the quotes when it stands in two. A key may come once in a section, unless
 * its reader takes it several times.
 *
 * What is wrong is said on stderr as "FILE:LINE: what, and what to do".
 */
#ifndef ET_CONFIG_H
#define ET_CONFIG_H

#include "tools/lib/util.h"

struct et_setting {
    char *key, *value;
    unsigned line;
};

struct et_section {
    char *kind, *name; /* name: "" when there is none */
    unsigned line;
    struct et_setting *settings;
    size_t count, capacity;
};

struct et_config {
    char *path; /* for messages */
    struct et_section *sections;
    size_t count, capacity;
};

/* Reads a file; false: all that is wrong with it is said, and *out is empty. */
bool et_config_read(const char *path, struct et_config *out);
/* The same of bytes; path is what messages call them. */
bool et_config_parse(const char *path, const char *text, size_t size, struct et_config *out);
void et_config_free(struct et_config *config);

/* One line on stderr, "edgeprof: FILE:LINE: ...". */
void et_config_error(const struct et_config *config, unsigned line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The first section of that kind after `after`, NULL: the first of all. NULL: there is none. */
const struct et_section *et_config_next(const struct et_config *config, const char *kind,
                                        const struct et_section *after);

/* Whether each section is of one of these kinds, up to a NULL; says which are not. */
bool et_config_kinds(const struct et_config *config, const char *const *kinds);
/* Whether the section has only these keys, up to a NULL, each once; one that ends with '*' may come several times and
 * is called without it. Says what else there is. */
bool et_config_keys(const struct et_config *config, const struct et_section *section, const char *const *keys);

/* A setting or NULL, the last of several; its value or NULL. */
const struct et_setting *et_config_setting(const struct et_section *section, const char *key);
const char *et_config_value(const struct et_section *section, const char *key);

/* Values of a form. *out stays as it is when the key is absent; false: of another form, which is said.
 * number: 0 to `most`. size: bytes, "64k", "4M", "1G" (binary). duration: "10s", "5m", "24h", "7d", and "0" when
 * `zero` allows it. flag: yes or no. */
bool et_config_number(const struct et_config *config, const struct et_section *section, const char *key, uint64_t most,
                      uint64_t *out);
bool et_config_size(const struct et_config *config, const struct et_section *section, const char *key, size_t *out);
bool et_config_duration(const struct et_config *config, const struct et_section *section, const char *key, bool zero,
                        int64_t *out_ns);
bool et_config_flag(const struct et_config *config, const struct et_section *section, const char *key, bool *out);

/* Calls item() for each part of a list "a, b=c, d": trimmed, without quotes, never empty. False as soon as a call is.
 */
bool et_config_list(const char *list, bool (*item)(void *context, const char *item), void *context);

#endif
