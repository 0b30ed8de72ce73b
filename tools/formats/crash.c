/* See crash.h. */
#include "tools/formats/crash.h"
#include "tools/formats/crash_name.h"
#include "tools/lib/json_read.h"
#include "tools/formats/whole_message.h"
#include "tools/lib/json_write.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIGNIFICANT = 5 };

static void signal_name(uint32_t number, char name[24])
{
    static const struct {
        uint32_t number;
        const char *name;
    } names[] = {{4, "SIGILL"}, {5, "SIGTRAP"}, {6, "SIGABRT"}, {7, "SIGBUS"}, {8, "SIGFPE"}, {11, "SIGSEGV"}};
    snprintf(name, 24, "signal %" PRIu32, number);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (names[i].number == number) {
            snprintf(name, 24, "%s", names[i].name);
        }
    }
}

/* ---- adding ---- */

static void crash_free(struct et_crash *crash)
{
    for (size_t i = 0; i < crash->message->crash->n_threads; i++) {
        free(crash->frames[i]);
    }
    free(crash->frames);
    free(crash->depths);
    free(crash->service);
    free(crash->host);
    free(crash->reason);
    et_message_free(crash->message);
}

void et_crashes_free(struct et_crashes *crashes)
{
    for (size_t i = 0; i < crashes->count; i++) {
        crash_free(&crashes->items[i]);
    }
    free(crashes->items);
    if (crashes->profile) {
        et_profile_free(crashes->profile);
    }
    *crashes = (struct et_crashes){0};
}

static void add_stack(struct et_crash *crash, size_t thread, const struct et_whole *whole)
{
    uint32_t leaf = crash->message->crash->threads[thread]->node;
    size_t depth = 0;
    for (uint32_t node = leaf; node; node = whole->nodes[node - 1].parent) {
        depth++;
    }
    crash->frames[thread] = et_alloc(depth + 1, sizeof **crash->frames);
    crash->depths[thread] = depth;
    depth = 0;
    for (uint32_t node = leaf; node; node = whole->nodes[node - 1].parent) {
        crash->frames[thread][depth++] = whole->frames[node - 1];
    }
}

static void add_crash(struct et_crashes *crashes, et_message *message, const struct et_whole *whole,
                      int64_t received_ns)
{
    const Edgeprof__V1__Crash *told = message->crash;
    struct et_crash crash = {
        .message = message,
        .service = et_strdup(message->origin->service),
        .host = et_strdup(message->origin->host),
        .at_ns = told->unix_ns && told->unix_ns < INT64_MAX / 2 ? (int64_t)told->unix_ns : received_ns,
        .frames = et_alloc(told->n_threads + 1, sizeof *crash.frames),
        .depths = et_alloc(told->n_threads + 1, sizeof *crash.depths),
    };
    for (size_t i = 0; i < told->n_threads; i++) {
        add_stack(&crash, i, whole);
        crashes->frame_count += crash.depths[i];
    }
    crashes->items = et_reserve(crashes->items, &crashes->capacity, crashes->count + 1, sizeof *crashes->items);
    crashes->items[crashes->count++] = crash;
}

/* When the run began that crashed: its files without build id may have been replaced since. */
static int64_t began(const Edgeprof__V1__Crash *told, int64_t at_ns)
{
    bool known = told->cause != EDGEPROF__V1__CRASH_CAUSE__CRASH_UNCLEAN && told->time_ns > told->start_ns;
    uint64_t ran_ns = known ? told->time_ns - told->start_ns : 0;
    return ran_ns < (uint64_t)at_ns ? at_ns - (int64_t)ran_ns : at_ns;
}

bool et_crashes_add(struct et_crashes *crashes, et_message *message, int64_t received_ns, const char **why)
{
    struct et_whole whole;
    if (!et_whole_read(message, &crashes->profile, &whole, why)) {
        et_message_free(message);
        return false;
    }
    add_crash(crashes, message, &whole, received_ns);
    int64_t began_ns = began(message->crash, crashes->items[crashes->count - 1].at_ns);
    int64_t *start_ns = &crashes->profile->start_ns;
    *start_ns = crashes->count == 1 || began_ns < *start_ns ? began_ns : *start_ns;
    et_whole_free(&whole);
    return true;
}

