/* See config.h. et_config_parse() reads line by line: parse_line() calls add_section() or add_setting(). */
#include "tools/lib/config.h"
#include "tools/lib/time_text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_LIMIT = 1 << 20 };

static const char BLANKS[] = " \t\r";
static const char WORD[] = "abcdefghijklmnopqrstuvwxyz0123456789-_";

void et_config_error(const struct et_config *config, unsigned line, const char *format, ...)
{
    struct et_buf text = {0};
    char *message = NULL;
    va_list args;
    va_start(args, format);
    int size = vasprintf(&message, format, args);
    va_end(args);
    char *clean = et_clean(size < 0 ? "" : message, size < 0 ? 0 : (size_t)size);
    et_buf_printf(&text, "%s:%u: %s", config->path, line, clean);
    et_error("%s", text.data);
    et_buf_free(&text);
    free(clean);
    free(message);
}

/* ---- reading ---- */

/* Removes blanks at both ends. */
static void trim(const char **text, size_t *size)
{
    while (*size && strchr(BLANKS, **text)) {
        (*text)++;
        (*size)--;
    }
    while (*size && strchr(BLANKS, (*text)[*size - 1])) {
        (*size)--;
    }
}

static char *copy_text(const char *text, size_t size)
{
    char *to = et_alloc(size + 1, 1);
    memcpy(to, text, size);
    return to;
}

static char *copy_unquoted(const char *text, size_t size)
{
    trim(&text, &size);
    bool quoted = size >= 2 && text[0] == '"' && text[size - 1] == '"';
    return copy_text(text + quoted, size - (quoted ? 2 : 0));
}

static bool is_word(const char *text, size_t size)
{
    return size > 0 && strspn(text, WORD) >= size;
}

/* text starts at the '['. A malformed header still starts a section, so that its settings report no errors of their
 * own. */
static bool add_section(struct et_config *config, unsigned line, const char *text, size_t size)
{
    bool closed = text[size - 1] == ']' && size > 1;
    text++;
    size -= closed ? 2 : 1;
    trim(&text, &size);
    size_t kind = strcspn(text, " \t]");
    kind = kind < size ? kind : size;
    config->sections = et_reserve(config->sections, &config->capacity, config->count + 1, sizeof *config->sections);
    struct et_section *section = &config->sections[config->count++];
    *section = (struct et_section){
        .kind = copy_text(text, kind), .name = copy_unquoted(text + kind, size - kind), .line = line};
    if (!closed) {
        et_config_error(config, line, "missing ']' at the end of the line");
    } else if (!is_word(text, kind)) {
        et_config_error(config, line, "expected [kind] or [kind name], such as [scrape gateway]");
        return false;
    }
    return closed;
}

static bool add_setting(struct et_config *config, unsigned line, const char *text, size_t size)
{
    const char *equals = memchr(text, '=', size);
    size_t key = equals ? (size_t)(equals - text) : 0;
    const char *start = text;
    trim(&start, &key);
    if (!is_word(start, key)) {
        et_config_error(config, line, "expected [section] or key = value, with a key such as token-file");
        return false;
    }
    if (config->count == 0) {
        et_config_error(config, line, "a setting outside a section; put it below one, such as [serve]");
        return false;
    }
    struct et_section *section = &config->sections[config->count - 1];
    section->settings =
        et_reserve(section->settings, &section->capacity, section->count + 1, sizeof *section->settings);
    section->settings[section->count++] =
        (struct et_setting){.key = copy_text(start, key),
                            .value = copy_unquoted(equals + 1, size - (size_t)(equals + 1 - text)),
                            .line = line};
    return true;
}

static bool parse_line(struct et_config *config, unsigned line, const char *text, size_t size)
{
    trim(&text, &size);
    if (size == 0 || text[0] == '#' || text[0] == ';') {
        return true;
    }
    if (memchr(text, '\0', size)) {
        et_config_error(config, line, "a zero byte; not a text file");
        return false;
    }
    return text[0] == '[' ? add_section(config, line, text, size) : add_setting(config, line, text, size);
}

