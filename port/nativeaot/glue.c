/*
 * Functions for the C# package; see glue.h. C# serialises start and stop.
 *
 *   ep_dotnet_start -> start_agreed -> ep_config_from_env, ep_dotnet_self_check, memory_provide, parts.c,
 *                                      crash_report, ep_start
 *   ep_dotnet_stop  -> stop_and_release -> ep_stop, release_memory
 */
#include "glue.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <edgeprof/edgeprof.h>

static void *memory; /* by ep_dotnet_memory_keep() */
static void *mapped;
static size_t mapped_size;
static bool agreed;
static bool left;     /* the last stop has left its memory to a thread that still uses it */
static void *headers; /* EP_HEADERS_BYTES */

static void release_memory(void)
{
    if (mapped != NULL)
        munmap(mapped, mapped_size);
    mapped = NULL;
    ep_dotnet_spool_release();
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
        config->memory = ep_dotnet_memory_keep(&memory, EP_MEMORY_DEFAULT);
    } else {
        config->memory = mapped = ep_dotnet_memory_map(config->memory_size);
        mapped_size = config->memory_size;
    }
    return config->memory != NULL ? 0 : -ENOMEM;
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

/* Copies the headers, because C# frees them when the start returns. */
static int headers_copy(struct ep_config *config, const char *lines)
{
    const size_t size = lines ? strlen(lines) + 1 : 0;

    if (size > EP_HEADERS_BYTES)
        return -E2BIG;
    if (size && ep_dotnet_memory_keep(&headers, EP_HEADERS_BYTES) == NULL)
        return -ENOMEM;
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
    if (err >= 0)
        err = ep_dotnet_pprof_setup(config, options->format == EP_FORMAT_PPROF);
    if (err >= 0 && options->token_file)
        err = ep_token_file(options->token_file);
    return err;
}

/* Returns whether a tag with this key is among the tags, "a=1,b=2". */
static bool has_tag(const char *tags, const char *key)
{
    const size_t size = strlen(key);

    for (const char *at = tags; at != NULL; at = strchr(at, ','), at += at != NULL)
        if (strncmp(at, key, size) == 0 && at[size] == '=')
            return true;
    return false;
}

/* Adds the program's own version as a tag, unless the user has given one. */
static void version_add(struct ep_config *config, const char *version)
{
    static char text[512];
    const char *tags = config->tags != NULL ? config->tags : "";

    if (version == NULL || has_tag(tags, "version") || has_tag(tags, "service_version"))
        return;
    const int size = snprintf(text, sizeof text, "%s%sversion=%s", tags, *tags != '\0' ? "," : "", version);
    if (size > 0 && (size_t)size < sizeof text)
        config->tags = text;
}

int ep_dotnet_crash_error;

/* -EBUSY is not reported: another process of this program has the file. */
static void crash_report(void)
{
    if (ep_dotnet_crash_error && ep_dotnet_crash_error != -EBUSY)
        ep_dotnet_notice("no crash records: EDGEPROF_CRASH names no directory that this program can use");
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
                               .kinds = options->kinds,
                               .budget_ppm = options->budget_ppm,
                               .flags = options->flags};
    int err = mapped ? -EALREADY : headers_copy(&config, options->headers);
    if (err == 0)
        err = environment_read(&config, options);
    if (err < 0)
        return err;
    version_add(&config, options->version);
    ep_dotnet_names_setup(&config, options->names);
    if (options->managed)
        config.endpoint = NULL;
    ep_dotnet_heap_attach();
    const uint32_t missing = ep_dotnet_self_check(ep_dotnet_notice);
    err = ep_dotnet_tls_setup(config.endpoint, tls);
    if (err == 0)
        err = ep_dotnet_old_setup(&config);
    if (err == 0)
        err = memory_provide(&config, options->memory_bytes);
    if (err == 0)
        err = ep_dotnet_spool_setup(options, config.memory_size);
    if (err == 0)
        err = ep_dotnet_incidents_begin(&options->incidents);
    if (err == 0) {
        ep_notice_to(ep_dotnet_notice);
        err = ep_dotnet_outlive_setup(&config);
    }
    if (err == 0) {
        crash_report();
        ep_dotnet_contexts_begin(&config);
        err = ep_start(&config);
    }
    if (err == 0 && missing)
        (void)ep_kinds_change(0, missing);
    if (err != 0)
        release_memory();
    if (err != 0)
        return err;
    err = ep_dotnet_endpoints_start(options); /* if a requested endpoint cannot be started, the start fails */
    if (err != 0)
        (void)ep_dotnet_stop(0);
    return err;
}

int ep_dotnet_start(const struct ep_dotnet_options *options, const struct ep_dotnet_tls *tls)
{
    if (!agreed)
        return -EPROTO;
    ep_dotnet_parts_begin();
    return left && stop_and_release(0) == -EBUSY ? -EBUSY : start_agreed(options, tls);
}

int ep_dotnet_stop(uint32_t deadline_ms)
{
    ep_dotnet_endpoints_stop();
    const int err = stop_and_release(deadline_ms);
    if (left)
        ep_dotnet_notice(ep_start_error());
    return err;
}

int ep_dotnet_flush(void)
{
    return ep_flush();
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
    ep_dotnet_incident_figures(figure);
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
    const char *text = ep_dotnet_parts_error();

    if (text == NULL)
        text = ep_start_error();
    return text != NULL ? text : "";
}

const char *ep_dotnet_loss_name(uint32_t reason)
{
    const char *name = ep_loss_name(reason);
    return name != NULL ? name : "";
}
