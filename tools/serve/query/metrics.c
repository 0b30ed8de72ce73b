/* See metrics.h. */
#include "tools/serve/query/metrics.h"
#include "tools/lib/kinds.h"
#include "tools/lib/labels.h"

#include <dirent.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* ---- the format ---- */

void et_metrics_family(struct et_buf *out, const char *name, const char *type, const char *help)
{
    et_buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void put_value(struct et_buf *out, const char *value)
{
    for (; *value; value++) {
        if (*value == '\n') {
            et_buf_text(out, "\\n");
            continue;
        }
        if (*value == '"' || *value == '\\') {
            et_buf_char(out, '\\');
        }
        et_buf_char(out, *value);
    }
}

static void put_label(void *context, const char *name, const char *value)
{
    struct et_buf *out = context;
    char before = out->data[out->size - 1];
    et_buf_printf(out, "%s%s=\"", before == '"' ? "," : "{", name);
    put_value(out, value);
    et_buf_char(out, '"');
}

static void put_labels(struct et_buf *out, va_list args)
{
    const char *name;
    while ((name = va_arg(args, const char *))) {
        put_label(out, name, va_arg(args, const char *));
    }
}

void et_metrics_sample(struct et_buf *out, const char *family, ...)
{
    va_list args;
    et_buf_text(out, family);
    va_start(args, family);
    put_labels(out, args);
    va_end(args);
    et_buf_text(out, out->data[out->size - 1] == '"' ? "} " : " ");
}

/* The same, with more labels as lines. */
static void put_sample(struct et_buf *out, const char *family, const char *lines, ...)
{
    va_list args;
    et_buf_text(out, family);
    va_start(args, lines);
    put_labels(out, args);
    va_end(args);
    et_labels_each(lines, put_label, out);
    et_buf_text(out, "} ");
}

void et_metrics_number(struct et_buf *out, uint64_t number)
{
    et_buf_printf(out, "%llu\n", (unsigned long long)number);
}

static void add_billionths(struct et_buf *out, uint64_t number)
{
    et_buf_printf(out, "%llu.%09llu\n", (unsigned long long)(number / 1000000000),
                  (unsigned long long)(number % 1000000000));
}

/* ---- metrics of the database ---- */

enum figure { VALUE, SECONDS, COUNT, PROFILES, LAST };

/* Metric families made from the counters. kind NULL: all kinds together. */
static const struct metric_family {
    const char *name, *type, *help, *kind;
    enum figure figure;
    const char *service; /* name of the label for the service */
} families[] = {
    {"edgeprof_cpu_seconds_total", "counter", "CPU time of the service.", "cpu", SECONDS, "service"},
    {"pyroscope_profiles_cpu_total", "counter", "CPU time in seconds, under the name used by rules for Pyroscope.",
     "cpu", SECONDS, "service_name"},
    {"edgeprof_allocated_bytes_total", "counter", "Bytes that the service has allocated.", "alloc", VALUE, "service"},
    {"edgeprof_allocated_objects_total", "counter", "Objects that the service has allocated.", "alloc", COUNT,
     "service"},
    {"edgeprof_lock_delay_seconds_total", "counter", "Time that threads waited for locks.", "lock", SECONDS, "service"},
    {"edgeprof_lock_contentions_total", "counter", "Contended lock acquisitions.", "lock", COUNT, "service"},
    {"edgeprof_wait_seconds_total", "counter", "Total wait time of threads.", "wait", SECONDS, "service"},
    {"edgeprof_exceptions_total", "counter", "Exceptions that were thrown.", "exception", VALUE, "service"},
    {"edgeprof_gc_pause_seconds_total", "counter", "Total duration of garbage collection pauses.", "gc", SECONDS,
     "service"},
    {"edgeprof_gc_pauses_total", "counter", "Number of garbage collection pauses.", "gc", COUNT, "service"},
    {"edgeprof_written_bytes_total", "counter", "Bytes that the service has written to files.", "write", VALUE,
     "service"},
    {"edgeprof_writes_total", "counter", "Writes to files.", "write", COUNT, "service"},
    {"edgeprof_sync_seconds_total", "counter", "Time in fsync() and the like.", "sync", SECONDS, "service"},
    {"edgeprof_syncs_total", "counter", "Calls of fsync() and the like.", "sync", COUNT, "service"},
    {"edgeprof_profiles_total", "counter", "Received profiles.", NULL, PROFILES, "service"},
    {"edgeprof_last_seen_timestamp_seconds", "gauge", "End of the latest profile.", NULL, LAST, "service"},
};

struct metric_list {
    struct et_metric *metrics;
    size_t count, capacity;
    struct et_strings strings;
};

static void add_metric(void *context, const struct et_metric *metric)
{
    struct metric_list *all = context;
    struct et_metric copy = *metric;
    const char **texts[] = {&copy.service, &copy.version, &copy.device, &copy.kind, &copy.labels};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        *texts[i] = et_text(&all->strings, et_intern(&all->strings, *texts[i]));
    }
    all->metrics = et_reserve(all->metrics, &all->capacity, all->count + 1, sizeof *all->metrics);
    all->metrics[all->count++] = copy;
}

