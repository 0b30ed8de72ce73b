/*
 * speedscope's own files (file-format-spec.ts), as this tool and many others write them: shared frames, and profiles
 * that are lists of samples with weights, or of events that open and close frames.
 */
#include "tools/formats/foreign_pprof.h"
#include "tools/lib/json_read.h"
#include "tools/lib/kinds.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { VALUES = 20000000 };

struct speedscope_reader {
    struct et_foreign_pprof *out;
    uint64_t *locations; /* of the shared frames; 0: not used yet */
    size_t frame_count;
    const json_t *frames;
    const json_t *profile; /* under way */
    size_t number, type;
    uint32_t label;
    double factor;
    struct et_buf *why;
};

static bool fail(struct speedscope_reader *r, const char *text)
{
    et_buf_printf(r->why, "speedscope, profile %zu: %s", r->number, text);
    return false;
}

/* 0: no such frame. */
static uint64_t location_of(struct speedscope_reader *r, const json_t *index)
{
    double number = json_number_value(index);
    if (!json_is_number(index) || !(number >= 0 && number < (double)r->frame_count)) {
        return 0;
    }
    size_t at = (size_t)number;
    if (!r->locations[at]) {
        const json_t *frame = json_array_get(r->frames, at);
        const char *name = et_json_words(frame, "name");
        double line = json_number_value(json_object_get(frame, "line"));
        r->locations[at] = et_foreign_function(r->out, name, strlen(name), et_json_words(frame, "file"),
                                               line > 0 && line < UINT32_MAX ? (uint32_t)line : 0);
    }
    return r->locations[at];
}

/* False: it is no weight, or too large. 0 adds nothing. */
static bool set_value(struct speedscope_reader *r, struct et_foreign_sample *sample, double weight)
{
    double value = weight * r->factor;
    if (!(value >= 0 && value < 1e15)) {
        return false;
    }
    sample->values[r->type] = (uint64_t)llround(value);
    sample->label = r->label;
    return true;
}

/* ---- samples and weights ---- */

static bool read_stack(struct speedscope_reader *r, const json_t *stack, const json_t *weight)
{
    struct et_foreign_sample *sample = et_foreign_sample(r->out);
    if (!json_is_array(stack) || !json_is_number(weight) || !set_value(r, sample, json_number_value(weight))) {
        return fail(r, "a sample without a stack or a weight");
    }
    for (size_t i = json_array_size(stack); i-- > 0;) {
        uint64_t location = location_of(r, json_array_get(stack, i));
        if (!location) {
            return fail(r, "a stack with a frame that is not in shared.frames");
        }
        et_foreign_push(r->out, location);
    }
    return true;
}

static bool read_samples(struct speedscope_reader *r)
{
    const json_t *samples = json_object_get(r->profile, "samples"), *weights = json_object_get(r->profile, "weights");
    const json_t *stack;
    size_t i;
    if (!json_is_array(samples) || json_array_size(samples) != json_array_size(weights)) {
        return fail(r, "samples and weights are not equally many");
    }
    json_array_foreach(samples, i, stack)
    {
        if (!read_stack(r, stack, json_array_get(weights, i))) {
            return false;
        }
    }
    return true;
}

/* ---- events ---- */

struct open_frames {
    uint64_t stack[ET_FOREIGN_DEPTH]; /* locations, root first */
    size_t depth;
    double at; /* of the last event */
};

/* The time since the last event belongs to what was open. */
static bool add_time(struct speedscope_reader *r, struct open_frames *open, double at)
{
    double passed = at - open->at;
    open->at = at;
    if (!(passed >= 0)) {
        return fail(r, "an event before the one before it");
    }
    if (passed == 0 || open->depth == 0) {
        return true;
    }
    if (!set_value(r, et_foreign_sample(r->out), passed)) {
        return fail(r, "a time that is too large");
    }
    for (size_t i = open->depth; i-- > 0;) {
        et_foreign_push(r->out, open->stack[i]);
    }
    return true;
}

static bool read_event(struct speedscope_reader *r, struct open_frames *open, const json_t *event)
{
    const char *type = et_json_words(event, "type");
    const json_t *at = json_object_get(event, "at");
    uint64_t location = location_of(r, json_object_get(event, "frame"));
    if (!json_is_number(at) || !location || !add_time(r, open, json_number_value(at))) {
        return r->why->size ? false : fail(r, "an event without a time, or with a frame that is not in shared.frames");
    }
    if (strcmp(type, "O") == 0 && open->depth < ET_FOREIGN_DEPTH) {
        open->stack[open->depth++] = location;
        return true;
    }
    if (strcmp(type, "C") == 0 && open->depth && open->stack[open->depth - 1] == location) {
        open->depth--;
        return true;
    }
    return fail(r, "an event that closes a frame that is not open, or opens too many");
}

