/* See scrape_config.h. Each URL of a section becomes a target with the section's other settings. */
#include "tools/serve/scrape/scrape_config.h"
#include "tools/lib/labels.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TARGETS_MAX = 1000, TOKEN_LIMIT = 4096 };

static const int64_t SECOND = 1000000000;

const char *const et_scraped_names[ET_SCRAPED_COUNT] = {"allocs", "heap", "mutex", "block", "goroutine", "cpu"};

static bool add_profile(void *context, const char *item)
{
    struct et_scrape_target *target = context;
    for (size_t i = 0; i < ET_SCRAPED_COUNT; i++) {
        if (strcmp(item, et_scraped_names[i]) == 0) {
            target->wanted[i] = true;
            return true;
        }
    }
    return false;
}

static bool add_tag(void *context, const char *item)
{
    const char *equals = strchr(item, '=');
    if (!equals || equals == item) {
        return false;
    }
    char *key = et_strdup(item);
    key[equals - item] = '\0';
    et_labels_add(context, key, equals + 1);
    free(key);
    return true;
}

static bool report_bad_value(const struct et_config *config, const struct et_section *section, const char *key,
                             const char *text)
{
    const struct et_setting *setting = et_config_setting(section, key);
    et_config_error(config, setting ? setting->line : section->line, "[scrape]: %s: %s", key, text);
    return false;
}

/* The address after "http://", up to a path; NULL: another kind of URL. */
static const char *find_address(const char *url, size_t *size)
{
    size_t scheme = strncmp(url, "http://", 7) == 0 ? 7 : strncmp(url, "https://", 8) == 0 ? 8 : 0;
    *size = scheme ? strcspn(url + scheme, "/?#") : 0;
    bool ok = *size && !memchr(url + scheme, '@', *size) && !strpbrk(url, " \"<>\\^`{|}?#") && strlen(url) < 1024;
    return ok ? url + scheme : NULL;
}

static bool read_token(const struct et_config *config, const struct et_section *section, char **token)
{
    const char *path = et_config_value(section, "token-file");
    struct et_buf text = {0};
    if (!path) {
        return true;
    }
    int err = et_read_file(path, TOKEN_LIMIT, &text);
    et_buf_text(&text, "");
    text.data[strcspn(text.data, "\r\n")] = '\0';
    bool ok = !err && text.data[0] && text.data[strspn(text.data, "\t")] && !strpbrk(text.data, " \t");
    *token = ok ? et_strdup(text.data) : NULL;
    et_buf_free(&text);
    return ok ||
           report_bad_value(config, section, "token-file", err ? strerror(-err) : "the first line is not a token");
}

static bool read_times(const struct et_config *config, const struct et_section *section,
                       struct et_scrape_target *target)
{
    int64_t seconds = 0;
    target->interval_ns = 15 * SECOND;
    target->timeout_ns = 10 * SECOND;
    bool ok = et_config_duration(config, section, "interval", false, &target->interval_ns) &&
              et_config_duration(config, section, "timeout", false, &target->timeout_ns);
    if (!ok) {
        return false;
    }
    int64_t usual = target->interval_ns / SECOND * 2 / 3;
    seconds = (usual ? usual : 1) * SECOND;
    if (!et_config_duration(config, section, "seconds", false, &seconds)) {
        return false;
    }
    target->seconds = (unsigned)(seconds / SECOND);
    if (seconds > target->interval_ns) {
        return report_bad_value(config, section, "seconds", "a CPU profile cannot take longer than the interval");
    }
    return true;
}

