/*
 * struct ep_stats in Prometheus' text format, version 0.0.4. Each family has its HELP, its TYPE and its samples. Times
 * are in seconds, sizes in bytes; names of counters end in _total.
 *
 *   ep_metrics_put -> put_family, put_sample
 */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include <edgeprof/hooks.h>
#include "core/features/pull/pull.h"
#include "core/features/pull/views.h"

enum unit { ONE, NANOSECONDS, PPM, PERCENT };

struct figure {
    char name[40];
    uint16_t at;  /* offset in struct ep_stats */
    uint8_t wide; /* 1: 64 bits, 0: 32 bits */
    uint8_t unit; /* the member's unit; written as seconds or as a ratio */
    char help[88];
};

#define AT(member) offsetof(struct ep_stats, member), sizeof(((struct ep_stats *)0)->member) == 8

/* A name that ends in _total is a counter, every other one a gauge. */
static const struct figure figures[] = {
    {"edgeprof_samples_total", AT(samples), ONE, "Samples of CPU time."},
    {"edgeprof_cpu_seconds_total", AT(weight_ns), NANOSECONDS, "CPU time that samples represent."},
    {"edgeprof_thread_exit_seconds_total", AT(thread_exit_ns), NANOSECONDS,
     "Residual CPU time of threads, without samples."},
    {"edgeprof_rule_hits_total", AT(rule_hits), ONE, "Frames whose unwind rule was in the cache."},
    {"edgeprof_rule_misses_total", AT(rule_misses), ONE, "Frames whose unwind rule was derived."},
    {"edgeprof_messages_total", AT(messages), ONE, "Profiles encoded for delivery."},
    {"edgeprof_message_bytes_total", AT(message_bytes), ONE, "Bytes of these."},
    {"edgeprof_delivered_total", AT(delivered), ONE, "Profiles that the receiver accepted."},
    {"edgeprof_delivered_bytes_total", AT(delivered_bytes), ONE, "Bytes of these."},
    {"edgeprof_delivery_failures_total", AT(delivery_failures), ONE, "Delivery attempts that failed and are retried."},
    {"edgeprof_unanswered_total", AT(unanswered), ONE,
     "Sends whose answer was lost: the receiver may have them twice."},
    {"edgeprof_busy_stops_total", AT(busy_stops), ONE,
     "Stops that ended while a thread still used the profiler's memory, of all runs."},
    {"edgeprof_intervals_merged_total", AT(intervals_merged), ONE, "Intervals that waited for room in the outbox."},
    {"edgeprof_collect_cpu_seconds_total", AT(collect_cpu_ns), NANOSECONDS, "CPU time of the collect thread."},
    {"edgeprof_deliver_cpu_seconds_total", AT(deliver_cpu_ns), NANOSECONDS, "CPU time of the deliver thread."},
    {"edgeprof_handler_seconds_total", AT(handler_ns), NANOSECONDS,
     "CPU time that samples and hooks took from the service's threads."},
    {"edgeprof_wakeups_total", AT(wakeups), ONE, "Wake-ups of the collect and the deliver thread."},
    {"edgeprof_stretch_changes_total", AT(stretches), ONE, "Changes of the sampling periods by the governor."},
    {"edgeprof_stretch_ratio", AT(stretch_pct), PERCENT, "Current sampling periods, as a ratio of the level's."},
    {"edgeprof_budget_ratio", AT(budget_ppm), PPM,
     "Budget for profiling, as a ratio of the process' CPU time; 0: no limit."},
    {"edgeprof_cost_ratio", AT(cost_ppm), PPM,
     "Cost of profiling over about a minute, as a ratio of the process' CPU time."},
    {"edgeprof_threads", AT(threads), ONE, "Threads with a sampling timer."},
    {"edgeprof_modules", AT(modules), ONE, "Executable mappings of the loaded modules."},
    {"edgeprof_tree_nodes", AT(tree_nodes), ONE, "Nodes of the stack tree in use."},
    {"edgeprof_tree_nodes_limit", AT(tree_capacity), ONE, "Capacity of the stack tree in nodes."},
    {"edgeprof_spool_messages", AT(spool_messages), ONE, "Profiles that wait in the spool."},
    {"edgeprof_spool_bytes", AT(spool_bytes), ONE, "Bytes of the spool's files."},
    {"edgeprof_spooled_total", AT(spooled), ONE, "Profiles stored in the spool."},
    {"edgeprof_replayed_total", AT(replayed), ONE, "Profiles delivered from the spool, those of earlier runs too."},
    {"edgeprof_spool_written_bytes_total", AT(spool_written), ONE, "Bytes written to the spool's disk."},
    {"edgeprof_spool_error", AT(spool_error), ONE, "errno value of the last failure to store; 0: storing works."},
    {"edgeprof_memory_bytes", AT(memory_used), ONE, "Memory of the profiler."},
};

