/*
 * See incident.h: an incident for the Firefox Profiler, in the processed format, version 46
 * (https://github.com/firefox-devtools/profiler/blob/main/docs-developer/processed-profile-format.md). Its loader
 * upgrades older versions, so this one stays readable.
 *
 * There a sample lasts until the next one of its thread. So each of ours is two: one with its stack where it begins,
 * and one without a stack where it ends, unless the next begins there. Pauses, exceptions and the trigger are markers,
 * too.
 */
#include "tools/formats/incident.h"
#include "tools/lib/json_write.h"
#include "tools/lib/kinds.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { KIND_CPU = 1, KIND_WAIT = 2, KIND_EXCEPTION = 6, KIND_GC = 7, KIND_THREAD = 8 };
enum { OTHER, CPU, WAITING, RUNTIME };
#define MOMENT_NS 1000000 /* what has no length is shown this long */

struct export
{
    const struct et_incident *incident;
    struct et_calls calls;
    int64_t zero_ns; /* uptime at the begin of the profile */
    struct et_buf *out;
};

static double ms_of(const struct export *export, int64_t ns)
{
    return (double)(ns - export->zero_ns) / 1e6;
}

static int by_start(const void *a, const void *b)
{
    const struct et_incident_sample *left = a, *right = b;
    return (left->start_ns > right->start_ns) - (left->start_ns < right->start_ns);
}

/* A column of `count` equal values. */
static void put_equal(struct et_buf *out, const char *name, const char *value, size_t count)
{
    et_buf_printf(out, ",\"%s\":[", name);
    for (size_t i = 0; i < count; i++) {
        et_buf_printf(out, "%s%s", i ? "," : "", value);
    }
    et_buf_char(out, ']');
}

/* A column of a number of each call, at this offset of struct et_call; 0: not known. */
static void put_known(struct et_buf *out, const char *name, const struct et_calls *calls, size_t offset)
{
    et_buf_printf(out, ",\"%s\":[", name);
    for (size_t i = 0; i < calls->count; i++) {
        uint32_t number;
        memcpy(&number, (const char *)&calls->items[i] + offset, sizeof number);
        et_buf_text(out, i ? "," : "");
        if (number) {
            et_buf_printf(out, "%" PRIu32, number);
        } else {
            et_buf_text(out, "null");
        }
    }
    et_buf_char(out, ']');
}

/* ---- samples of a thread ---- */

struct shown {
    int64_t at_ns;
    int64_t call; /* -1: none */
};

/* The thread's samples one after the other: where they overlap, the earlier one gives way to the later. */
static size_t list_shown(const struct export *export, uint32_t thread, struct shown *shown)
{
    const struct et_incident *incident = export->incident;
    struct et_incident_sample *own = et_alloc(incident->count + 1, sizeof *own);
    size_t count = 0, made = 0;
    int64_t end = INT64_MIN;
    for (size_t i = 0; i < incident->count; i++) {
        if (incident->samples[i].thread == thread) {
            own[count++] = incident->samples[i];
        }
    }
    qsort(own, count, sizeof *own, by_start);
    for (size_t i = 0; i < count; i++) {
        int64_t start = own[i].start_ns > export->zero_ns ? own[i].start_ns : export->zero_ns;
        int64_t until = own[i].end_ns > start ? own[i].end_ns : start + MOMENT_NS;
        if (made && end < start) {
            shown[made++] = (struct shown){end, -1};
        }
        start = made && start < shown[made - 1].at_ns ? shown[made - 1].at_ns : start;
        shown[made++] = (struct shown){start, (int64_t) export->calls.of_node[own[i].node] - 1};
        end = until > end ? until : end;
    }
    if (made) {
        shown[made++] = (struct shown){end, -1};
    }
    free(own);
    return made;
}

