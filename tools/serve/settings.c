/* See settings.h. */
#include "tools/serve/settings.h"
#include "tools/lib/labels.h"

#include <errno.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* One more than are allowed. */
enum { METRIC_LABELS = 9 };

/* Between comparisons of versions. */
static const int64_t VERDICT_NS = INT64_C(600) * 1000000000;

static const char *const section_kinds[] = {"serve", "limits", "keep", "webhook", "scrape", "relay", NULL};

/* Finds the only section of a kind; a second one is an error. *section: NULL when there is none. */
static bool find_single(const struct et_config *config, const char *kind, const struct et_section **section)
{
    *section = et_config_next(config, kind, NULL);
    const struct et_section *second = *section ? et_config_next(config, kind, *section) : NULL;
    if (second) {
        et_config_error(config, second->line, "duplicate section [%s], first in line %u; merge them", kind,
                        (*section)->line);
    }
    return !second;
}

static const char *choose_value(const char *option, const struct et_section *section, const char *key,
                                const char *usual)
{
    const char *set = section ? et_config_value(section, key) : NULL;
    return option ? option : set ? set : usual;
}

static bool read_folders(const struct et_config *config, const struct et_section *section,
                         struct et_serve_options *options)
{
    bool ok = true;
    for (size_t i = 0; section && i < section->count; i++) {
        const struct et_setting *setting = &section->settings[i];
        if (strcmp(setting->key, "debuginfod") == 0) {
            et_list_add(&options->debuginfod, setting->value);
        } else if (strcmp(setting->key, "symbols") == 0 || strcmp(setting->key, "source") == 0) {
            et_list_add(setting->key[1] == 'y' ? &options->symbols : &options->sources, setting->value);
            if (access(setting->value, R_OK) != 0) {
                et_config_error(config, setting->line, "%s %s: %s", setting->key, setting->value, strerror(errno));
                ok = false;
            }
        }
    }
    return ok;
}

struct metric_labels {
    char known[METRIC_LABELS][ET_METRIC_LABEL];
    size_t count;
    const char *wrong;
};

static bool check_metric_label(void *context, const char *name)
{
    struct metric_labels *labels = context;
    char *label = labels->known[labels->count];
    labels->wrong = labels->count + 1 == METRIC_LABELS ? "at most 8 tags"
                    : !et_metric_label(name, label)    ? "a tag that /metrics has already, or too long"
                                                       : NULL;
    for (size_t i = 0; i < labels->count && !labels->wrong; i++) {
        labels->wrong = strcmp(labels->known[i], label) == 0 ? "two tags become one label" : NULL;
    }
    labels->count += !labels->wrong;
    return !labels->wrong;
}

static bool read_metric_labels(const struct et_config *config, const struct et_section *section,
                               struct et_serve_settings *out)
{
    const struct et_setting *setting = et_config_setting(section, "metric-labels");
    struct metric_labels labels = {0};
    if (setting && !et_config_list(setting->value, check_metric_label, &labels)) {
        et_config_error(config, setting->line, "metric-labels = %s: %s; expected tags such as env, region",
                        setting->value, labels.wrong);
        return false;
    }
    out->metric_labels = setting ? setting->value : NULL;
    return true;
}

static bool read_keep(const struct et_serve_options *options, struct et_policy *policy)
{
    if (options->keep && !et_policy_keep(options->keep, policy)) {
        et_error("serve: --keep %s: expected a time such as 14d (at least 1h), or forever", options->keep);
        return false;
    }
    if (options->max_size && !et_policy_size(options->max_size, policy)) {
        et_error("serve: --max-size %s: expected a size such as 500M or 4G, or any", options->max_size);
        return false;
    }
    return true;
}

