/*
 * Reads the environment: edgeprof's own variables, then Pyroscope's and OpenTelemetry's variables of the same meaning.
 * For each setting the first one that is set counts; a value set in code wins. docs/configuration.md has the table.
 *
 * ep_config_from_env() reads edgeprof's own variables first: own_read(). It reads Pyroscope's and OpenTelemetry's
 * (pyroscope(), otel_read()) only if profiles have an endpoint, so a malformed variable of theirs stops no program that
 * did not ask for profiles.
 */
#include "core/environment/environment.h"
#include "core/collect/collect.h"

#include <errno.h>
#include <string.h>

#define OTEL_ATTRIBUTES "OTEL_RESOURCE_ATTRIBUTES"

/* Rewritten texts, which the configuration points to. */
static char text[EP_STRINGS_BYTES];
static size_t text_used;

static int env_number(const char *name, uint32_t *value)
{
    const char *digits = ep_port_env(name);
    uint64_t number = 0;

    if (!digits || *value)
        return 0;
    for (const char *c = digits; *c; c++) {
        if (*c < '0' || *c > '9' || number > UINT32_MAX / 16 || c - digits > 9)
            return ep_complain(-EINVAL, name, ": must be a number, not ", digits);
        number = number * 10 + (uint64_t)(*c - '0');
    }
    if (number == 0)
        return ep_complain(-EINVAL, name, ": must be a positive number, not ", digits);
    *value = (uint32_t)number;
    return 0;
}

/* The place of a word in a list + 1; 0: not found. */
static int word_find(const char *words, const char *word, size_t size)
{
    int i = 1;

    for (; *words; words += strlen(words) + 1, i++)
        if (strlen(words) == size && memcmp(words, word, size) == 0)
            return i;
    return 0;
}

/* Reads a variable that must be one of the words; *place: 0 if it is not set. `must` is the error's text. */
static int env_word(const char *name, const char *words, const char *must, int *place)
{
    const char *word = ep_port_env(name);

    *place = word ? word_find(words, word, strlen(word)) : 0;
    return *place || !word ? 0 : ep_complain(-EINVAL, name, must, word);
}

/* Reads a switch into *on; *set: the variable is set. Accepts the same words as Pyroscope. */
static int env_switch(const char *name, bool *set, bool *on)
{
    static const char words[] = "1\0true\0yes\0y\0t\0on\0"
                                "0\0false\0no\0n\0f\0off\0";
    const char *value = ep_env_text(name);
    char lower[8];
    size_t size = value ? strlen(value) : 0;

    *set = value != NULL;
    if (!value)
        return 0;
    for (size_t i = 0; i < size && i < sizeof lower; i++)
        lower[i] = (char)(value[i] >= 'A' && value[i] <= 'Z' ? value[i] - 'A' + 'a' : value[i]);
    const int place = size <= sizeof lower ? word_find(words, lower, size) : 0;
    *on = place <= 6;
    return place ? 0 : ep_complain(-EINVAL, name, ": must be true or false, not ", value);
}

static uint32_t kind_find(const char *name, size_t size)
{
    for (unsigned kind = 1; kind < EP_KINDS; kind++)
        if (strlen(ep_kind_name(kind)) == size && memcmp(ep_kind_name(kind), name, size) == 0)
            return EP_KIND_BIT(kind);
    return 0;
}

/* Reads "cpu,alloc". */
static int env_kinds(const char *name, uint32_t *kinds)
{
    const char *list = ep_env_text(name);
    uint32_t found = 0;

    if (!list || *kinds)
        return 0;
    for (const char *at = list;; at++) {
        const size_t size = strcspn(at, ",");
        const uint32_t kind = kind_find(at, size);
        if (!kind)
            return ep_complain(-EINVAL, name, ": must be kinds such as cpu,alloc,lock, not ", list);
        found |= kind;
        at += size;
        if (!*at)
            break;
    }
    *kinds = found;
    return 0;
}

/* The flag is set where the variable is `wanted`. */
static int env_flag_if(const char *name, bool wanted, uint32_t *flags, uint32_t flag)
{
    bool set, on;
    const int error = env_switch(name, &set, &on);

    if (error == 0 && set && on == wanted)
        *flags |= flag;
    return error;
}

static int env_flag(const char *name, uint32_t *flags, uint32_t flag)
{
    return env_flag_if(name, true, flags, flag);
}

/* ---- edgeprof's own ---- */