/* ---- what happened ---- */

/* The runtime's JSON; NULL: none. json_decref() it. */
static json_t *runtime_of(const struct et_crash *crash)
{
    const ProtobufCBinaryData *text = &crash->message->crash->runtime;
    struct et_buf why = {0};
    json_t *json = text->len ? et_json_read((const char *)text->data, text->len, &why) : NULL;
    et_buf_free(&why);
    return json;
}

static char *reason_of(const struct et_crash *crash)
{
    const Edgeprof__V1__Crash *told = crash->message->crash;
    char name[24];
    signal_name(told->signal, name);
    json_t *runtime = runtime_of(crash);
    const char *type = runtime ? et_json_words(json_object_get(runtime, "exception"), "type") : "";
    char *reason;
    if (told->cause == EDGEPROF__V1__CRASH_CAUSE__CRASH_SIGNAL) {
        reason = *type ? et_clean(type, strlen(type)) : et_strdup(runtime ? ".NET FailFast" : name);
    } else if (told->cause != EDGEPROF__V1__CRASH_CAUSE__CRASH_UNCLEAN) {
        reason = et_strdup("unknown end");
    } else if (told->signal) {
        reason = et_strdup(name);
    } else {
        reason = et_strdup(told->rebooted ? "power loss or restart of the device"
                                          : "killed, out of memory or stack overflow");
    }
    json_decref(runtime);
    return reason;
}

/* The innermost line of a frame. */
struct first_line {
    char *text;
};

static void take_line(void *context, const char *function, const char *file, uint32_t line)
{
    struct first_line *first = context;
    (void)file;
    (void)line;
    if (!first->text) {
        first->text = et_strdup(function);
    }
}

static char *name_of(const struct et_crashes *crashes, uint32_t frame)
{
    struct first_line first = {0};
    et_profile_lines(crashes->profile, &crashes->profile->frames[frame], false, take_line, &first);
    return first.text ? first.text : et_strdup("?");
}

