/*
 * Functions for the C# package; see glue.h. C# serialises start and stop.
 *
 *   ep_dotnet_start -> start_agreed -> ep_config_from_env, ep_dotnet_self_check, tls_setup, old_setup,
 *                                      memory_provide, spool_start, ep_dotnet_incidents_setup,
 *                                      crash_report, contexts_begin, ep_start, endpoints_start
 *   ep_dotnet_stop  -> stop_and_release -> ep_stop, release_memory
 */
#include "glue.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <edgeprof/edgeprof.h>
#include <edgeprof/tls.h>

static void *memory, *tls_memory, *pull_memory, *least_spool_memory; /* by memory_keep() */
static void *mapped;
static size_t mapped_size;
static bool tls_failed, sends_names, agreed, has_endpoint;
static bool left; /* the last stop has left its memory to a thread that still uses it */
static char headers[EP_HEADERS_BYTES];
static const char *failed; /* which endpoint could not be started, NULL: none failed */
static void *spool_memory;
static size_t spool_memory_size;

/* Returns `size` zeroed bytes, page aligned, or NULL when the system has no more. */
static void *memory_map(size_t size)
{
    void *bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    return bytes != MAP_FAILED ? bytes : NULL;
}

/* Memory of a fixed size for a feature, from its first use to the end of the process: a late reader may still have it
 * after the feature has stopped. Not static, so a program that does not use the feature reserves nothing. */
static void *memory_keep(void **kept, size_t size)
{
    if (*kept == NULL)
        *kept = memory_map(size);
    return *kept;
}

static void release_memory(void)
{
    if (mapped != NULL)
        munmap(mapped, mapped_size);
    if (spool_memory != NULL)
        munmap(spool_memory, spool_memory_size);
    mapped = spool_memory = NULL;
}

static int stop_and_release(uint32_t deadline_ms)
{
    const int err = ep_stop(deadline_ms);

    left = err == -EBUSY;
    if (!left)
        release_memory();
    return err;
}

static int memory_provide(struct ep_config *config, uint64_t size)
{
    if (size > SIZE_MAX / 2)
        return -ENOMEM;
    config->memory_size = size ? (size_t)size : EP_MEMORY_DEFAULT;
    if (config->memory_size <= EP_MEMORY_DEFAULT) {
        config->memory = memory_keep(&memory, EP_MEMORY_DEFAULT);
    } else {
        config->memory = mapped = memory_map(config->memory_size);
        mapped_size = config->memory_size;
    }
    return config->memory != NULL ? 0 : -ENOMEM;
}

/* Starts a spool if the options or the environment request one. A message may be a quarter of the profiler's memory. */
static int spool_start(const struct ep_dotnet_options *options, uint64_t profiler_memory)
{
    struct ep_spool_config spool = {
        .dir = options->spool, .cap_bytes = options->spool_bytes, .memory_size = EP_SPOOL_MEMORY};
    const int asked = ep_spool_from_env(&spool);

    if (asked <= 0)
        return asked < 0 ? asked : ep_spool_start(NULL);
    if (profiler_memory > EP_MEMORY_DEFAULT) {
        spool_memory_size = spool.memory_size = EP_SPOOL_MEMORY + (size_t)profiler_memory / 4;
        spool.memory = spool_memory = memory_map(spool.memory_size);
    } else {
        spool.memory = memory_keep(&least_spool_memory, EP_SPOOL_MEMORY);
    }
    return spool.memory != NULL ? ep_spool_start(&spool) : -ENOMEM;
}

int ep_dotnet_agree(const struct ep_dotnet_shape *theirs, uint32_t size)
{
    const struct ep_dotnet_shape ours = {.interface = EP_DOTNET_INTERFACE,
                                         .options = sizeof(struct ep_dotnet_options),
                                         .tls = sizeof(struct ep_dotnet_tls),
                                         .message = sizeof(struct ep_dotnet_message),
                                         .figures = EP_DOTNET_FIGURES};

    agreed = size == sizeof ours && memcmp(theirs, &ours, sizeof ours) == 0;
    return agreed ? 0 : -EPROTO;
}

int ep_dotnet_configured(void)
{
    struct ep_config config = {0};
    return ep_config_from_env(&config);
}

int ep_dotnet_async_configured(void)
{
    const char *text = secure_getenv("EDGEPROF_AWAITED");

    return text != NULL && strcmp(text, "1") == 0;
}

/* Strings that must stay valid while an endpoint is open; C# keeps them only during the call. */
struct kept {
    char where[EP_DOTNET_WHERE], token[EP_DOTNET_TOKEN];
};
static struct kept control, pull;