static void write_metric_labels(struct et_buf *out, const struct metric_family *family, const struct et_metric *metric)
{
    put_sample(out, family->name, metric->labels, family->service, metric->service, "version", metric->version,
               "device", metric->device, NULL);
}

/* Strings are interned, so equal strings have equal addresses. */
static bool same_set(const struct et_metric *a, const struct et_metric *b)
{
    return a->service == b->service && a->version == b->version && a->device == b->device && a->labels == b->labels;
}

/* Sums the kinds of a set, which are adjacent. Returns the first index of the next set. */
static size_t sum_set(const struct metric_list *all, size_t first, struct et_counted *sum)
{
    size_t i = first;
    *sum = (struct et_counted){0};
    for (; i < all->count && same_set(&all->metrics[i], &all->metrics[first]); i++) {
        sum->profiles += all->metrics[i].sum.profiles;
        sum->last_ns = all->metrics[i].sum.last_ns > sum->last_ns ? all->metrics[i].sum.last_ns : sum->last_ns;
    }
    return i;
}

static void put_sets(const struct metric_list *all, const struct metric_family *family, struct et_buf *out)
{
    struct et_counted sum;
    for (size_t i = 0; i < all->count;) {
        write_metric_labels(out, family, &all->metrics[i]);
        i = sum_set(all, i, &sum);
        if (family->figure == PROFILES) {
            et_metrics_number(out, sum.profiles);
        } else {
            add_billionths(out, (uint64_t)sum.last_ns);
        }
    }
}

static void put_kind(const struct metric_list *all, const struct metric_family *family, struct et_buf *out)
{
    for (size_t i = 0; i < all->count; i++) {
        const struct et_metric *metric = &all->metrics[i];
        if (strcmp(metric->kind, family->kind) != 0) {
            continue;
        }
        write_metric_labels(out, family, metric);
        if (family->figure == SECONDS) {
            add_billionths(out, metric->sum.value);
        } else {
            et_metrics_number(out, family->figure == COUNT ? metric->sum.count : metric->sum.value);
        }
    }
}

static void put_losses(const struct metric_list *all, const char *name, const char *help, bool seconds,
                       struct et_buf *out)
{
    et_metrics_family(out, name, "counter", help);
    for (size_t i = 0; i < all->count; i++) {
        const struct et_metric *metric = &all->metrics[i];
        if (strncmp(metric->kind, ET_METRIC_LOSS, sizeof ET_METRIC_LOSS - 1) != 0) {
            continue;
        }
        unsigned long reason = strtoul(metric->kind + sizeof ET_METRIC_LOSS - 1, NULL, 10);
        char other[32];
        snprintf(other, sizeof other, "reason %lu", reason);
        const char *known = et_loss_name((uint32_t)reason);
        put_sample(out, name, metric->labels, "service", metric->service, "version", metric->version, "device",
                   metric->device, "reason", strcmp(known, "other") == 0 ? other : known, NULL);
        if (seconds) {
            add_billionths(out, metric->sum.value);
        } else {
            et_metrics_number(out, metric->sum.count);
        }
    }
}

