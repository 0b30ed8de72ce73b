/*
 * See incident.h: an incident for the Firefox Profiler, in the processed format, version 46
 * (https://github.com/firefox-devtools/profiler/blob/main/docs-developer/processed-profile-format.md). Its loader
 * upgrades older versions, so this one stays readable.
 *
 * firefox_samples.c has the samples of a thread. Pauses, exceptions and the trigger are markers, too.
 */
#include "tools/formats/firefox.h"
#include "tools/lib/json_write.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { KIND_EXCEPTION = 6, KIND_GC = 7, KIND_THREAD = 8 };

struct export
{
    const struct et_incident *incident;
    struct et_calls calls;
    uint8_t *categories; /* of each call */
    int64_t zero_ns;     /* uptime at the begin of the profile */
    struct et_buf *out;
};

static double ms_of(const struct export *export, int64_t ns)
{
    return (double)(ns - export->zero_ns) / 1e6;
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
            add_marker(&markers, export, names + NAME_GC, sample->start_ns, sample->end_ns, ET_FIREFOX_GC);
        } else if (sample->kind == KIND_EXCEPTION) {
            add_marker(&markers, export, names + NAME_EXCEPTION, sample->end_ns, sample->end_ns, ET_FIREFOX_EXCEPTION);
        } else if (sample->kind == KIND_THREAD) {
            add_marker(&markers, export, names + NAME_DUMP, sample->end_ns, sample->end_ns, ET_FIREFOX_OTHER);
        }
    }
    if (main) {
        bool timed = told->cause >= EDGEPROF__V1__INCIDENT_CAUSE__INCIDENT_SPAN &&
                     told->cause <= EDGEPROF__V1__INCIDENT_CAUSE__INCIDENT_HEARTBEAT;
        int64_t end = (int64_t)told->time_ns, start = end - (timed ? (int64_t)told->value : 0);
        add_marker(&markers, export, names + NAME_TRIGGER, start, end, ET_FIREFOX_OTHER);
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

static void put_category_column(const struct export *export)
{
    et_buf_text(export->out, ",\"category\":[");
    for (size_t i = 0; i < export->calls.count; i++) {
        et_buf_printf(export->out, "%s%u", i ? "," : "", export->categories[i]);
    }
    et_buf_char(export->out, ']');
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
    et_buf_char(out, ']');
    put_category_column(export);
    put_equal(out, "subcategory", "0", count);
    et_buf_printf(out, ",\"length\":%zu},\"frameTable\":{\"length\":%zu", count, count);
    put_equal(out, "address", "-1", count);
    put_equal(out, "inlineDepth", "0", count);
    put_category_column(export);
    put_equal(out, "subcategory", "0", count);
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
    et_firefox_put_samples(incident, &export->calls, thread, export->zero_ns, export->out);
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
                "\"sampleUnits\":{\"time\":\"ms\",\"eventDelay\":\"ms\",\"threadCPUDelta\":\"ns\"},\"categories\":");
    et_firefox_put_categories(out);
    et_buf_char(out, '}');
}

void et_incident_firefox(const struct et_incident *incident, struct et_buf *out)
{
    struct export export = {.incident = incident, .zero_ns = (int64_t)incident->head->timeline->time_ns, .out = out};
    for (size_t i = 0; i < incident->count; i++) {
        export.zero_ns =
            incident->samples[i].start_ns < export.zero_ns ? incident->samples[i].start_ns : export.zero_ns;
    }
    et_calls_make(incident->profile, &export.calls);
    export.categories = et_firefox_categories(incident, &export.calls);
    put_meta(&export);
    et_buf_text(out, ",\"libs\":[],\"pages\":[],\"threads\":[");
    for (size_t i = 0; i < incident->thread_count; i++) {
        put_thread(&export, (uint32_t)i);
    }
    et_buf_text(out, "]}\n");
    free(export.categories);
    et_calls_free(&export.calls);
}