/* Reads the settings common to all targets of the section. */
static bool read_section(const struct et_config *config, const struct et_section *section,
                         struct et_scrape_target *target, struct et_labels *tags)
{
    static const char *const keys[] = {"url*",    "service",  "tags",       "interval", "timeout",
                                       "seconds", "profiles", "token-file", "ca",       NULL};
    const char *service = et_config_value(section, "service"), *profiles = et_config_value(section, "profiles");
    const char *list = et_config_value(section, "tags"), *ca = et_config_value(section, "ca");
    service = service ? service : section->name;
    if (!et_config_keys(config, section, keys) || !read_times(config, section, target)) {
        return false;
    }
    if (!*service) {
        return report_bad_value(config, section, "service", "required, because the section has no name");
    }
    if (!et_config_list(profiles ? profiles : "cpu,allocs,heap,mutex,block,goroutine", add_profile, target)) {
        return report_bad_value(config, section, "profiles",
                                "must be some of cpu, allocs, heap, mutex, block, goroutine");
    }
    if (list && !et_config_list(list, add_tag, tags)) {
        return report_bad_value(config, section, "tags", "expected key=value, key=value");
    }
    if (ca && access(ca, R_OK) != 0) {
        return report_bad_value(config, section, "ca", "cannot be read");
    }
    target->service = et_clean(service, strlen(service));
    target->ca = ca ? et_strdup(ca) : NULL;
    return read_token(config, section, &target->token);
}

static void free_target(struct et_scrape_target *target)
{
    free(target->url);
    free(target->service);
    free(target->tags);
    free(target->token);
    free(target->ca);
}

static bool add_target(const struct et_config *config, const struct et_setting *url,
                       const struct et_scrape_target *common, const char *tags, struct et_scrape_config *out)
{
    size_t size;
    const char *address = find_address(url->value, &size);
    if (!address) {
        et_config_error(config, url->line,
                        "url = %s: expected http://host:port or https://..., without a password; use "
                        "token-file",
                        url->value);
        return false;
    }
    if (out->count == TARGETS_MAX) {
        et_config_error(config, url->line, "more than %d targets; run several servers", TARGETS_MAX);
        return false;
    }
    struct et_labels lines = {0};
    char *instance = et_clean(address, size);
    et_labels_add(&lines, "instance", instance);
    et_labels_add_lines(&lines, tags); /* the last value of a key counts */
    free(instance);
    out->targets = et_reserve(out->targets, &out->capacity, out->count + 1, sizeof *out->targets);
    struct et_scrape_target *target = &out->targets[out->count++];
    *target = *common;
    target->url = et_strdup(url->value);
    while (target->url[strlen(target->url) - 1] == '/') {
        target->url[strlen(target->url) - 1] = '\0';
    }
    target->service = et_strdup(common->service);
    target->tags = et_labels_join(&lines);
    target->token = common->token ? et_strdup(common->token) : NULL;
    target->ca = common->ca ? et_strdup(common->ca) : NULL;
    return true;
}

static bool add_section(const struct et_config *config, const struct et_section *section, struct et_scrape_config *out)
{
    struct et_scrape_target common = {0};
    struct et_labels tags = {0};
    size_t before = out->count;
    bool ok = read_section(config, section, &common, &tags);
    char *lines = et_labels_join(&tags);
    for (size_t i = 0; i < section->count && ok; i++) {
        ok = strcmp(section->settings[i].key, "url") != 0 ||
             add_target(config, &section->settings[i], &common, lines, out);
    }
    if (ok && out->count == before) {
        ok = report_bad_value(config, section, "url", "required: http://host:port");
    }
    free(lines);
    free_target(&common);
    return ok;
}

bool et_scrape_config_read(const struct et_config *config, struct et_scrape_config *out)
{
    bool ok = true;
    *out = (struct et_scrape_config){0};
    for (const struct et_section *section = NULL; (section = et_config_next(config, "scrape", section));) {
        ok &= add_section(config, section, out);
    }
    if (!ok) {
        et_scrape_config_free(out);
    }
    return ok;
}

void et_scrape_config_free(struct et_scrape_config *config)
{
    for (size_t i = 0; i < config->count; i++) {
        free_target(&config->targets[i]);
    }
    free(config->targets);
    *config = (struct et_scrape_config){0};
}