int et_metrics_store(struct et_store *store, struct et_buf *out)
{
    struct metric_list all = {0};
    int err = et_store_metrics(store, add_metric, &all);
    for (size_t i = 0; i < sizeof families / sizeof *families && !err; i++) {
        et_metrics_family(out, families[i].name, families[i].type, families[i].help);
        if (families[i].kind) {
            put_kind(&all, &families[i], out);
        } else {
            put_sets(&all, &families[i], out);
        }
    }
    if (!err) {
        put_losses(&all, "edgeprof_lost_samples_total", "Lost samples and events, by reason.", false, out);
        put_losses(&all, "edgeprof_lost_seconds_total", "The CPU or wait time that lost samples represent.", true, out);
    }
    et_strings_free(&all.strings);
    free(all.metrics);
    return err;
}

/* ---- metrics of the process ---- */

static size_t open_files(void)
{
    DIR *folder = opendir("/proc/self/fd");
    size_t count = 0;
    while (folder && readdir(folder)) {
        count++;
    }
    if (folder) {
        closedir(folder);
    }
    return count > 3 ? count - 3 : 0; /* ".", "..", and the folder itself */
}

/* The process's start time: field 22 of stat has ticks since boot. The name before may contain anything, but ends at
 * the last ')'. */
static double start_time(void)
{
    struct et_buf stat = {0};
    struct timespec boot, now;
    double ticks = 0;
    clock_gettime(CLOCK_BOOTTIME, &boot);
    clock_gettime(CLOCK_REALTIME, &now);
    if (et_read_file("/proc/self/stat", 4096, &stat) == 0) {
        char *at = strrchr(stat.data, ')');
        for (int field = 2; at && field < 22; field++) {
            at = strchr(at + 1, ' ');
        }
        ticks = at ? strtod(at, NULL) : 0;
    }
    et_buf_free(&stat);
    double uptime = (double)boot.tv_sec + (double)boot.tv_nsec / 1e9,
           unix_now = (double)now.tv_sec + (double)now.tv_nsec / 1e9;
    return unix_now - uptime + ticks / (double)sysconf(_SC_CLK_TCK);
}

static void put_gauge(struct et_buf *out, const char *name, const char *help, uint64_t number)
{
    et_metrics_family(out, name, "gauge", help);
    et_metrics_sample(out, name, NULL);
    et_metrics_number(out, number);
}

void et_metrics_process(struct et_buf *out)
{
    struct rusage usage;
    struct rlimit files = {0};
    struct et_buf statm = {0};
    unsigned long long pages[2] = {0};
    getrusage(RUSAGE_SELF, &usage);
    getrlimit(RLIMIT_NOFILE, &files);
    if (et_read_file("/proc/self/statm", 4096, &statm) == 0) {
        sscanf(statm.data, "%llu %llu", &pages[0], &pages[1]);
    }
    et_buf_free(&statm);
    et_metrics_family(out, "process_cpu_seconds_total", "counter", "CPU time of the server.");
    et_metrics_sample(out, "process_cpu_seconds_total", NULL);
    add_billionths(out, (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000000 +
                            (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1000);
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    put_gauge(out, "process_virtual_memory_bytes", "Address space of the server.", pages[0] * page);
    put_gauge(out, "process_resident_memory_bytes", "Resident memory of the server.", pages[1] * page);
    put_gauge(out, "process_open_fds", "Open files of the server.", open_files());
    put_gauge(out, "process_max_fds", "Maximum number of open files of the server.", files.rlim_cur);
    et_metrics_family(out, "process_start_time_seconds", "gauge", "Start time of the server.");
    et_metrics_sample(out, "process_start_time_seconds", NULL);
    et_buf_printf(out, "%.2f\n", start_time());
}
