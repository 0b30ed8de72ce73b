/*
 * Pyroscope's and OpenTelemetry's variables: the service, labels in their notations, and kinds. They fill what the
 * program and edgeprof's own variables have left empty, Pyroscope's first.
 *
 *   ep_environment_others -> pyroscope -> labels_take, pyroscope_kinds
 *                         -> otel_read -> service_take, labels_take -> label_next, label_append -> piece_append
 */
#include "core/collect/collect.h"
#include "core/environment/environment.h"

#include <errno.h>
#include <string.h>

#define OTEL_ATTRIBUTES "OTEL_RESOURCE_ATTRIBUTES"

/* Rewritten texts, which the configuration points to. */
static char text[EP_STRINGS_BYTES];
static size_t text_used;

/* ---- labels in other notations ---- */

/* A list of labels: plain "key:value,...", or percent-encoded "key=value,...". */
struct labels {
    const char *variable;
    const char *at;
    char between;
    bool encoded;
};

struct label {
    const char *key, *value;
    size_t key_size, value_size;
};

static void trim(const char **from, size_t *size)
{
    for (; *size && (**from == ' ' || **from == '\t'); (*from)++)
        (*size)--;
    while (*size && ((*from)[*size - 1] == ' ' || (*from)[*size - 1] == '\t'))
        (*size)--;
}

/* Reads the next label. Returns 1; 0: no more; negative: malformed. Skips empty ones. */
static int label_next(struct labels *labels, struct label *label)
{
    while (*labels->at) {
        const char *start = labels->at;
        size_t size = strcspn(start, ",");
        labels->at += size + (start[size] == ',');
        trim(&start, &size);
        if (!size)
            continue;
        const char *between = memchr(start, labels->between, size);
        *label = (struct label){.key = start, .key_size = between ? (size_t)(between - start) : 0};
        trim(&label->key, &label->key_size);
        if (!between || !label->key_size)
            return ep_complain(-EINVAL, labels->variable, ": a label without key or value: ", start);
        label->value = between + 1;
        label->value_size = size - (size_t)(between + 1 - start);
        trim(&label->value, &label->value_size);
        return 1;
    }
    return 0;
}

/* The decoded byte at *at; -1: a byte that is not allowed in a label. */
static int byte_next(const struct labels *labels, const char *piece, size_t size, size_t *at)
{
    int byte = (unsigned char)piece[(*at)++];

    if (labels->encoded && byte == '%') {
        const int high = *at + 1 < size ? ep_hex_digit(piece[*at]) : -1;
        const int low = high >= 0 ? ep_hex_digit(piece[*at + 1]) : -1;
        byte = low < 0 ? -1 : high * 16 + low;
        *at += 2;
    }
    return byte < ' ' || byte == 0x7f ? -1 : byte;
}

static bool text_append(const char *bytes, size_t size)
{
    if (size >= sizeof text - text_used)
        return false;
    memcpy(text + text_used, bytes, size);
    text_used += size;
    text[text_used] = 0;
    return true;
}

static bool is_key_byte(int byte, bool first)
{
    return (byte | 32) >= 'a' ? (byte | 32) <= 'z' || byte == '_' : byte >= '0' && byte <= '9' && !first;
}

/* Appends a piece in the notation of ep_config.tags. Characters not allowed in a key become '_'; a comma in a value
 * stays encoded. */
static int piece_append(const struct labels *labels, const char *piece, size_t size, bool key)
{
    const size_t start = text_used;
    bool fits = true;

    for (size_t at = 0; at < size && fits;) {
        const int byte = byte_next(labels, piece, size, &at);
        if (byte < 0)
            return ep_complain(-EINVAL, labels->variable, ": invalid %-encoding or a control character in ", piece);
        const char plain = (char)byte;
        if (key && !is_key_byte(byte, text_used == start))
            fits = text_append("_", 1) && (byte < '0' || byte > '9' || text_append(&plain, 1));
        else
            fits = !key && byte == ',' ? text_append("%2C", 3) : text_append(&plain, 1);
    }
    if (!fits)
        return ep_complain(-EINVAL, labels->variable, ": too long; set EDGEPROF_TAGS and EDGEPROF_SERVICE instead", "");
    return ep_utf8_run(text + start, text_used - start) == text_used - start
               ? 0
               : ep_complain(-EINVAL, labels->variable, ": not UTF-8: ", piece);
}