/* ---- lines ---- */

static void put_family(struct ep_text *out, const char *name, const char *type, const char *help)
{
    ep_text_put(out, "# HELP ");
    ep_text_put(out, name);
    ep_text_put(out, " ");
    ep_text_put(out, help);
    ep_text_put(out, "\n# TYPE ");
    ep_text_put(out, name);
    ep_text_put(out, " ");
    ep_text_put(out, type);
    ep_text_put(out, "\n");
}

/* Writes value / 10^digits. */
static void put_decimal(struct ep_text *out, uint64_t value, unsigned digits)
{
    uint64_t one = 1;
    char fraction[9];

    for (unsigned i = 0; i < digits; i++)
        one *= 10;
    ep_text_number(out, value / one);
    value %= one;
    for (unsigned i = digits; i > 0; i--, value /= 10)
        fraction[i - 1] = (char)('0' + value % 10);
    if (digits)
        ep_text_put(out, ".");
    ep_text_bytes(out, fraction, digits);
}

static void put_value(struct ep_text *out, uint64_t value, enum unit unit)
{
    static const uint8_t digits[] = {[ONE] = 0, [NANOSECONDS] = 9, [PPM] = 6, [PERCENT] = 2};

    ep_text_put(out, " ");
    put_decimal(out, value, digits[unit]);
    ep_text_put(out, "\n");
}

/* The texts contain no character that needs escaping. */
static void put_sample(struct ep_text *out, const char *name, const char *label, const char *text, uint64_t value,
                       enum unit unit)
{
    ep_text_put(out, name);
    ep_text_put(out, "{");
    ep_text_put(out, label);
    ep_text_put(out, "=\"");
    ep_text_put(out, text);
    ep_text_put(out, "\"}");
    put_value(out, value, unit);
}

/* ---- families with labels, and single values ---- */

static void put_stacks(struct ep_text *out, const struct ep_stats *stats)
{
    static const char name[] = "edgeprof_stacks_total";

    put_family(out, name, "counter", "Stacks of all kinds, by how completely they were unwound.");
    put_sample(out, name, "quality", "exact", stats->exact, ONE);
    put_sample(out, name, "quality", "gap", stats->gap, ONE);
    put_sample(out, name, "quality", "cut", stats->cut, ONE);
}

static void put_loss_metrics(struct ep_text *out, const struct ep_stats *stats)
{
    static const char count[] = "edgeprof_lost_samples_total", ns[] = "edgeprof_lost_cpu_seconds_total";

    put_family(out, count, "counter", "Lost samples, by reason.");
    for (unsigned reason = 0; reason < EP_LOSS_REASONS; reason++)
        put_sample(out, count, "reason", ep_loss_name(reason), stats->lost_count[reason], ONE);
    put_family(out, ns, "counter", "CPU time that lost samples represent.");
    for (unsigned reason = 0; reason < EP_LOSS_REASONS; reason++)
        put_sample(out, ns, "reason", ep_loss_name(reason), stats->lost_ns[reason], NANOSECONDS);
}

static bool in_time(unsigned kind)
{
    return strcmp(ep_kind_unit(kind), "nanoseconds") == 0;
}

