/*
 * Config files: sections of settings. This file parses the form; it does not know what the settings mean.
 *
 *   # a comment is a line of its own
 *   [scrape gateway]
 *   tags = zone=a, device="pi-7"
 *
 * A section has a kind and an optional name. A key consists of a-z, 0-9, '-' and '_' and occurs once in a section,
 * unless its reader accepts several. A value is the rest of the line, trimmed, without enclosing double quotes. Errors
 * go to stderr as "FILE:LINE: problem; remedy".
 */
#ifndef ET_CONFIG_H
#define ET_CONFIG_H

#include "tools/lib/util.h"

struct et_setting {
    char *key, *value;
    unsigned line;
};

struct et_section {
    char *kind, *name; /* name: "" when absent */
    unsigned line;
    struct et_setting *settings;
    size_t count, capacity;
};

struct et_config {
    char *path; /* shown in messages */
    struct et_section *sections;
    size_t count, capacity;
};

/* Reads a file. False: every error was reported and *out is empty. */
bool et_config_read(const char *path, struct et_config *out);
/* Parses text in memory. path: name of the source in messages. */
bool et_config_parse(const char *path, const char *text, size_t size, struct et_config *out);
void et_config_free(struct et_config *config);

/* One line on stderr, "edgeprof: FILE:LINE: ...". */
void et_config_error(const struct et_config *config, unsigned line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The next section of this kind after `after`; NULL as `after`: the first one. Returns NULL when there is none. */
const struct et_section *et_config_next(const struct et_config *config, const char *kind,
                                        const struct et_section *after);

/* Checks that each section's kind is in the NULL-terminated list. Reports each section that is not. */
bool et_config_kinds(const struct et_config *config, const char *const *kinds);
/* Checks that the section has only keys of the NULL-terminated list, each once. A list entry that ends with '*' (not
 * part of the key) may occur several times. Reports every other key. */
bool et_config_keys(const struct et_config *config, const struct et_section *section, const char *const *keys);

/* The key's last setting, or its value. NULL: absent. */
const struct et_setting *et_config_setting(const struct et_section *section, const char *key);
const char *et_config_value(const struct et_section *section, const char *key);

/* Typed values. An absent key leaves *out unchanged. False: the value is malformed, which was reported. number: 0 to
 * `most`. size: bytes, "64k", "4M", "1G" (binary). duration: "10s", "5m", "24h", "7d"; "0" when `zero` allows it. flag:
 * yes or no. */
bool et_config_number(const struct et_config *config, const struct et_section *section, const char *key, uint64_t most,
                      uint64_t *out);
bool et_config_size(const struct et_config *config, const struct et_section *section, const char *key, size_t *out);
bool et_config_duration(const struct et_config *config, const struct et_section *section, const char *key, bool zero,
                        int64_t *out_ns);
bool et_config_flag(const struct et_config *config, const struct et_section *section, const char *key, bool *out);

/* Calls item() for each part of a list "a, b=c, d": trimmed, without quotes, never empty. Stops at the first call that
 * returns false, and returns false. */
bool et_config_list(const char *list, bool (*item)(void *context, const char *item), void *context);

#endif