/* Without the slash at the end. */
static bool read_prefix(const char *text, struct et_serve_settings *out)
{
    size_t size = text ? strlen(text) : 0;
    while (size && text[size - 1] == '/') {
        size--;
    }
    if (size && (text[0] != '/' || strcspn(text, "?#") < size)) {
        et_error("serve: prefix %s: expected a path such as /edgeprof", text);
        return false;
    }
    snprintf(out->prefix, sizeof out->prefix, "%.*s", (int)size, text ? text : "");
    if (strlen(out->prefix) != size) {
        et_error("serve: prefix: longer than %zu characters", sizeof out->prefix - 1);
        return false;
    }
    return true;
}

static bool read_sections(struct et_serve_options *options, struct et_serve_settings *out)
{
    static const char *const keys[] = {"listen",
                                       "db",
                                       "symbols*",
                                       "symbols-store",
                                       "debuginfod*",
                                       "token-file",
                                       "tls-cert",
                                       "tls-key",
                                       "tls-client-ca",
                                       "hosts",
                                       "tenant",
                                       "insecure",
                                       "metric-labels",
                                       "client-crl",
                                       "verdict-every",
                                       "sandbox",
                                       "prefix",
                                       "source*",
                                       NULL};
    const struct et_section *serve, *limits, *keep, *webhook;
    const struct et_config *config = &out->config;
    bool ok = et_config_kinds(config, section_kinds);
    ok &= find_single(config, "serve", &serve) & find_single(config, "limits", &limits) &
          find_single(config, "keep", &keep) & find_single(config, "webhook", &webhook);
    ok = ok && (!serve || et_config_keys(config, serve, keys));
    ok = ok && (!limits || et_limits_read(config, limits, &out->limits));
    ok = ok && (!keep || et_policy_read(config, keep, &out->keep));
    ok = ok && et_webhook_read(config, webhook, &out->webhook);
    out->listen = choose_value(options->listen, serve, "listen", "127.0.0.1:4040");
    out->db = choose_value(options->db, serve, "db", "edgeprof.db");
    options->symbols_store = choose_value(options->symbols_store, serve, "symbols-store", NULL);
    out->access = (struct et_access_config){
        .token_file = choose_value(options->token_file, serve, "token-file", NULL),
        .tls = {.certificate = choose_value(options->tls_cert, serve, "tls-cert", NULL),
                .key = choose_value(options->tls_key, serve, "tls-key", NULL),
                .client_ca = choose_value(options->tls_client_ca, serve, "tls-client-ca", NULL),
                .client_crl = choose_value(NULL, serve, "client-crl", NULL)},
        .hosts = choose_value(options->hosts, serve, "hosts", NULL),
        .tenant = choose_value(options->tenant, serve, "tenant", NULL),
    };
    ok = ok && read_prefix(choose_value(options->prefix, serve, "prefix", NULL), out);
    ok = ok && (!serve || read_metric_labels(config, serve, out));
    ok = ok && (!serve || et_config_duration(config, serve, "verdict-every", true, &out->verdict_ns));
    ok = ok && (!serve || et_config_flag(config, serve, "insecure", &out->access.insecure));
    out->access.insecure |= options->insecure;
    ok = ok && (!serve || et_config_flag(config, serve, "sandbox", &out->sandbox));
    out->sandbox &= !options->no_sandbox;
    ok &= et_scrape_config_read(config, &out->scrape);
    return ok && read_folders(config, serve, options);
}

int et_serve_settings_read(struct et_serve_options *options, struct et_serve_settings *out)
{
    *out = (struct et_serve_settings){
        .limits = et_limits_default(), .keep = et_policy_default, .verdict_ns = VERDICT_NS, .sandbox = true};
    if (options->config && !et_config_read(options->config, &out->config)) {
        return ET_FAILED;
    }
    if (!read_sections(options, out)) {
        et_serve_settings_free(out);
        return ET_FAILED;
    }
    if (!read_keep(options, &out->keep)) {
        et_serve_settings_free(out);
        return ET_USAGE;
    }
    return ET_OK;
}

void et_serve_settings_free(struct et_serve_settings *settings)
{
    et_config_free(&settings->config);
    et_scrape_config_free(&settings->scrape);
    *settings = (struct et_serve_settings){0};
}
