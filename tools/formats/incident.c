/* See incident.h. */
#include "tools/formats/incident.h"
#include "tools/formats/whole_message.h"
#include "tools/lib/hash.h"
#include "tools/lib/json_write.h"
#include "tools/lib/kinds.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { TICK_SHIFT = 20, DURATION_SHIFT = 16, KIND_BITS = 4, KIND_MASK = 15, KIND_CPU = 1, KIND_THREAD = 8 };

void et_incident_free(struct et_incident *incident)
{
    for (size_t i = 0; i < incident->thread_count; i++) {
        free(incident->threads[i].name);
    }
    free(incident->threads);
    free(incident->samples);
    if (incident->profile) {
        et_profile_free(incident->profile);
    }
    if (incident->head) {
        et_message_free(incident->head);
    }
    *incident = (struct et_incident){0};
}

const char *et_incident_cause(int cause)
{
    static const char *const names[] = {"unknown", "call",      "control", "span",   "open span",
                                        "gc",      "heartbeat", "cpu",     "memory", "exceptions"};
    return cause > 0 && cause < (int)(sizeof names / sizeof *names) ? names[cause] : names[0];
}

/* ---- adding ---- */

/* Nodes of the profile for those of the message. [0]: the root. */
static uint32_t *add_nodes(struct et_profile *profile, const struct et_whole *whole)
{
    uint32_t *made = et_alloc(whole->count + 1, sizeof *made);
    for (size_t i = 0; i < whole->count; i++) {
        made[i + 1] = et_profile_node(profile, made[whole->nodes[i].parent], whole->frames[i]);
    }
    return made;
}

static uint32_t add_thread(struct et_incident *incident, const Edgeprof__V1__TimelineThread *told)
{
    for (size_t i = 0; i < incident->thread_count; i++) {
        if (incident->threads[i].tid == told->tid) {
            return (uint32_t)i;
        }
    }
    incident->threads = et_reserve(incident->threads, &incident->thread_capacity, incident->thread_count + 1,
                                   sizeof *incident->threads);
    incident->threads[incident->thread_count].tid = told->tid;
    incident->threads[incident->thread_count].name = et_clean(told->name, strlen(told->name));
    return (uint32_t)incident->thread_count++;
}

static void add_samples(struct et_incident *incident, const Edgeprof__V1__Timeline *told, const uint32_t *nodes)
{
    uint32_t *threads = et_alloc(told->n_threads + 1, sizeof *threads);
    uint64_t last[KIND_MASK + 1] = {0}, tick = told->start;
    for (size_t i = 0; i < told->n_threads; i++) {
        threads[i] = add_thread(incident, told->threads[i]);
    }
    incident->samples =
        et_reserve(incident->samples, &incident->capacity, incident->count + told->n_after, sizeof *incident->samples);
    for (size_t i = 0; i < told->n_after; i++) {
        uint32_t kind = told->what[i] & KIND_MASK;
        tick += told->after[i];
        last[kind] = told->duration[i] ? told->duration[i] : last[kind];
        int64_t end = (int64_t)(tick << TICK_SHIFT), length = (int64_t)(last[kind] << DURATION_SHIFT);
        incident->samples[incident->count++] =
            (struct et_incident_sample){.start_ns = kind == KIND_THREAD ? end : end - length,
                                        .end_ns = end,
                                        .thread = threads[told->what[i] >> KIND_BITS],
                                        .kind = kind,
                                        .node = nodes[told->node[i]]};
    }
    free(threads);
}

bool et_incident_add(struct et_incident *incident, et_message *message, int64_t received_ns, const char **why)
{
    struct et_whole whole;
    if (!et_whole_read(message, &incident->profile, &whole, why)) {
        et_message_free(message);
        return false;
    }
    uint32_t *made = add_nodes(incident->profile, &whole);
    add_samples(incident, message->timeline, made);
    free(made);
    et_whole_free(&whole);
    incident->parts++;
    incident->complete = !message->timeline->more && message->timeline->part + 1 == incident->parts;
    if (incident->head) {
        et_message_free(message);
    } else {
        incident->head = message;
        incident->received_ns = received_ns;
        uint64_t began = message->origin ? message->origin->process_start_ns : 0,
                 offset = message->unix_minus_uptime_ns;
        bool known = began && offset && began < (uint64_t)received_ns && offset < (uint64_t)received_ns - began;
        incident->profile->start_ns = known ? (int64_t)(offset + began) : received_ns;
    }
    return true;
}

/* ---- calls ---- */

struct lines {
    struct et_calls *calls;
    struct et_call of_frame[64]; /* innermost first */
    size_t count;
};

static void take_line(void *context, const char *function, const char *file, uint32_t line)
{
    struct lines *lines = context;
    if (lines->count < sizeof lines->of_frame / sizeof *lines->of_frame) {
        lines->of_frame[lines->count++] = (struct et_call){.function = et_intern(&lines->calls->names, function),
                                                           .file = et_intern(&lines->calls->names, file),
                                                           .line = line};
    }
}