static void put_samples(const struct export *export, uint32_t thread)
{
    struct shown *shown = et_alloc(2 * export->incident->count + 2, sizeof *shown);
    size_t count = list_shown(export, thread, shown);
    et_buf_text(export->out, ",\"samples\":{\"weightType\":\"samples\",\"weight\":null,\"stack\":[");
    for (size_t i = 0; i < count; i++) {
        et_buf_text(export->out, i ? "," : "");
        if (shown[i].call < 0) {
            et_buf_text(export->out, "null");
        } else {
            et_buf_printf(export->out, "%" PRId64, shown[i].call);
        }
    }
    et_buf_text(export->out, "],\"time\":[");
    for (size_t i = 0; i < count; i++) {
        et_buf_printf(export->out, "%s%.3f", i ? "," : "", ms_of(export, shown[i].at_ns));
    }
    et_buf_printf(export->out, "],\"length\":%zu}", count);
    free(shown);
}

/* ---- markers ---- */

struct markers {
    struct et_buf data, names, starts, ends, phases, categories;
    size_t count;
};

/* name: a place in the thread's strings. */
static void add_marker(struct markers *markers, const struct export *export, size_t name, int64_t start, int64_t end,
                       int category)
{
    const char *between = markers->count++ ? "," : "";
    et_buf_printf(&markers->data, "%snull", between);
    et_buf_printf(&markers->names, "%s%zu", between, name);
    et_buf_printf(&markers->starts, "%s%.3f", between, ms_of(export, start));
    if (end > start) {
        et_buf_printf(&markers->ends, "%s%.3f", between, ms_of(export, end));
    } else {
        et_buf_printf(&markers->ends, "%snull", between);
    }
    et_buf_printf(&markers->phases, "%s%d", between, end > start ? 1 : 0);
    et_buf_printf(&markers->categories, "%s%d", between, category);
}

/* Strings behind the names of functions. */
enum { NAME_TRIGGER, NAME_GC, NAME_EXCEPTION, NAME_DUMP, NAMES };

static void put_markers(const struct export *export, uint32_t thread, bool main)
{
    const struct et_incident *incident = export->incident;
    const Edgeprof__V1__Timeline *told = incident->head->timeline;
    size_t names = export->calls.names.count;
    struct markers markers = {0};
    for (size_t i = 0; i < incident->count; i++) {
        const struct et_incident_sample *sample = &incident->samples[i];
        if (sample->thread != thread) {
            continue;
        }
        if (sample->kind == KIND_GC) {
            add_marker(&markers, export, names + NAME_GC, sample->start_ns, sample->end_ns, RUNTIME);
        } else if (sample->kind == KIND_EXCEPTION || sample->kind == KIND_THREAD) {
            add_marker(&markers, export, names + (sample->kind == KIND_THREAD ? NAME_DUMP : NAME_EXCEPTION),
                       sample->end_ns, sample->end_ns, RUNTIME);
        }
    }
    if (main) {
        bool timed = told->cause >= EDGEPROF__V1__INCIDENT_CAUSE__INCIDENT_SPAN &&
                     told->cause <= EDGEPROF__V1__INCIDENT_CAUSE__INCIDENT_HEARTBEAT;
        int64_t end = (int64_t)told->time_ns, start = end - (timed ? (int64_t)told->value : 0);
        add_marker(&markers, export, names + NAME_TRIGGER, start, end, OTHER);
    }
    et_buf_printf(export->out,
                  ",\"markers\":{\"data\":[%s],\"name\":[%s],\"startTime\":[%s],\"endTime\":[%s],\"phase\":[%s],"
                  "\"category\":[%s],\"length\":%zu}",
                  markers.data.data ? markers.data.data : "", markers.names.data ? markers.names.data : "",
                  markers.starts.data ? markers.starts.data : "", markers.ends.data ? markers.ends.data : "",
                  markers.phases.data ? markers.phases.data : "",
                  markers.categories.data ? markers.categories.data : "", markers.count);
    struct et_buf *all[] = {&markers.data, &markers.names,  &markers.starts,
                            &markers.ends, &markers.phases, &markers.categories};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        et_buf_free(all[i]);
    }
}