/* Functions that only end the process say nothing about the fault. */
static bool is_end(const char *name)
{
    static const char *const names[] = {"abort",
                                        "raise",
                                        "gsignal",
                                        "__GI_abort",
                                        "__GI_raise",
                                        "pthread_kill",
                                        "__pthread_kill",
                                        "__pthread_kill_implementation",
                                        "__pthread_kill_internal",
                                        "SystemNative_Abort",
                                        "PalRaiseFailFastException",
                                        "RhFailFast",
                                        "__assert_fail",
                                        "__assert_fail_base"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(name, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

static uint64_t hash_on(uint64_t hash, const char *text)
{
    for (const char *at = text;; at++) {
        hash = (hash ^ (unsigned char)*at) * 0x100000001b3u;
        if (!*at) {
            return hash;
        }
    }
}

static void fingerprint(const struct et_crashes *crashes, struct et_crash *crash)
{
    uint64_t hash = hash_on(hash_on(0xcbf29ce484222325u, crash->service), crash->reason);
    size_t taken = 0, depth = crash->message->crash->n_threads ? crash->depths[0] : 0;
    for (size_t i = 0; i < depth && taken < SIGNIFICANT; i++) {
        char *name = name_of(crashes, crash->frames[0][i]);
        if (taken || !is_end(name)) {
            hash = hash_on(hash, name);
            taken++;
        }
        free(name);
    }
    snprintf(crash->fingerprint, sizeof crash->fingerprint, "%016" PRIx64, hash);
}

/* ---- groups ---- */

static int by_group(const void *a, const void *b)
{
    const struct et_crash *left = a, *right = b;
    int order = strcmp(left->fingerprint, right->fingerprint);
    return order ? order : (left->at_ns < right->at_ns) - (left->at_ns > right->at_ns);
}

static size_t group_end(const struct et_crashes *crashes, size_t first)
{
    size_t end = first + 1;
    while (end < crashes->count && strcmp(crashes->items[end].fingerprint, crashes->items[first].fingerprint) == 0) {
        end++;
    }
    return end;
}

/* Groups become adjacent; then the group with the latest crash is moved to the front, and so on. */
void et_crashes_group(struct et_crashes *crashes)
{
    for (size_t i = 0; i < crashes->count; i++) {
        free(crashes->items[i].reason);
        crashes->items[i].reason = reason_of(&crashes->items[i]);
        fingerprint(crashes, &crashes->items[i]);
    }
    if (crashes->count == 0) {
        return;
    }
    qsort(crashes->items, crashes->count, sizeof *crashes->items, by_group);
    struct et_crash *sorted = et_alloc(crashes->count, sizeof *sorted);
    bool *done = et_alloc(crashes->count, sizeof *done);
    for (size_t placed = 0; placed < crashes->count;) {
        size_t best = crashes->count;
        for (size_t i = 0; i < crashes->count; i = group_end(crashes, i)) {
            if (!done[i] && (best == crashes->count || crashes->items[i].at_ns > crashes->items[best].at_ns)) {
                best = i;
            }
        }
        size_t size = group_end(crashes, best) - best;
        memcpy(sorted + placed, crashes->items + best, size * sizeof *sorted);
        done[best] = true;
        placed += size;
    }
    free(done);
    free(crashes->items);
    crashes->items = sorted;
    crashes->capacity = crashes->count;
}

/* ---- JSON ---- */

struct frame_lines {
    struct et_buf *out;
    bool more, inlined;
};

static void json_line(void *context, const char *function, const char *file, uint32_t line)
{
    struct frame_lines *frame = context;
    et_buf_text(frame->out, frame->more ? ",{\"function\":" : "{\"function\":");
    et_json_string(frame->out, function);
    if (file[0]) {
        et_buf_text(frame->out, ",\"file\":");
        et_json_string(frame->out, file);
        et_buf_printf(frame->out, ",\"line\":%" PRIu32, line);
    }
    et_buf_text(frame->out, frame->inlined ? ",\"caller\":true}" : "}");
    frame->more = frame->inlined = true;
}

static void json_thread(const struct et_crashes *crashes, const struct et_crash *crash, size_t thread,
                        struct et_buf *out)
{
    const Edgeprof__V1__CrashThread *told = crash->message->crash->threads[thread];
    char *name = et_clean(told->name, strlen(told->name));
    et_buf_printf(out, "%s{\"tid\":%" PRIu32 ",\"name\":", thread ? "," : "", told->tid);
    et_json_string(out, name);
    et_buf_text(out, ",\"frames\":[");
    struct frame_lines lines = {.out = out};
    for (size_t i = 0; i < crash->depths[thread]; i++) {
        lines.inlined = false;
        et_profile_lines(crashes->profile, &crashes->profile->frames[crash->frames[thread][i]], false, json_line,
                         &lines);
    }
    et_buf_text(out, "]}");
    free(name);
}

struct own_function {
    char *first, *own; /* NULL: none yet */
};

static void take_function(void *context, const char *function, const char *file, uint32_t line)
{
    struct own_function *found = context;
    (void)file, (void)line;
    found->first = found->first ? found->first : et_strdup(function);
    found->own = found->own || et_crash_is_ending(function) ? found->own : et_strdup(function);
}

/* The innermost function of the crashed thread that says something about this crash. */
static void json_function(const struct et_crashes *crashes, const struct et_crash *crash, struct et_buf *out)
{
    struct own_function found = {0};
    size_t depth = crash->message->crash->n_threads ? crash->depths[0] : 0;
    for (size_t i = 0; i < depth && !found.own; i++) {
        et_profile_lines(crashes->profile, &crashes->profile->frames[crash->frames[0][i]], false, take_function,
                         &found);
    }
    et_buf_text(out, ",\"function\":");
    et_json_string(out, found.own ? found.own : found.first ? found.first : "");
    free(found.first);
    free(found.own);
}

static void json_numbers(const Edgeprof__V1__Crash *told, struct et_buf *out)
{
    const struct {
        const char *name;
        uint64_t value;
    } addresses[] = {
        {"address", told->address}, {"pc", told->pc}, {"sp", told->sp}, {"fp", told->fp}, {"lr", told->lr}};
    et_buf_printf(out,
                  ",\"pid\":%" PRIu32 ",\"signal\":%" PRIu32 ",\"code\":%d,\"sender\":%" PRIu32 ",\"missed\":%" PRIu32
                  ",\"faults\":%" PRIu32,
                  told->pid, told->signal, told->code, told->sender, told->missed, told->faults);
    for (size_t i = 0; i < sizeof addresses / sizeof *addresses; i++) {
        et_buf_printf(out, ",\"%s\":\"0x%" PRIx64 "\"", addresses[i].name, addresses[i].value);
    }
    et_buf_text(out, ",\"registers\":[");
    for (size_t i = 0; i < told->n_registers; i++) {
        et_buf_printf(out, "%s\"0x%" PRIx64 "\"", i ? "," : "", told->registers[i]);
    }
    et_buf_printf(out, "],\"ran\":%.3f",
                  told->time_ns > told->start_ns ? (double)(told->time_ns - told->start_ns) / 1e9 : 0.0);
}

static void json_crash(const struct et_crashes *crashes, const struct et_crash *crash, struct et_buf *out)
{
    const Edgeprof__V1__Crash *told = crash->message->crash;
    char signal[24];
    et_buf_printf(out, "{\"id\":\"%016" PRIx64 "\",\"recorded\":%s,\"time\":", crash->message->segment,
                  told->cause == EDGEPROF__V1__CRASH_CAUSE__CRASH_SIGNAL ? "true" : "false");
    et_json_seconds(out, crash->at_ns);
    signal_name(told->signal, signal);
    et_json_clean_field(out, "signal_name", signal);
    et_json_clean_field(out, "host", crash->host);
    et_buf_text(out, ",\"tags\":");
    et_json_tags(out, crash->message->origin);
    et_json_clean_field(out, "executable", told->executable);
    json_numbers(told, out);
    json_t *runtime = runtime_of(crash);
    const json_t *exception = runtime ? json_object_get(runtime, "exception") : NULL;
    et_json_clean_field(out, "message", runtime ? et_json_words(exception ? exception : runtime, "message") : "");
    json_decref(runtime);
    json_function(crashes, crash, out);
    et_buf_text(out, ",\"threads\":[");
    for (size_t i = 0; i < told->n_threads; i++) {
        json_thread(crashes, crash, i, out);
    }
    et_buf_text(out, "]}");
}

void et_crashes_json(const struct et_crashes *crashes, struct et_buf *out)
{
    et_buf_printf(out, "{\"names_pending\":%" PRIu64 ",\"groups\":[",
                  crashes->count ? crashes->profile->names_pending : 0);
    for (size_t first = 0, end; first < crashes->count; first = end) {
        end = group_end(crashes, first);
        et_buf_printf(out, "%s{\"fingerprint\":\"%s\",\"service\":", first ? ",\n" : "\n",
                      crashes->items[first].fingerprint);
        et_json_string(out, crashes->items[first].service);
        et_json_clean_field(out, "reason", crashes->items[first].reason);
        et_buf_printf(out, ",\"count\":%zu,\"crashes\":[", end - first);
        for (size_t i = first; i < end; i++) {
            et_buf_text(out, i > first ? "," : "");
            json_crash(crashes, &crashes->items[i], out);
        }
        et_buf_text(out, "]}");
    }
    et_buf_text(out, "]}\n");
}
