/* See limits.h; docs/configuration.md lists the settings. */
#include "tools/serve/http/limits.h"

struct et_limits et_limits_default(void)
{
    return (struct et_limits){
        .body = 16 << 20,
        .inflated = 32 << 20,
        .rate = 500,
        .connections = 256,
        .query_ns = (int64_t)30 * 1000000000,
        .query_memory = 512 << 20,
        .symbols_ns = (int64_t)200 * 1000000,
        .symbols_store = (size_t)2 << 30,
        .bounds = {.services = 1000,
                   .series = 50000,
                   .label_values = 5000,
                   .labels = 64,
                   .name_bytes = 1024,
                   .value_bytes = 2048,
                   .memory = 64 << 20,
                   .future_ns = (int64_t)600 * 1000000000},
    };
}

bool et_limits_read(const struct et_config *config, const struct et_section *section, struct et_limits *limits)
{
    static const char *const keys[] = {"body",
                                       "inflated",
                                       "profiles-per-second",
                                       "loopback",
                                       "connections",
                                       "sender-connections",
                                       "services",
                                       "series",
                                       "labels",
                                       "label-values",
                                       "label-name",
                                       "label-value",
                                       "future",
                                       "past",
                                       "names",
                                       "query-time",
                                       "query-memory",
                                       "symbols-time",
                                       "symbols-store",
                                       NULL};
    static const uint64_t most = 1000000000;
    struct et_bounds_config *bounds = &limits->bounds;
    bool ok = et_config_keys(config, section, keys);
    ok &= et_config_size(config, section, "body", &limits->body);
    ok &= et_config_size(config, section, "inflated", &limits->inflated);
    ok &= et_config_number(config, section, "profiles-per-second", 1000000, &limits->rate);
    ok &= et_config_flag(config, section, "loopback", &limits->rate_on_loopback);
    ok &= et_config_number(config, section, "connections", 10000, &limits->connections);
    ok &= et_config_number(config, section, "sender-connections", 10000, &limits->sender_connections);
    ok &= et_config_number(config, section, "services", most, &bounds->services);
    ok &= et_config_number(config, section, "series", most, &bounds->series);
    ok &= et_config_number(config, section, "labels", most, &bounds->labels);
    ok &= et_config_number(config, section, "label-values", most, &bounds->label_values);
    ok &= et_config_size(config, section, "label-name", &bounds->name_bytes);
    ok &= et_config_size(config, section, "label-value", &bounds->value_bytes);
    ok &= et_config_size(config, section, "names", &bounds->memory);
    ok &= et_config_duration(config, section, "query-time", true, &limits->query_ns);
    ok &= et_config_size(config, section, "query-memory", &limits->query_memory);
    ok &= et_config_duration(config, section, "symbols-time", true, &limits->symbols_ns);
    ok &= et_config_size(config, section, "symbols-store", &limits->symbols_store);
    ok &= et_config_duration(config, section, "future", true, &bounds->future_ns);
    ok &= et_config_duration(config, section, "past", true, &bounds->past_ns);
    if (ok && limits->connections == 0) {
        et_config_error(config, et_config_setting(section, "connections")->line, "connections = 0: must be 1 or more");
        ok = false;
    }
    return ok;
}
