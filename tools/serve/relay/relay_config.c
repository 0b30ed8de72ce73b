/* See relay.h: the `[relay NAME]` sections of a config file. */
#include "tools/serve/relay/relay.h"
#include "tools/serve/relay/relay_backend.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const KEYS[] = {"to",           "url",       "symbolize", "token-file", "user",    "password-file",
                                   "api-key-file", "org-id",    "ca",        "cert",       "key",     "family",
                                   "header*",      "backfill",  "batch",     "rate",       "timeout", "max-age",
                                   "retry",        "retry-max", NULL};

static bool report_bad_value(const struct et_config *config, const struct et_section *section, const char *key,
                             const char *what)
{
    const struct et_setting *setting = et_config_setting(section, key);
    et_config_error(config, setting ? setting->line : section->line, "[relay %s] %s: %s", section->name, key, what);
    return false;
}

static char *copy_value(const struct et_section *section, const char *key)
{
    const char *value = et_config_value(section, key);
    return value && *value ? et_strdup(value) : NULL;
}

static bool read_headers(const struct et_config *config, const struct et_section *section,
                         struct et_destination_config *d)
{
    static const char *const ours[] = {"authorization:", "content-length:", "content-type:", "host:"};
    for (size_t i = 0; i < section->count; i++) {
        const char *value = section->settings[i].value;
        if (strcmp(section->settings[i].key, "header") != 0) {
            continue;
        }
        size_t name = strcspn(value, ": \t");
        bool legal = name && value[name] == ':';
        for (size_t k = 0; k < sizeof ours / sizeof *ours; k++) {
            legal = legal && strncasecmp(value, ours[k], strlen(ours[k])) != 0;
        }
        if (!legal) {
            et_config_error(config, section->settings[i].line,
                            "[relay %s] header: write \"Name: value\"; tokens and passwords are read from files",
                            section->name);
            return false;
        }
        d->headers = et_reserve(d->headers, &d->header_capacity, d->header_count + 1, sizeof *d->headers);
        d->headers[d->header_count++] = et_strdup(value);
    }
    return true;
}

/* Appends the backend's path to a URL without a path. */
static bool read_url(const struct et_config *config, const struct et_section *section, struct et_destination_config *d)
{
    const char *url = et_config_value(section, "url");
    size_t scheme = !url ? 0 : strncmp(url, "http://", 7) == 0 ? 7 : strncmp(url, "https://", 8) == 0 ? 8 : 0;
    if (!scheme || !url[scheme] || url[scheme] == '/') {
        return report_bad_value(config, section, "url",
                                "expected http://HOST:PORT or https://HOST:PORT, optionally with a path");
    }
    if (url[strcspn(url, "?#")]) {
        return report_bad_value(config, section, "url", "may not have parameters; use header for additional values");
    }
    if (memchr(url + scheme, '@', strcspn(url + scheme, "/"))) {
        return report_bad_value(config, section, "url", "may not contain a password; use user and password-file");
    }
    size_t size = strlen(url) - (url[strlen(url) - 1] == '/');
    const char *path = d->api_key_file && d->backend->keyed_path ? d->backend->keyed_path : d->backend->path;
    size_t own = strlen(path);
    bool whole = size > own && strncmp(url + size - own, path, own) == 0;
    struct et_buf all = {0};
    et_buf_add(&all, url, size);
    et_buf_text(&all, whole ? "" : path);
    d->url = all.data;
    return true;
}

static bool read_naming(const struct et_config *config, const struct et_section *section,
                        struct et_destination_config *d)
{
    const char *value = et_config_value(section, "symbolize");
    d->naming = ET_NAMING_FALLBACK; /* servers drop stacks without any name */
    if (value) {
        d->naming = strcmp(value, "yes") == 0        ? ET_NAMING_FULL
                    : strcmp(value, "fallback") == 0 ? ET_NAMING_FALLBACK
                                                     : ET_NAMING_NONE;
    }
    return !value || d->naming || strcmp(value, "no") == 0
               ? true
               : report_bad_value(config, section, "symbolize", "yes, no or fallback");
}