static bool is_service(const struct label *label)
{
    static const char name[] = "service.name";

    return label->key_size == sizeof name - 1 && memcmp(label->key, name, sizeof name - 1) == 0;
}

static int label_append(const struct labels *labels, const struct label *label, bool more)
{
    int error;

    if (more && !text_append(",", 1))
        return ep_complain(-EINVAL, labels->variable, ": too long; set EDGEPROF_TAGS instead", "");
    if ((error = piece_append(labels, label->key, label->key_size, true)) < 0)
        return error;
    if (!text_append("=", 1))
        return ep_complain(-EINVAL, labels->variable, ": too long; set EDGEPROF_TAGS instead", "");
    return piece_append(labels, label->value, label->value_size, false);
}

/* Sets *tags to all labels but the service's name. */
static int labels_take(struct labels labels, const char **tags)
{
    struct label label;
    const size_t start = text_used;
    int found, error;

    while ((found = label_next(&labels, &label)) > 0) {
        if (labels.encoded && is_service(&label))
            continue;
        if ((error = label_append(&labels, &label, text_used != start)) < 0)
            return error;
    }
    if (found == 0 && text_used != start) {
        *tags = text + start;
        text_used++;
    }
    return found;
}

static int service_take(struct labels labels, const char **service)
{
    struct label label;
    const size_t start = text_used;
    int found, error;

    while ((found = label_next(&labels, &label)) > 0) {
        if (!is_service(&label))
            continue;
        if ((error = piece_append(&labels, label.value, label.value_size, false)) < 0)
            return error;
        break;
    }
    if (text_used != start) {
        *service = text + start;
        text_used++;
    }
    return found < 0 ? found : 0;
}

/* ---- Pyroscope ---- */

/* Each variable switches one kind; the other kinds follow the level. */
static int pyroscope_kinds(struct ep_config *config)
{
    static const struct {
        const char *name;
        enum ep_kind kind;
    } switches[] = {{"PYROSCOPE_PROFILING_CPU_ENABLED", EP_KIND_CPU},
                    {"PYROSCOPE_PROFILING_WALLTIME_ENABLED", EP_KIND_WAIT},
                    {"PYROSCOPE_PROFILING_ALLOCATION_ENABLED", EP_KIND_ALLOC},
                    {"PYROSCOPE_PROFILING_LOCK_ENABLED", EP_KIND_LOCK},
                    {"PYROSCOPE_PROFILING_EXCEPTION_ENABLED", EP_KIND_EXCEPTION},
                    {"PYROSCOPE_PROFILING_HEAP_ENABLED", EP_KIND_LIVE}};
    uint32_t kinds = ep_level_kinds(config->level);
    bool any = false, set, on;

    for (size_t i = 0; i < sizeof switches / sizeof switches[0]; i++) {
        const int error = ep_environment_switch(switches[i].name, &set, &on);
        if (error < 0)
            return error;
        if (set)
            kinds = on ? kinds | EP_KIND_BIT(switches[i].kind) : kinds & ~EP_KIND_BIT(switches[i].kind);
        any |= set;
    }
    if (any && !kinds)
        return ep_complain(-EINVAL, "PYROSCOPE_PROFILING_*_ENABLED: ", "all kinds are disabled", "");
    if (any)
        config->kinds = kinds;
    return 0;
}

static int pyroscope(struct ep_config *config)
{
    const char *list = ep_env_text("PYROSCOPE_LABELS");
    int error = 0;

    if (!config->service)
        config->service = ep_env_text("PYROSCOPE_APPLICATION_NAME");
    if (!config->tags && list)
        error = labels_take((struct labels){.variable = "PYROSCOPE_LABELS", .at = list, .between = ':'}, &config->tags);
    if (error == 0 && !config->kinds)
        error = pyroscope_kinds(config);
    return error;
}

/* ---- OpenTelemetry ---- */

static int otel_read(struct ep_config *config)
{
    const char *list = ep_env_text(OTEL_ATTRIBUTES);
    const struct labels labels = {.variable = OTEL_ATTRIBUTES, .at = list, .between = '=', .encoded = true};
    int error = 0;

    if (!config->service)
        config->service = ep_env_text("OTEL_SERVICE_NAME");
    if (list && !config->service)
        error = service_take(labels, &config->service);
    if (error == 0 && list && !config->tags)
        error = labels_take(labels, &config->tags);
    return error;
}

int ep_environment_others(struct ep_config *config)
{
    text_used = 0;
    const int error = pyroscope(config);
    return error < 0 ? error : otel_read(config);
}