/* Takes a text from code, else from the environment, else NULL. Returns -EINVAL if it is too long. */
static int text_keep(const char *text, const char *variable, char *copy, size_t room, const char **kept)
{
    text = text != NULL ? text : secure_getenv(variable);
    *kept = NULL;
    if (text == NULL || !*text)
        return 0;
    if (strlen(text) >= room)
        return -EINVAL;
    *kept = strcpy(copy, text);
    return 0;
}

static int control_start(const struct ep_dotnet_options *options)
{
    const char *where, *token;
    int err = text_keep(options->control, "EDGEPROF_CONTROL", control.where, sizeof control.where, &where);

    if (err == 0)
        err = text_keep(options->control_token, "EDGEPROF_CONTROL_TOKEN", control.token, sizeof control.token, &token);
    return err == 0 && where != NULL ? ep_control_start(where, token) : err;
}

static int pull_start(const struct ep_dotnet_options *options)
{
    struct ep_pull_config config = {.memory_size = EP_PULL_MEMORY_DEFAULT, .insecure = options->pull_insecure != 0};
    int err = text_keep(options->pull, "EDGEPROF_PULL", pull.where, sizeof pull.where, &config.where);

    if (err == 0)
        err = text_keep(options->pull_token, "EDGEPROF_PULL_TOKEN", pull.token, sizeof pull.token, &config.token);
    if (err != 0 || config.where == NULL)
        return err;
    config.memory = memory_keep(&pull_memory, config.memory_size);
    return config.memory != NULL ? ep_pull_start(&config) : -ENOMEM;
}

/* If a requested endpoint cannot be started, the start fails. */
static int endpoints_start(const struct ep_dotnet_options *options)
{
    int err = control_start(options);

    has_endpoint = err > 0;
    if (err < 0)
        failed =
            "control endpoint (Control or EDGEPROF_CONTROL): must be a socket's path that can be created, or a free "
            "port and a token of at least 16 characters";
    else if ((err = pull_start(options)) == -EACCES)
        failed = "pull endpoint (Pull or EDGEPROF_PULL): its token would cross the network unencrypted; put TLS in "
                 "front, or set PullInsecure or EDGEPROF_PULL_INSECURE=1";
    else if (err < 0)
        failed = "pull endpoint (Pull or EDGEPROF_PULL): must be a free port, or address:port, and beyond loopback "
                 "a token of at least 16 characters";
    has_endpoint |= err > 0;
    if (err >= 0)
        return 0;
    (void)ep_dotnet_stop(0);
    return err;
}

/* Copies the headers, because C# frees them when the start returns. */
static int headers_copy(struct ep_config *config, const char *lines)
{
    const size_t size = lines ? strlen(lines) + 1 : 0;

    if (size > sizeof headers)
        return -E2BIG;
    if (size)
        config->headers = memcpy(headers, lines, size);
    return 0;
}

/* Before the environment's token, so that it counts as given, and after it, because the environment replaces a file
 * that it named at an earlier start. */
static int environment_read(struct ep_config *config, const struct ep_dotnet_options *options)
{
    int err = ep_token_file(options->token_file);

    if (err == 0)
        err = ep_config_from_env(config);
    if (err >= 0 && options->token_file)
        err = ep_token_file(options->token_file);
    return err;
}

static void names_configure(struct ep_config *config, uint32_t names)
{
    if (names)
        config->names = names == 1 ? &ep_names_process : NULL;
    sends_names = config->names && config->encoder == &ep_encoder_pprof;
}

int ep_dotnet_sends_names(void)
{
    return sends_names;
}

int ep_dotnet_has_endpoint(void)
{
    return has_endpoint;
}

/* A second endpoint for old profiles, if a variable names one. */
static int old_setup(struct ep_config *config)
{
    const int set = config->endpoint != NULL ? ep_endpoint_old(config, NULL) : 0;

    return set < 0 ? set : 0;
}

static int tls_setup(const char *endpoint, const struct ep_dotnet_tls *options)
{
    struct ep_tls_config tls = {.memory_size = EP_TLS_MEMORY,
                                .ca_file = options->ca_file,
                                .ca = options->ca,
                                .ca_size = (size_t)options->ca_size,
                                .pin = options->pin,
                                .cert_file = options->cert_file,
                                .key_file = options->key_file,
                                .cert = options->cert,
                                .key = options->key,
                                .cert_size = (size_t)options->cert_size,
                                .key_size = (size_t)options->key_size,
                                .server_name = options->server_name,
                                .flags = options->flags};

    if (!ep_tls_is_needed(endpoint))
        return 0;
    tls.memory = memory_keep(&tls_memory, tls.memory_size);
    int err = tls.memory != NULL ? ep_tls_config_from_env(&tls) : -ENOMEM;
    if (err == 0)
        err = ep_tls_setup(&tls);
    tls_failed = err != 0;
    return err;
}