/* ---- tables ---- */

/* By the frame at the leaf: "[lock]" and the like are waits. */
static int category_of(const char *function)
{
    return strncmp(function, "[gc", 3) == 0 ? RUNTIME : function[0] == '[' ? WAITING : CPU;
}

/* One function and one frame for each call. */
static void put_tables(const struct export *export)
{
    const struct et_calls *calls = &export->calls;
    struct et_buf *out = export->out;
    size_t count = calls->count;
    et_buf_text(out, ",\"stackTable\":{\"frame\":[");
    for (size_t i = 0; i < count; i++) {
        et_buf_printf(out, "%s%zu", i ? "," : "", i);
    }
    et_buf_text(out, "],\"prefix\":[");
    for (size_t i = 0; i < count; i++) {
        et_buf_text(out, i ? "," : "");
        if (calls->items[i].caller) {
            et_buf_printf(out, "%" PRIu32, calls->items[i].caller - 1);
        } else {
            et_buf_text(out, "null");
        }
    }
    et_buf_text(out, "],\"category\":[");
    for (size_t i = 0; i < count; i++) {
        et_buf_printf(out, "%s%d", i ? "," : "", category_of(et_text(&calls->names, calls->items[i].function)));
    }
    et_buf_char(out, ']');
    put_equal(out, "subcategory", "0", count);
    et_buf_printf(out, ",\"length\":%zu},\"frameTable\":{\"length\":%zu", count, count);
    put_equal(out, "address", "-1", count);
    put_equal(out, "inlineDepth", "0", count);
    put_equal(out, "category", "null", count);
    put_equal(out, "subcategory", "null", count);
    et_buf_text(out, ",\"func\":[");
    for (size_t i = 0; i < count; i++) {
        et_buf_printf(out, "%s%zu", i ? "," : "", i);
    }
    et_buf_char(out, ']');
    put_equal(out, "nativeSymbol", "null", count);
    put_equal(out, "innerWindowID", "null", count);
    put_equal(out, "implementation", "null", count);
    put_known(out, "line", calls, offsetof(struct et_call, line));
    put_equal(out, "column", "null", count);
    put_equal(out, "optimizations", "null", count);
    et_buf_printf(out, "},\"funcTable\":{\"length\":%zu,\"name\":[", count);
    for (size_t i = 0; i < count; i++) {
        et_buf_printf(out, "%s%" PRIu32, i ? "," : "", calls->items[i].function);
    }
    et_buf_char(out, ']');
    put_equal(out, "isJS", "false", count);
    put_equal(out, "relevantForJS", "false", count);
    put_equal(out, "resource", "-1", count);
    put_known(out, "fileName", calls, offsetof(struct et_call, file));
    put_equal(out, "lineNumber", "null", count);
    put_equal(out, "columnNumber", "null", count);
    et_buf_text(out,
                "},\"resourceTable\":{\"length\":0,\"lib\":[],\"name\":[],\"host\":[],\"type\":[]}"
                ",\"nativeSymbols\":{\"length\":0,\"libIndex\":[],\"address\":[],\"name\":[],\"functionSize\":[]}");
}

static void put_strings(const struct export *export)
{
    const Edgeprof__V1__Timeline *told = export->incident->head->timeline;
    struct et_buf trigger = {0};
    et_buf_text(export->out, ",\"stringArray\":[");
    for (size_t i = 0; i < export->calls.names.count; i++) {
        et_json_string(export->out, et_text(&export->calls.names, (uint32_t)i));
        et_buf_char(export->out, ',');
    }
    et_buf_printf(&trigger, "trigger: %s %s", et_incident_cause((int)told->cause), told->name);
    char *clean = et_clean(trigger.data, trigger.size);
    et_json_string(export->out, clean);
    et_buf_text(export->out, ",\"GC pause\",\"exception\",\"stack at the trigger\"]");
    free(clean);
    et_buf_free(&trigger);
}