static void put_kind_metrics(struct ep_text *out, const struct ep_stats *stats)
{
    static const char on[] = "edgeprof_kind_enabled", events[] = "edgeprof_kind_events_total",
                      seconds[] = "edgeprof_kind_seconds_total";
    const uint32_t kinds = ep_kinds_get();

    put_family(out, on, "gauge", "1: the kind is enabled.");
    for (unsigned kind = EP_KIND_CPU; kind < EP_KINDS; kind++)
        put_sample(out, on, "kind", ep_kind_name(kind), (kinds & EP_KIND_BIT(kind)) != 0, ONE);
    put_family(out, events, "counter", "Events that samples of the kind represent; for cpu the samples.");
    for (unsigned kind = EP_KIND_CPU; kind < EP_KINDS; kind++)
        if (kind != EP_KIND_LIVE && kind != EP_KIND_HEAP)
            put_sample(out, events, "kind", ep_kind_name(kind), stats->kind_count[kind], ONE);
    put_family(out, seconds, "counter", "Time of these events.");
    for (unsigned kind = EP_KIND_CPU; kind < EP_KINDS; kind++)
        if (in_time(kind))
            put_sample(out, seconds, "kind", ep_kind_name(kind), stats->kind_value[kind], NANOSECONDS);
}

static void put_plain(struct ep_text *out, const char *name, const char *type, const char *help, uint64_t value)
{
    put_family(out, name, type, help);
    ep_text_put(out, name);
    put_value(out, value, ONE);
}

static void put_others(struct ep_text *out, const struct ep_stats *stats)
{
    static const char build[] = "edgeprof_build_info";

    put_family(out, build, "gauge", "Always 1.");
    put_sample(out, build, "version", EP_VERSION, 1, ONE);
    put_plain(out, "edgeprof_running", "gauge", "1: the profiler is running; 0: figures are of the last run.",
              ep_level_get() != EP_LEVEL_DEFAULT);
    put_plain(out, "edgeprof_level", "gauge", "1 low, 2 medium, 3 high; 0: not running.", ep_level_get());
    put_plain(out, "edgeprof_last_error", "gauge", "errno value of the last failed delivery; 0: none yet.",
              (uint64_t) - (int64_t)stats->last_error);
    put_plain(out, "edgeprof_last_status", "gauge", "HTTP status of the last answer to a profile; 0: none yet.",
              stats->last_status);
    put_plain(out, "edgeprof_pull_truncated_total", "counter",
              "Samples that the pull endpoint truncated for lack of memory.",
              atomic_load(&ep_view_losses()->truncated));
    put_plain(out, "edgeprof_pull_unlabelled_total", "counter",
              "Samples that the pull endpoint kept without tags for lack of memory.",
              atomic_load(&ep_view_losses()->unlabelled));
    put_plain(out, "edgeprof_alloc_bytes_total", "counter", "Bytes allocated.", stats->kind_value[EP_KIND_ALLOC]);
    put_plain(out, "edgeprof_written_bytes_total", "counter", "Bytes written to files.",
              stats->kind_value[EP_KIND_WRITE]);
    put_plain(out, "edgeprof_live_objects", "gauge", "Objects in use at the end of the last interval.",
              stats->kind_count[EP_KIND_LIVE]);
    put_plain(out, "edgeprof_live_bytes", "gauge", "Bytes in use at the end of the last interval.",
              stats->kind_value[EP_KIND_LIVE]);
    put_plain(out, "edgeprof_gc_heap_bytes", "gauge", "Size of the .NET heap at the end of the last interval.",
              stats->kind_value[EP_KIND_HEAP]);
}

static uint64_t figure_value(const struct ep_stats *stats, const struct figure *figure)
{
    uint64_t wide = 0;
    uint32_t narrow = 0;

    memcpy(figure->wide ? (void *)&wide : (void *)&narrow, (const char *)stats + figure->at, figure->wide ? 8 : 4);
    return figure->wide ? wide : narrow;
}

static bool grows(const char *name)
{
    static const char end[] = "_total";
    size_t size = strlen(name);

    return size >= sizeof end && strcmp(name + size - (sizeof end - 1), end) == 0;
}

int ep_metrics_put(struct ep_text *out)
{
    struct ep_stats stats;

    if (ep_stats_get(&stats) != 0)
        return -ESRCH;
    put_others(out, &stats);
    for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++) {
        put_family(out, figures[i].name, grows(figures[i].name) ? "counter" : "gauge", figures[i].help);
        ep_text_put(out, figures[i].name);
        put_value(out, figure_value(&stats, &figures[i]), (enum unit)figures[i].unit);
    }
    put_stacks(out, &stats);
    put_kind_metrics(out, &stats);
    put_loss_metrics(out, &stats);
    return 0;
}