int ep_dotnet_crash_error;

/* -EBUSY is not reported: another process of this program has the file. */
static void crash_report(void)
{
    if (ep_dotnet_crash_error && ep_dotnet_crash_error != -EBUSY)
        ep_dotnet_notice("no crash records: EDGEPROF_CRASH names no directory that this program can use");
}

/* Linked with EdgeProfOtelContext=true only. */
extern __typeof__(ep_otel_publish) ep_otel_publish __attribute__((weak));
extern __typeof__(ep_otel_threads) ep_otel_threads __attribute__((weak));
extern __typeof__(ep_otel_read) ep_otel_read __attribute__((weak));

/* OpenTelemetry's contexts, if the variable asks for them. A program may start again. The profiler runs without, if
 * that fails. */
static void contexts_begin(const struct ep_config *config)
{
    const int wanted = ep_otel_from_env();

    if (wanted > 0 && (!ep_otel_publish || !ep_otel_threads || !ep_otel_read)) {
        ep_dotnet_notice("EDGEPROF_OTEL_CONTEXT has no effect: build the program with EdgeProfOtelContext=true");
        return;
    }
    int err = wanted < 0 ? wanted : 0;
    if (err == 0 && wanted & EP_OTEL_PUBLISH)
        err = ep_otel_publish(config, "telemetry.sdk.language=dotnet");
    if (err == 0 && wanted & EP_OTEL_PUBLISH)
        err = ep_otel_threads();
    if (err != 0 && err != -EALREADY)
        ep_dotnet_notice(ep_start_error());
    if (wanted > 0 && wanted & EP_OTEL_READ)
        (void)ep_otel_read();
}

static int start_agreed(const struct ep_dotnet_options *options, const struct ep_dotnet_tls *tls)
{
    struct ep_config config = {.service = options->service,
                               .tags = options->tags,
                               .endpoint = options->endpoint,
                               .transport = options->managed ? &ep_dotnet_transport : NULL,
                               .level = (enum ep_level)options->level,
                               .rate_hz = options->rate_hz,
                               .interval_ms = options->interval_ms,
                               .encoder = options->format == EP_FORMAT_PPROF ? &ep_encoder_pprof : NULL,
                               .kinds = options->kinds,
                               .budget_ppm = options->budget_ppm,
                               .flags = options->flags};
    int err = headers_copy(&config, options->headers);
    if (err == 0)
        err = environment_read(&config, options);
    if (err < 0)
        return err;
    names_configure(&config, options->names);
    if (mapped != NULL)
        return -EALREADY;
    if (options->managed)
        config.endpoint = NULL;
    ep_dotnet_heap_attach();
    const uint32_t missing = ep_dotnet_self_check(ep_dotnet_notice);
    err = tls_setup(config.endpoint, tls);
    if (err == 0)
        err = old_setup(&config);
    if (err == 0)
        err = memory_provide(&config, options->memory_bytes);
    if (err == 0)
        err = spool_start(options, config.memory_size);
    if (err == 0)
        err = ep_dotnet_incidents_setup(&options->incidents);
    if (err == 0) {
        ep_notice_to(ep_dotnet_notice);
        crash_report();
        contexts_begin(&config);
        err = ep_start(&config);
    }
    if (err == 0 && missing)
        (void)ep_kinds_change(0, missing);
    if (err != 0)
        release_memory();
    return err != 0 ? err : endpoints_start(options);
}

int ep_dotnet_start(const struct ep_dotnet_options *options, const struct ep_dotnet_tls *tls)
{
    if (!agreed)
        return -EPROTO;
    failed = NULL;
    tls_failed = false;
    return left && stop_and_release(0) == -EBUSY ? -EBUSY : start_agreed(options, tls);
}

int ep_dotnet_stop(uint32_t deadline_ms)
{
    (void)ep_pull_stop();
    (void)ep_control_stop();
    const int err = stop_and_release(deadline_ms);
    if (left)
        ep_dotnet_notice(ep_start_error());
    return err;
}

int ep_dotnet_flush(void)
{
    return ep_flush();
}