static void put_thread(const struct export *export, uint32_t thread)
{
    const struct et_incident *incident = export->incident;
    const uint32_t tid = incident->threads[thread].tid, of = incident->head->timeline->tid;
    const bool main = tid == of || (!of && thread == 0);
    et_buf_printf(export->out, "%s{\"processType\":\"default\",\"processName\":", thread ? ",\n" : "\n");
    et_json_string(export->out, incident->head->origin->executable);
    et_buf_text(export->out, ",\"processStartupTime\":0,\"processShutdownTime\":null,\"registerTime\":0,"
                             "\"unregisterTime\":null,\"pausedRanges\":[],\"name\":");
    et_json_string(export->out, incident->threads[thread].name);
    et_buf_printf(export->out, ",\"isMainThread\":%s,\"pid\":\"%" PRIu32 "\",\"tid\":%" PRIu32, main ? "true" : "false",
                  incident->head->origin->pid, tid);
    put_samples(export, thread);
    put_markers(export, thread, main);
    put_tables(export);
    put_strings(export);
    et_buf_char(export->out, '}');
}

static void put_meta(const struct export *export)
{
    const et_message *head = export->incident->head;
    struct et_buf *out = export->out;
    et_buf_printf(out,
                  "{\"meta\":{\"version\":24,\"preprocessedProfileVersion\":46,\"interval\":%.3f,\"startTime\":%.3f",
                  head->timeline->period_ns ? (double)head->timeline->period_ns / 1e6 : 1.0,
                  head->unix_minus_uptime_ns ? (double)(export->zero_ns + (int64_t)head->unix_minus_uptime_ns) / 1e6
                                             : (double)export->incident->received_ns / 1e6);
    et_buf_text(out, ",\"processType\":0,\"product\":");
    et_json_string(out, head->origin->service);
    et_buf_text(out, ",\"abi\":");
    et_json_string(out, head->origin->arch);
    et_buf_text(out,
                ",\"importedFrom\":\"edgeprof\",\"debug\":false,\"stackwalk\":1,\"symbolicated\":true,"
                "\"usesOnlyOneStackType\":true,\"doesNotUseFrameImplementation\":true,"
                "\"sourceCodeIsNotOnSearchfox\":true,\"pausedRanges\":[],\"markerSchema\":[],"
                "\"extensions\":{\"length\":0,\"baseURL\":[],\"id\":[],\"name\":[]},"
                "\"sampleUnits\":{\"time\":\"ms\",\"eventDelay\":\"ms\",\"threadCPUDelta\":\"ns\"},\"categories\":["
                "{\"name\":\"Other\",\"color\":\"grey\",\"subcategories\":[\"Other\"]},"
                "{\"name\":\"CPU\",\"color\":\"yellow\",\"subcategories\":[\"Other\"]},"
                "{\"name\":\"Waiting\",\"color\":\"blue\",\"subcategories\":[\"Other\"]},"
                "{\"name\":\"Runtime\",\"color\":\"orange\",\"subcategories\":[\"Other\"]}]}");
}

void et_incident_firefox(const struct et_incident *incident, struct et_buf *out)
{
    struct export export = {.incident = incident, .zero_ns = (int64_t)incident->head->timeline->time_ns, .out = out};
    for (size_t i = 0; i < incident->count; i++) {
        export.zero_ns =
            incident->samples[i].start_ns < export.zero_ns ? incident->samples[i].start_ns : export.zero_ns;
    }
    et_calls_make(incident->profile, &export.calls);
    put_meta(&export);
    et_buf_text(out, ",\"libs\":[],\"pages\":[],\"threads\":[");
    for (size_t i = 0; i < incident->thread_count; i++) {
        put_thread(&export, (uint32_t)i);
    }
    et_buf_text(out, "]}\n");
    et_calls_free(&export.calls);
}