bool et_config_parse(const char *path, const char *text, size_t size, struct et_config *out)
{
    /* The parsers use strspn() and the like, so the copy must end with a NUL. */
    char *bytes = copy_text(text, size);
    bool ok = true;
    unsigned line = 1;
    *out = (struct et_config){.path = et_clean(path, strlen(path))};
    for (size_t at = 0; at < size; line++) {
        const char *end = memchr(bytes + at, '\n', size - at);
        size_t length = end ? (size_t)(end - bytes) - at : size - at;
        ok &= parse_line(out, line, bytes + at, length);
        at += length + 1;
    }
    free(bytes);
    if (!ok) {
        et_config_free(out);
    }
    return ok;
}

bool et_config_read(const char *path, struct et_config *out)
{
    struct et_buf text = {0};
    int err = et_read_file(path, FILE_LIMIT, &text);
    bool ok = false;
    *out = (struct et_config){0};
    if (err) {
        et_error("config file %s: %s", path, err == -EFBIG ? "larger than 1 MiB" : strerror(-err));
    } else {
        ok = et_config_parse(path, text.data ? text.data : "", text.size, out);
    }
    et_buf_free(&text);
    return ok;
}

void et_config_free(struct et_config *config)
{
    for (size_t i = 0; i < config->count; i++) {
        struct et_section *section = &config->sections[i];
        for (size_t k = 0; k < section->count; k++) {
            free(section->settings[k].key);
            free(section->settings[k].value);
        }
        free(section->settings);
        free(section->kind);
        free(section->name);
    }
    free(config->sections);
    free(config->path);
    *config = (struct et_config){0};
}

/* ---- sections and keys ---- */

const struct et_section *et_config_next(const struct et_config *config, const char *kind,
                                        const struct et_section *after)
{
    for (size_t i = after ? (size_t)(after - config->sections) + 1 : 0; i < config->count; i++) {
        if (strcmp(config->sections[i].kind, kind) == 0) {
            return &config->sections[i];
        }
    }
    return NULL;
}

/* Index of the key in the NULL-terminated list, or the index of the NULL. *several: the key may occur several times. */
static size_t find_known(const char *const *known, const char *key, bool *several)
{
    size_t i = 0;
    for (; known[i]; i++) {
        size_t size = strlen(known[i]);
        *several = size && known[i][size - 1] == '*';
        size -= *several;
        if (strncmp(known[i], key, size) == 0 && key[size] == '\0') {
            break;
        }
    }
    return i;
}

static char *join_known(const char *const *known)
{
    struct et_buf list = {0};
    for (size_t i = 0; known[i]; i++) {
        et_buf_printf(&list, "%s%.*s", i ? ", " : "", (int)strcspn(known[i], "*"), known[i]);
    }
    return list.data;
}

bool et_config_kinds(const struct et_config *config, const char *const *kinds)
{
    bool ok = true, several;
    for (size_t i = 0; i < config->count; i++) {
        if (!kinds[find_known(kinds, config->sections[i].kind, &several)]) {
            char *list = join_known(kinds);
            et_config_error(config, config->sections[i].line, "unknown section [%s]; valid are %s",
                            config->sections[i].kind, list);
            free(list);
            ok = false;
        }
    }
    return ok;
}

bool et_config_keys(const struct et_config *config, const struct et_section *section, const char *const *keys)
{
    bool ok = true;
    for (size_t i = 0; i < section->count; i++) {
        const struct et_setting *setting = &section->settings[i], *last = et_config_setting(section, setting->key);
        bool several = false;
        if (!keys[find_known(keys, setting->key, &several)]) {
            char *list = join_known(keys);
            et_config_error(config, setting->line, "unknown key '%s' in [%s]; valid are %s", setting->key,
                            section->kind, list);
            free(list);
            ok = false;
        } else if (!several && last != setting) {
            et_config_error(config, last->line, "duplicate %s, first in line %u; remove one", setting->key,
                            setting->line);
            ok = false;
        }
    }
    return ok;
}