static void copy_incidents(uint64_t *figure)
{
    struct ep_incident_stats stats;

    ep_incident_stats_get(&stats);
    figure[EP_DOTNET_INCIDENTS] = stats.captured;
    figure[EP_DOTNET_INCIDENTS_SUPPRESSED] = stats.suppressed;
    figure[EP_DOTNET_INCIDENTS_LOST] = stats.lost;
}

static void copy_figures(const struct ep_stats *stats, uint64_t *figure)
{
    figure[EP_DOTNET_SAMPLES] = stats->samples;
    figure[EP_DOTNET_WEIGHT_NS] = stats->weight_ns;
    figure[EP_DOTNET_EXACT] = stats->exact;
    figure[EP_DOTNET_GAP] = stats->gap;
    figure[EP_DOTNET_CUT] = stats->cut;
    figure[EP_DOTNET_THREAD_EXIT_NS] = stats->thread_exit_ns;
    figure[EP_DOTNET_RULE_HITS] = stats->rule_hits;
    figure[EP_DOTNET_RULE_MISSES] = stats->rule_misses;
    figure[EP_DOTNET_MESSAGES] = stats->messages;
    figure[EP_DOTNET_MESSAGE_BYTES] = stats->message_bytes;
    figure[EP_DOTNET_DELIVERED] = stats->delivered;
    figure[EP_DOTNET_DELIVERED_BYTES] = stats->delivered_bytes;
    figure[EP_DOTNET_DELIVERY_FAILURES] = stats->delivery_failures;
    figure[EP_DOTNET_INTERVALS_MERGED] = stats->intervals_merged;
    figure[EP_DOTNET_LAST_ERROR] = (uint64_t)-stats->last_error;
    figure[EP_DOTNET_OWN_CPU_NS] = stats->collect_cpu_ns + stats->deliver_cpu_ns;
    figure[EP_DOTNET_WAKEUPS] = stats->wakeups;
    figure[EP_DOTNET_THREADS] = stats->threads;
    figure[EP_DOTNET_MODULES] = stats->modules;
    figure[EP_DOTNET_MEMORY_USED] = stats->memory_used;
    figure[EP_DOTNET_HANDLER_NS] = stats->handler_ns;
    figure[EP_DOTNET_COST_PPM] = stats->cost_ppm;
    figure[EP_DOTNET_STRETCH_PCT] = stats->stretch_pct;
    figure[EP_DOTNET_STRETCHES] = stats->stretches;
    figure[EP_DOTNET_SPOOL_ERROR] = stats->spool_error;
    figure[EP_DOTNET_SPOOLED] = stats->spooled;
    figure[EP_DOTNET_REPLAYED] = stats->replayed;
    figure[EP_DOTNET_SPOOL_MESSAGES] = stats->spool_messages;
    figure[EP_DOTNET_SPOOL_BYTES] = stats->spool_bytes;
    figure[EP_DOTNET_SPOOL_WRITTEN] = stats->spool_written;
    figure[EP_DOTNET_LAST_STATUS] = stats->last_status;
    figure[EP_DOTNET_BUSY_STOPS] = stats->busy_stops;
}

uint32_t ep_dotnet_kinds(void)
{
    return EP_KINDS;
}

uint32_t ep_dotnet_loss_reasons(void)
{
    return EP_LOSS_REASONS;
}

int ep_dotnet_stats(uint64_t *figure, uint32_t figures, uint64_t *by_kind, uint32_t kinds, uint64_t *lost,
                    uint32_t reasons)
{
    struct ep_stats stats;
    if (figures != EP_DOTNET_FIGURES || kinds != EP_KINDS || reasons != EP_LOSS_REASONS)
        return -EINVAL;
    const int err = ep_stats_get(&stats);
    if (err != 0)
        return err;
    copy_figures(&stats, figure);
    copy_incidents(figure);
    for (unsigned i = 0; i < EP_KINDS; i++) {
        by_kind[2 * i] = stats.kind_count[i];
        by_kind[2 * i + 1] = stats.kind_value[i];
    }
    for (unsigned i = 0; i < EP_LOSS_REASONS; i++) {
        lost[2 * i] = stats.lost_count[i];
        lost[2 * i + 1] = stats.lost_ns[i];
    }
    return 0;
}

const char *ep_dotnet_error(void)
{
    if (failed != NULL)
        return failed;
    if (tls_failed)
        return ep_tls_error();
    const char *text = ep_start_error();
    return text != NULL ? text : "";
}

const char *ep_dotnet_loss_name(uint32_t reason)
{
    const char *name = ep_loss_name(reason);
    return name != NULL ? name : "";
}