/* Two parts of an incident, and different addresses in a line, have nodes of one name: they become one call. */
static uint32_t call_find(struct et_calls *calls, struct et_map *known, const struct et_call *call)
{
    uint64_t key = et_hash_pair((uint64_t)call->caller << 32 | call->function, (uint64_t)call->file << 32 | call->line);
    for (uint64_t *found; (found = et_map_find(known, key)) != NULL; key++) {
        if (memcmp(&calls->items[*found - 1], call, sizeof *call) == 0) {
            return (uint32_t)*found;
        }
    }
    calls->items = et_reserve(calls->items, &calls->capacity, calls->count + 1, sizeof *calls->items);
    calls->items[calls->count++] = *call;
    *et_map_at(known, key) = calls->count;
    return (uint32_t)calls->count;
}

void et_calls_make(const struct et_profile *profile, struct et_calls *calls)
{
    struct et_map known = {0};
    *calls = (struct et_calls){.of_node = et_alloc(profile->node_count + 1, sizeof *calls->of_node)};
    et_intern(&calls->names, "");
    for (size_t node = 1; node < profile->node_count; node++) {
        struct lines lines = {.calls = calls};
        uint32_t at = calls->of_node[profile->nodes[node].parent];
        et_profile_lines(profile, &profile->frames[profile->nodes[node].frame], false, take_line, &lines);
        while (lines.count) {
            struct et_call *call = &lines.of_frame[--lines.count];
            call->caller = at;
            at = call_find(calls, &known, call);
        }
        calls->of_node[node] = at;
    }
    et_map_free(&known);
}

void et_calls_free(struct et_calls *calls)
{
    et_strings_free(&calls->names);
    free(calls->items);
    free(calls->of_node);
}

/* ---- JSON ---- */

/* Unix time of the trigger; 0: the device had no clock, and the time of arrival is not known. */
static int64_t time_of(const et_message *message, int64_t received_ns)
{
    return message->unix_minus_uptime_ns ? (int64_t)(message->timeline->time_ns + message->unix_minus_uptime_ns)
                                         : received_ns;
}

static void json_head(const et_message *message, int64_t received_ns, struct et_buf *out)
{
    const Edgeprof__V1__Timeline *told = message->timeline;
    et_buf_printf(out, "{\"id\":\"%016" PRIx64 "\",\"time\":", told->incident);
    et_json_seconds(out, time_of(message, received_ns));
    et_json_clean_field(out, "service", message->origin->service);
    et_json_clean_field(out, "host", message->origin->host);
    et_buf_text(out, ",\"tags\":");
    et_json_tags(out, message->origin);
    et_json_clean_field(out, "executable", message->origin->executable);
    et_buf_printf(out, ",\"pid\":%" PRIu32, message->origin->pid);
    et_json_clean_field(out, "cause", et_incident_cause((int)told->cause));
    et_json_clean_field(out, "name", told->name);
    et_buf_printf(out, ",\"tid\":%" PRIu32 ",\"value\":%" PRIu64 ",\"limit\":%" PRIu64 ",\"suppressed\":%" PRIu64,
                  told->tid, told->value, told->limit, told->suppressed);
}

void et_incident_summary(const et_message *message, int64_t received_ns, struct et_buf *out)
{
    json_head(message, received_ns, out);
    et_buf_char(out, '}');
}

static void json_samples(const struct et_incident *incident, const struct et_calls *calls, struct et_buf *out)
{
    int64_t zero = (int64_t)incident->head->timeline->time_ns;
    et_buf_text(out, ",\"samples\":[");
    for (size_t i = 0; i < incident->count; i++) {
        const struct et_incident_sample *sample = &incident->samples[i];
        const struct et_kind *kind = et_kind_numbered(sample->kind);
        et_buf_printf(out, "%s[%.3f,%.3f,%" PRIu32 ",\"%s\",%" PRId64 "]", i ? ",\n" : "\n",
                      (double)(sample->start_ns - zero) / 1e6, (double)(sample->end_ns - sample->start_ns) / 1e6,
                      sample->thread, kind ? kind->name : "unknown", (int64_t)calls->of_node[sample->node] - 1);
    }
    et_buf_char(out, ']');
}

void et_incident_json(const struct et_incident *incident, struct et_buf *out)
{
    struct et_calls calls;
    et_calls_make(incident->profile, &calls);
    json_head(incident->head, incident->received_ns, out);
    et_buf_printf(out, ",\"names_pending\":%" PRIu64, incident->profile->names_pending);
    et_buf_printf(out, ",\"complete\":%s,\"missing\":%" PRIu64 ",\"period\":%.3f,\"threads\":[",
                  incident->complete ? "true" : "false", incident->head->timeline->missing,
                  (double)incident->head->timeline->period_ns / 1e6);
    for (size_t i = 0; i < incident->thread_count; i++) {
        et_buf_printf(out, "%s{\"tid\":%" PRIu32 ",\"name\":", i ? "," : "", incident->threads[i].tid);
        et_json_string(out, incident->threads[i].name);
        et_buf_char(out, '}');
    }
    et_buf_text(out, "],\"functions\":[");
    for (size_t i = 0; i < calls.names.count; i++) {
        et_buf_text(out, i ? "," : "");
        et_json_string(out, et_text(&calls.names, (uint32_t)i));
    }
    et_buf_text(out, "],\"stacks\":[");
    for (size_t i = 0; i < calls.count; i++) {
        et_buf_printf(out, "%s[%" PRId64 ",%" PRIu32 "]", i ? "," : "", (int64_t)calls.items[i].caller - 1,
                      calls.items[i].function);
    }
    et_buf_char(out, ']');
    json_samples(incident, &calls, out);
    et_buf_text(out, "}\n");
    et_calls_free(&calls);
}
