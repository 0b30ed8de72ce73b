/* See incident_text.h. */
#include "tools/cmd/incident_text.h"
#include "tools/lib/kinds.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { STACKS_SHOWN = 5, FRAMES_SHOWN = 16 };

static double number_of(const json_t *object, const char *name)
{
    return json_number_value(json_object_get(object, name));
}

void et_incident_write_trigger(const json_t *incident, struct et_buf *out)
{
    static const struct {
        const char *cause, *unit;
    } units[] = {{"span", "nanoseconds"}, {"open span", "nanoseconds"},
                 {"gc", "nanoseconds"},   {"heartbeat", "nanoseconds"},
                 {"memory", "bytes"},     {"cpu", ""},
                 {"exceptions", ""}};
    const char *cause = et_json_words(incident, "cause");
    et_buf_printf(out, "%s%s%s", cause, *et_json_words(incident, "name") ? " " : "", et_json_words(incident, "name"));
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strcmp(units[i].cause, cause) == 0) {
            char value[32], limit[32];
            et_value_text((uint64_t)number_of(incident, "value"), units[i].unit, value);
            et_value_text((uint64_t)number_of(incident, "limit"), units[i].unit, limit);
            et_buf_printf(out, " %s%s, limit %s%s", value, strcmp(cause, "cpu") == 0 ? " %" : "", limit,
                          strcmp(cause, "cpu") == 0 ? " %" : "");
        }
    }
}

void et_incident_write_time(const json_t *incident, struct et_buf *out)
{
    time_t seconds = (time_t)number_of(incident, "time");
    struct tm parts;
    char time[32] = "unknown time       ";
    if (seconds && gmtime_r(&seconds, &parts)) {
        strftime(time, sizeof time, "%Y-%m-%d %H:%M:%S", &parts);
    }
    et_buf_text(out, time);
}

const char *et_incident_device(const json_t *incident)
{
    const char *device = et_json_words(json_object_get(incident, "tags"), "device");
    return *device ? device : et_json_words(incident, "host");
}

/* What a thread did with one stack. */
struct doing {
    json_int_t stack; /* -1: none */
    const char *kind;
    double ms;
    size_t samples;
};

struct sample {
    double start, length;
    size_t thread;
    const char *kind;
    json_int_t stack;
};

static struct sample sample_of(const json_t *value)
{
    return (struct sample){.start = json_number_value(json_array_get(value, 0)),
                           .length = json_number_value(json_array_get(value, 1)),
                           .thread = (size_t)json_integer_value(json_array_get(value, 2)),
                           .kind = json_string_value(json_array_get(value, 3)),
                           .stack = json_integer_value(json_array_get(value, 4))};
}

/* Milliseconds of the sample between two times. */
static double within(const struct sample *sample, double from, double to)
{
    double start = sample->start > from ? sample->start : from;
    double end = sample->start + sample->length < to ? sample->start + sample->length : to;
    return end > start ? end - start : 0;
}

static int by_ms(const void *a, const void *b)
{
    const struct doing *left = a, *right = b;
    return (left->ms < right->ms) - (left->ms > right->ms);
}

/* What the thread did between the times, longest first. The caller frees it. */
static struct doing *collect_doings(const json_t *incident, size_t thread, double from, double to, size_t *count)
{
    const json_t *samples = json_object_get(incident, "samples"), *value;
    struct doing *doings = et_alloc(json_array_size(samples) + 1, sizeof *doings);
    size_t i;
    *count = 0;
    json_array_foreach(samples, i, value)
    {
        struct sample sample = sample_of(value);
        double ms = within(&sample, from, to);
        if (sample.thread != thread || !sample.kind || (ms <= 0 && sample.length > 0)) {
            continue;
        }
        size_t at = 0;
        while (at < *count && (doings[at].stack != sample.stack || strcmp(doings[at].kind, sample.kind) != 0)) {
            at++;
        }
        *count += at == *count;
        doings[at].stack = sample.stack;
        doings[at].kind = sample.kind;
        doings[at].ms += ms;
        doings[at].samples++;
    }
    qsort(doings, *count, sizeof *doings, by_ms);
    return doings;
}

static const char *function_of(const json_t *incident, json_int_t stack)
{
    const json_t *call = json_array_get(json_object_get(incident, "stacks"), (size_t)stack);
    const json_t *name =
        json_array_get(json_object_get(incident, "functions"), (size_t)json_integer_value(json_array_get(call, 1)));
    return json_string_value(name) ? json_string_value(name) : "?";
}

static json_int_t caller_of(const json_t *incident, json_int_t stack)
{
    return json_integer_value(json_array_get(json_array_get(json_object_get(incident, "stacks"), (size_t)stack), 0));
}

static void write_stack(const json_t *incident, json_int_t stack, struct et_buf *out)
{
    size_t depth = 0;
    for (; stack >= 0 && depth < FRAMES_SHOWN; stack = caller_of(incident, stack)) {
        et_buf_printf(out, "    #%-2zu %s\n", depth++, function_of(incident, stack));
    }
    if (stack >= 0) {
        et_buf_text(out, "    ...\n");
    }
}