const struct et_setting *et_config_setting(const struct et_section *section, const char *key)
{
    for (size_t i = section->count; i-- > 0;) {
        if (strcmp(section->settings[i].key, key) == 0) {
            return &section->settings[i];
        }
    }
    return NULL;
}

const char *et_config_value(const struct et_section *section, const char *key)
{
    const struct et_setting *setting = et_config_setting(section, key);
    return setting ? setting->value : NULL;
}

/* ---- values ---- */

static bool report_bad_value(const struct et_config *config, const struct et_setting *setting, const char *form)
{
    et_config_error(config, setting->line, "%s = %s: expected %s", setting->key, setting->value, form);
    return false;
}

/* A decimal number with at most one unit character from `units`. *scale: index of the unit + 1, or 0 without a unit. */
static bool parse_scaled_number(const char *text, const char *units, uint64_t *number, unsigned *scale)
{
    size_t digits = strspn(text, "0123456789");
    const char *unit = text[digits] ? strchr(units, text[digits]) : NULL;
    if (digits == 0 || digits > 18 || (text[digits] && (!unit || text[digits + 1]))) {
        return false;
    }
    *number = strtoull(text, NULL, 10);
    *scale = unit ? (unsigned)(unit - units) + 1 : 0;
    return true;
}

bool et_config_number(const struct et_config *config, const struct et_section *section, const char *key, uint64_t most,
                      uint64_t *out)
{
    const struct et_setting *setting = et_config_setting(section, key);
    uint64_t number;
    unsigned scale;
    if (setting && (!parse_scaled_number(setting->value, "", &number, &scale) || number > most)) {
        char form[64];
        snprintf(form, sizeof form, "a number from 0 to %llu", (unsigned long long)most);
        return report_bad_value(config, setting, form);
    }
    *out = setting ? number : *out;
    return true;
}

bool et_config_size(const struct et_config *config, const struct et_section *section, const char *key, size_t *out)
{
    const struct et_setting *setting = et_config_setting(section, key);
    uint64_t number;
    unsigned scale;
    if (setting && (!parse_scaled_number(setting->value, "kMG", &number, &scale) ||
                    number > (uint64_t)INT32_MAX >> (10 * scale))) {
        return report_bad_value(config, setting, "bytes, below 2G, like 4096, 64k, 4M or 1G");
    }
    *out = setting ? (size_t)number << (10 * scale) : *out;
    return true;
}

bool et_config_duration(const struct et_config *config, const struct et_section *section, const char *key, bool zero,
                        int64_t *out_ns)
{
    const struct et_setting *setting = et_config_setting(section, key);
    int64_t ns = 0;
    if (setting && !(zero && strcmp(setting->value, "0") == 0) && !et_parse_duration(setting->value, &ns)) {
        return report_bad_value(config, setting,
                                zero ? "0, or a time like 10s, 5m, 24h or 7d" : "a time like 10s, 5m, 24h or 7d");
    }
    *out_ns = setting ? ns : *out_ns;
    return true;
}

bool et_config_flag(const struct et_config *config, const struct et_section *section, const char *key, bool *out)
{
    const struct et_setting *setting = et_config_setting(section, key);
    bool yes = setting && strcmp(setting->value, "yes") == 0, no = setting && strcmp(setting->value, "no") == 0;
    if (setting && !yes && !no) {
        return report_bad_value(config, setting, "yes or no");
    }
    *out = setting ? yes : *out;
    return true;
}

bool et_config_list(const char *list, bool (*item)(void *context, const char *item), void *context)
{
    bool ok = true;
    while (*list && ok) {
        /* A comma between quotes does not end an item. */
        size_t size = 0;
        for (bool quoted = false; list[size] && (quoted || list[size] != ','); size++) {
            quoted ^= list[size] == '"';
        }
        struct et_buf part = {0};
        const char *text = list;
        size_t left = size;
        trim(&text, &left);
        et_buf_text(&part, "");
        for (size_t i = 0; i < left; i++) {
            if (text[i] != '"') {
                et_buf_char(&part, text[i]);
            }
        }
        ok = part.size == 0 || item(context, part.data);
        et_buf_free(&part);
        list += size + (list[size] == ',');
    }
    return ok;
}