static int own_words(struct ep_config *config)
{
    int level, format, error;

    if ((error = env_word("EDGEPROF_LEVEL", "low\0medium\0high\0", ": must be low, medium or high, not ", &level)) < 0)
        return error;
    if ((error = env_word("EDGEPROF_FORMAT", "compact\0pprof\0", ": must be compact or pprof, not ", &format)) < 0)
        return error;
    if (level && config->level == EP_LEVEL_DEFAULT)
        config->level = (enum ep_level)level;
    if (format == 2 && !config->encoder)
        config->encoder = &ep_encoder_pprof;
    return 0;
}

/* The clock of CPU samples. */
static int own_clock(struct ep_config *config)
{
    static const uint32_t clocks[] = {0, 0, EP_CLOCK_TICKS, EP_CLOCK_TIMERS, EP_CLOCK_PERF};
    int clock, error = env_word("EDGEPROF_CLOCK", "auto\0ticks\0timer\0perf\0",
                                ": must be auto, ticks, timer or perf, not ", &clock);

    if (error == 0 && !(config->flags & EP_CLOCKS))
        config->flags |= clocks[clock];
    return error;
}

static int own_read(struct ep_config *config)
{
    int error;

    if ((error = own_words(config)) < 0)
        return error;
    if ((error = own_clock(config)) < 0)
        return error;
    if ((error = env_number("EDGEPROF_RATE", &config->rate_hz)) < 0)
        return error;
    if ((error = env_number("EDGEPROF_INTERVAL", &config->interval_ms)) < 0)
        return error;
    if ((error = env_number("EDGEPROF_BUDGET", &config->budget_ppm)) < 0)
        return error;
    if ((error = env_kinds("EDGEPROF_KINDS", &config->kinds)) < 0)
        return error;
    if ((error = env_flag("EDGEPROF_THREAD_LABELS", &config->flags, EP_THREAD_LABELS)) < 0)
        return error;
    if ((error = env_flag("EDGEPROF_IDLE_WAITS", &config->flags, EP_IDLE_WAITS)) < 0)
        return error;
    if ((error = env_flag("EDGEPROF_ALL_EVENTS", &config->flags, EP_ALL_EVENTS)) < 0)
        return error;
    if ((error = env_flag_if("EDGEPROF_PIN", false, &config->flags, EP_NO_PIN)) < 0)
        return error;
    if (!config->service)
        config->service = ep_env_text("EDGEPROF_SERVICE");
    if (!config->tags)
        config->tags = ep_env_text("EDGEPROF_TAGS");
    return 0;
}

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
        const int error = env_switch(switches[i].name, &set, &on);
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

/* Returns 1 if a variable has the endpoint. *pyroscope: Pyroscope's variable is used. */
static int endpoint_take(struct ep_config *config, bool *pyroscope)
{
    const char *endpoint = ep_env_text("EDGEPROF_ENDPOINT");
    bool set = false, on = true;

    *pyroscope = false;

    if (!endpoint && (endpoint = ep_env_text("PYROSCOPE_SERVER_ADDRESS")) != NULL) {
        const int error = env_switch("PYROSCOPE_PROFILING_ENABLED", &set, &on);
        if (error < 0)
            return error;
        if (set && !on)
            endpoint = NULL;
        *pyroscope = endpoint && !config->endpoint;
    }
    if (endpoint && !config->endpoint)
        config->endpoint = endpoint;
    return endpoint != NULL;
}

/* Sets how pprof is sent over HTTP. A Pyroscope server accepts only pprof, and a stock one cannot symbolize. */
static int push_take(struct ep_config *config, bool pyroscope)
{
    bool set, named;
    const int error = env_switch("EDGEPROF_NAMES", &set, &named);

    if (error < 0)
        return error;
    if (pyroscope && !ep_env_text("EDGEPROF_FORMAT"))
        config->encoder = &ep_encoder_pprof;
    if (config->encoder != &ep_encoder_pprof)
        return 0;
    if (!config->push)
        config->push = &ep_push_pyroscope;
    if (!config->names && (set ? named : pyroscope))
        config->names = &ep_names_process;
    return 0;
}

int ep_config_from_env(struct ep_config *config)
{
    bool from_pyroscope;
    int error;

    (void)ep_complain(0, "", "", "");
    text_used = 0;
    if ((error = own_read(config)) < 0)
        return error;
    const int endpoint = endpoint_take(config, &from_pyroscope);
    const int asked =
        endpoint == 0 ? ep_env_text("EDGEPROF_PULL") != NULL : endpoint; /* or the pull endpoint is requested */
    if (asked < 0 || (!config->endpoint && !config->transport))
        return asked;
    if ((error = push_take(config, from_pyroscope)) < 0)
        return error;
    if ((error = ep_environment_headers(config, from_pyroscope)) < 0)
        return error;
    if ((error = pyroscope(config)) < 0)
        return error;
    if ((error = otel_read(config)) < 0)
        return error;
    return asked;
}