static bool read_numbers(const struct et_config *config, const struct et_section *section,
                         struct et_destination_config *d)
{
    d->rows = d->backend->rows;
    d->rate = 1 << 20;
    d->timeout_ns = (int64_t)d->backend->timeout_s * 1000000000;
    d->oldest_ns = d->backend->oldest_s * 1000000000;
    d->retry_ns = 1000000000;
    d->retry_most_ns = 60000000000;
    return et_config_number(config, section, "batch", d->backend->rows, &d->rows) &&
           et_config_size(config, section, "rate", &d->rate) &&
           et_config_duration(config, section, "timeout", false, &d->timeout_ns) &&
           et_config_duration(config, section, "max-age", true, &d->oldest_ns) &&
           et_config_duration(config, section, "retry", false, &d->retry_ns) &&
           et_config_duration(config, section, "retry-max", false, &d->retry_most_ns) &&
           et_config_flag(config, section, "backfill", &d->backfill) &&
           ((d->rows && d->rate) ||
            report_bad_value(config, section, d->rows ? "rate" : "batch", "must be at least 1"));
}

static bool read_files(const struct et_config *config, const struct et_section *section,
                       struct et_destination_config *d)
{
    const char *const keys[] = {"ca", "cert", "key"};
    char *const files[] = {d->ca, d->cert, d->key};
    for (size_t i = 0; i < 3; i++) {
        if (files[i] && access(files[i], R_OK) != 0) {
            return report_bad_value(config, section, keys[i], "cannot be read");
        }
    }
    return (!d->key || d->cert || report_bad_value(config, section, "key", "requires cert")) &&
           (!d->user == !d->password_file ||
            report_bad_value(config, section, "user", "user and password-file require each other")) &&
           (!d->user || !d->token_file ||
            report_bad_value(config, section, "token-file", "use a token or a password, not both"));
}

static bool read_section(const struct et_config *config, const struct et_section *section,
                         struct et_destination_config *d)
{
    const char *to = et_config_value(section, "to");
    if (!et_config_keys(config, section, KEYS)) {
        return false;
    }
    if (!*section->name) {
        et_config_error(config, section->line,
                        "[relay]: expected [relay NAME]; the name identifies its cursor in the database");
        return false;
    }
    d->backend = to ? et_relay_backend(to) : NULL;
    if (!d->backend) {
        return report_bad_value(config, section, "to", "pyroscope, parca, parca-writeraw, otlp or datadog");
    }
    d->name = et_strdup(section->name);
    d->token_file = copy_value(section, "token-file");
    d->user = copy_value(section, "user");
    d->password_file = copy_value(section, "password-file");
    d->api_key_file = copy_value(section, "api-key-file");
    d->org_id = copy_value(section, "org-id");
    d->ca = copy_value(section, "ca");
    d->cert = copy_value(section, "cert");
    d->key = copy_value(section, "key");
    d->family = copy_value(section, "family");
    return read_headers(config, section, d) && read_url(config, section, d) && read_naming(config, section, d) &&
           read_numbers(config, section, d) && read_files(config, section, d);
}

static bool has_destination(const struct et_relay_config *config, const char *name)
{
    for (size_t i = 0; i + 1 < config->count; i++) {
        if (config->destinations[i].name && strcmp(config->destinations[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

bool et_relay_config_read(const struct et_config *config, struct et_relay_config *out)
{
    bool ok = true;
    *out = (struct et_relay_config){0};
    for (const struct et_section *section = NULL; (section = et_config_next(config, "relay", section));) {
        out->destinations = et_reserve(out->destinations, &out->capacity, out->count + 1, sizeof *out->destinations);
        ok &= read_section(config, section, &out->destinations[out->count++]);
        if (has_destination(out, section->name)) {
            et_config_error(config, section->line, "[relay %s]: duplicate name", section->name);
            ok = false;
        }
    }
    if (!ok) {
        et_relay_config_free(out);
    }
    return ok;
}

void et_relay_config_free(struct et_relay_config *config)
{
    for (size_t i = 0; i < config->count; i++) {
        struct et_destination_config *d = &config->destinations[i];
        char *const texts[] = {d->name,   d->url, d->token_file, d->user, d->password_file, d->api_key_file,
                               d->org_id, d->ca,  d->cert,       d->key,  d->family};
        for (size_t k = 0; k < sizeof texts / sizeof *texts; k++) {
            free(texts[k]);
        }
        for (size_t k = 0; k < d->header_count; k++) {
            free(d->headers[k]);
        }
        free(d->headers);
    }
    free(config->destinations);
    *config = (struct et_relay_config){0};
}