static void write_doings(const json_t *incident, size_t thread, double from, double to, struct et_buf *out)
{
    size_t count;
    struct doing *doings = collect_doings(incident, thread, from, to, &count);
    for (size_t i = 0; i < count && i < STACKS_SHOWN; i++) {
        et_buf_printf(out, "  %9.1f ms  %s, %zu %s\n", doings[i].ms, doings[i].kind, doings[i].samples,
                      doings[i].samples == 1 ? "sample" : "samples");
        write_stack(incident, doings[i].stack, out);
    }
    if (count == 0) {
        et_buf_text(out, "  no sample: it neither used much CPU time nor waited for a millisecond\n");
    }
    if (count > STACKS_SHOWN) {
        et_buf_printf(out, "  and %zu more stacks\n", count - STACKS_SHOWN);
    }
    free(doings);
}

/* Pauses stop every thread, so none of these has a sample of them but the one that collected. */
static void write_pauses(const json_t *incident, double from, double to, struct et_buf *out)
{
    const json_t *samples = json_object_get(incident, "samples"), *value, *who = NULL;
    double ms = 0;
    size_t i, count = 0;
    json_array_foreach(samples, i, value)
    {
        struct sample sample = sample_of(value);
        if (sample.kind && strcmp(sample.kind, "gc") == 0 && within(&sample, from, to) > 0) {
            ms += within(&sample, from, to);
            count++;
            who = json_array_get(json_object_get(incident, "threads"), sample.thread);
        }
    }
    if (count) {
        et_buf_printf(out,
                      "\nthe garbage collector stopped all threads for %.1f ms of it, %zu %s, last by thread %.0f %s\n",
                      ms, count, count == 1 ? "pause" : "pauses", number_of(who, "tid"), et_json_words(who, "name"));
    }
}

static void write_thread_line(const json_t *incident, size_t thread, double from, double to, struct et_buf *out)
{
    const json_t *who = json_array_get(json_object_get(incident, "threads"), thread);
    size_t count;
    struct doing *doings = collect_doings(incident, thread, from, to, &count);
    double cpu = 0, wait = 0;
    for (size_t i = 0; i < count; i++) {
        cpu += strcmp(doings[i].kind, "cpu") == 0 ? doings[i].ms : 0;
        wait += strcmp(doings[i].kind, "wait") == 0 ? doings[i].ms : 0;
    }
    if (count) {
        et_buf_printf(out, "  %8.0f %-15s  cpu %9.1f ms  wait %9.1f ms  %s\n", number_of(who, "tid"),
                      et_json_words(who, "name"), cpu, wait,
                      doings[0].stack >= 0 ? function_of(incident, doings[0].stack) : "[no stack]");
    }
    free(doings);
}

/* Begin of what is shown first, in ms: of the span or pause, if it was one; else of the history. */
static double begin_of(const json_t *incident)
{
    const char *cause = et_json_words(incident, "cause");
    const json_t *first = json_array_get(json_object_get(incident, "samples"), 0);
    bool timed = strstr(cause, "span") || strcmp(cause, "gc") == 0 || strcmp(cause, "heartbeat") == 0;
    double begin = json_number_value(json_array_get(first, 0));
    return timed ? -number_of(incident, "value") / 1e6 : begin < 0 ? begin : 0;
}

/* False: the incident is about no thread, or has no sample of it. */
static bool find_thread(const json_t *incident, size_t *thread)
{
    const json_t *threads = json_object_get(incident, "threads");
    for (*thread = 0; *thread < json_array_size(threads); ++*thread) {
        double tid = number_of(json_array_get(threads, *thread), "tid");
        if (tid > 0 && tid == number_of(incident, "tid")) {
            return true;
        }
    }
    return false;
}

void et_incident_write(const json_t *incident, struct et_buf *out)
{
    double from = begin_of(incident), to = 0;
    size_t own = 0, threads = json_array_size(json_object_get(incident, "threads"));
    et_buf_printf(out, "incident %s  ", et_json_words(incident, "id"));
    et_incident_write_time(incident, out);
    et_buf_text(out, "\n");
    et_incident_write_trigger(incident, out);
    et_buf_printf(out, "\n%s pid %.0f on %s, %s\n", et_json_words(incident, "executable"), number_of(incident, "pid"),
                  et_incident_device(incident), et_json_words(incident, "service"));
    if (!json_is_true(json_object_get(incident, "complete"))) {
        et_buf_text(out, "incomplete: a part has not arrived\n");
    }
    if (number_of(incident, "suppressed") > 0) {
        et_buf_printf(out, "%.0f triggers before it led to no incident\n", number_of(incident, "suppressed"));
    }
    if (find_thread(incident, &own)) {
        const json_t *who = json_array_get(json_object_get(incident, "threads"), own);
        et_buf_printf(out, "\nthread %.0f %s, %.1f ms until the trigger:\n", number_of(who, "tid"),
                      et_json_words(who, "name"), -from);
        write_doings(incident, own, from, to, out);
    }
    write_pauses(incident, from, to, out);
    et_buf_printf(out, "\nall threads in the same time, and what each did longest:\n");
    for (size_t i = 0; i < threads; i++) {
        write_thread_line(incident, i, from, to, out);
    }
}