static bool read_events(struct speedscope_reader *r)
{
    struct open_frames *open = et_alloc(1, sizeof *open);
    const json_t *events = json_object_get(r->profile, "events"), *event;
    size_t i;
    bool ok = json_is_array(events) || fail(r, "no events");
    open->at = json_number_value(json_object_get(r->profile, "startValue"));
    json_array_foreach(events, i, event)
    {
        ok = ok && read_event(r, open, event);
    }
    ok = ok && add_time(r, open, fmax(open->at, json_number_value(json_object_get(r->profile, "endValue"))));
    free(open);
    return ok;
}

/* ---- profiles ---- */

/* The kind that edgeprof wrote: the name is "service kind" or "kind". */
static const struct et_kind *own_kind(const json_t *document, const json_t *profile, char **service)
{
    const char *name = et_json_words(profile, "name"), *blank = strrchr(name, ' ');
    const struct et_kind *kind = et_kind_named(blank ? blank + 1 : name);
    if (strncmp(et_json_words(document, "exporter"), "edgeprof ", 9) != 0 || !kind) {
        return NULL;
    }
    free(*service);
    *service = et_clean(name, blank ? (size_t)(blank - name) : 0);
    return kind;
}

static bool choose_type(struct speedscope_reader *r, const struct et_kind *own)
{
    static const struct {
        const char *unit, *type, *base;
        double factor;
    } units[] = {{"none", "weight", "count", 1},
                 {"bytes", "bytes", "bytes", 1},
                 {"nanoseconds", "time", "nanoseconds", 1},
                 {"microseconds", "time", "nanoseconds", 1e3},
                 {"milliseconds", "time", "nanoseconds", 1e6},
                 {"seconds", "time", "nanoseconds", 1e9}};
    const char *unit = et_json_words(r->profile, "unit");
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strcmp(units[i].unit, unit) == 0) {
            bool value = own && strcmp(own->unit, units[i].base) == 0;
            const char *type = !own ? units[i].type : value && *own->value ? own->value : own->count;
            r->type = et_foreign_type(r->out, type, units[i].base);
            r->factor = units[i].factor;
            return r->type < ET_FOREIGN_TYPES || fail(r, "too many units");
        }
    }
    return fail(r, "an unknown unit");
}

static bool read_profile(struct speedscope_reader *r, const struct et_kind *own, bool alone)
{
    const char *type = et_json_words(r->profile, "type"), *name = et_json_words(r->profile, "name");
    char *label = et_clean(name, strlen(name));
    bool ok = choose_type(r, own);
    r->label = ok && !alone ? et_intern(&r->out->strings, label) : 0;
    free(label);
    return ok && (strcmp(type, "sampled") == 0   ? read_samples(r)
                  : strcmp(type, "evented") == 0 ? read_events(r)
                                                 : fail(r, "its type is neither sampled nor evented"));
}

static bool read_document(const json_t *document, struct et_foreign_pprof *out, struct et_buf *why)
{
    struct speedscope_reader r = {.out = out, .why = why};
    const json_t *profiles = json_object_get(document, "profiles");
    char *service = NULL;
    bool ok = true;
    r.frames = json_object_get(json_object_get(document, "shared"), "frames");
    r.frame_count = json_array_size(r.frames);
    r.locations = et_alloc(r.frame_count + 1, sizeof *r.locations);
    if (json_array_size(profiles) == 0) {
        et_buf_text(why, "speedscope: no profiles");
        ok = false;
    }
    for (r.number = 1; ok && r.number <= json_array_size(profiles); r.number++) {
        r.profile = json_array_get(profiles, r.number - 1);
        const struct et_kind *own = own_kind(document, r.profile, &service);
        out->kind = own ? own->name : out->kind;
        ok = read_profile(&r, own, json_array_size(profiles) == 1);
    }
    if (ok && service) {
        out->service = et_text(&out->strings, et_intern(&out->strings, service));
    }
    free(service);
    free(r.locations);
    return ok;
}

bool et_speedscope_read(const char *text, size_t size, struct et_foreign_pprof *out, struct et_buf *why)
{
    struct et_buf wrong = {0};
    json_t *document = et_json_read_most(text, size, VALUES, &wrong);
    bool ok = document && read_document(document, out, why);
    if (!document) {
        et_buf_printf(why, "speedscope: %s", wrong.data ? wrong.data : "not JSON");
    }
    json_decref(document);
    et_buf_free(&wrong);
    return ok;
}
