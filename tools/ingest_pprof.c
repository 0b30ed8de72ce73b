/*
 * See ingest.h: pprof as Pyroscope's clients send it, one stored profile for each kind in it.
 */
#include "ingest.h"
#include "labels.h"
#include "selector.h"
#include "wire_pprof.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Module, frame and node ids in the store of all that the profile has; 0 or the store's error. */
static int store_nodes(struct et_store *store, const struct et_profile *p, int64_t *nodes)
{
    int64_t *frames = et_alloc(p->frame_count, sizeof *frames),
            *modules = et_alloc(p->module_count + 1, sizeof *modules);
    int64_t id = 0;
    for (size_t i = 0; i < p->module_count && id >= 0; i++) {
        id = modules[i + 1] = et_store_module(store, et_text(&p->strings, p->modules[i].build_id),
                                              et_text(&p->strings, p->modules[i].path));
    }
    for (size_t i = 1; i < p->frame_count && id >= 0; i++) {
        const struct et_frame *frame = &p->frames[i];
        id = frames[i] =
            et_store_frame(store, modules[frame->module], frame->address, et_text(&p->strings, frame->name),
                           et_text(&p->strings, frame->file), frame->line);
    }
    for (size_t i = 1; i < p->node_count && id >= 0; i++) {
        id = nodes[i] = et_store_node(store, nodes[p->nodes[i].parent], frames[p->nodes[i].frame]);
    }
    free(frames);
    free(modules);
    return id < 0 ? (int)id : 0;
}

/* A number of 16 hexadecimal digits, or of the half of 32. */
static bool read_hex(const char *text, size_t size, uint64_t *number)
{
    *number = 0;
    for (size_t i = 0; i < size; i++) {
        const char *digits = "0123456789abcdef", *digit = text[i] ? strchr(digits, text[i]) : NULL;
        if (!digit) {
            return false;
        }
        *number = *number << 4 | (uint64_t)(digit - digits);
    }
    return true;
}

struct split {
    struct et_labels rest;
    struct et_stored_context context;
};

/* Ids of spans and traces are kept as numbers, there are many. */
static void on_label(void *data, const char *key, const char *value)
{
    struct split *split = data;
    struct et_stored_context *context = &split->context;
    bool span = strcmp(key, ET_SPAN_ID) == 0 && strlen(value) == 16 && read_hex(value, 16, &context->span_id);
    bool trace = strcmp(key, ET_TRACE_ID) == 0 && strlen(value) == 32 && read_hex(value, 16, &context->trace_high) &&
                 read_hex(value + 16, 16, &context->trace_low);
    if (!span && !trace) {
        et_labels_add(&split->rest, key, value);
    }
}

static int store_context(struct et_store *store, const char *lines, struct et_stored_context *context)
{
    struct split split = {0};
    et_labels_each(lines, on_label, &split);
    char *rest = et_labels_join(&split.rest);
    *context = split.context;
    context->labels = et_store_labels(store, rest);
    free(rest);
    return context->labels < 0 ? (int)context->labels : 0;
}

static int store_stacks(struct et_store *store, const struct et_profile *p, const int64_t *nodes,
                        struct et_stacks *stacks)
{
    struct et_map known = {0}; /* labels -> context + 1 */
    struct et_stored_context *contexts = et_alloc(p->strings.count + 1, sizeof *contexts);
    int err = 0;
    for (size_t i = 0; i < p->entry_count && !err; i++) {
        const struct et_entry *entry = &p->entries[i];
        uint64_t *seen = et_map_at(&known, entry->labels);
        if (!*seen) {
            *seen = known.count;
            err = store_context(store, et_text(&p->strings, entry->labels), &contexts[known.count]);
        }
        et_stacks_add(stacks, &(struct et_stack){.node = nodes[entry->node],
                                                 .value = entry->value,
                                                 .count = entry->count,
                                                 .context = contexts[*seen]});
    }
    et_map_free(&known);
    free(contexts);
    return err;
}

static int store_profile(struct et_store *store, const struct et_profile *p, int64_t origin, int64_t from,
                         int64_t until)
{
    int64_t *nodes = et_alloc(p->node_count, sizeof *nodes);
    struct et_stored stored = {
        .origin = origin,
        .kind = et_text(&p->strings, p->kind),
        .unit = et_text(&p->strings, p->value_unit),
        .start_ns = from,
        .end_ns = until,
        .period = p->period,
        .samples = p->samples,
        .quantum = 1,
        .stacks.columns = (uint8_t)((p->values || !p->counts ? ET_COLUMN_VALUE : 0) |
                                    (p->counts ? ET_COLUMN_COUNT : 0) | ET_COLUMN_CONTEXT),
    };
    int err = store_nodes(store, p, nodes);
    err = err ? err : store_stacks(store, p, nodes, &stored.stacks);
    err = err ? err : et_store_profile(store, &stored);
    et_stacks_free(&stored.stacks);
    free(nodes);
    return err;
}

/* What a request says that its profile is of. */
struct named {
    struct et_selector name;
    struct et_labels tags;
    const char *service, *family;
};

static int64_t store_origin(struct et_store *store, struct named *named)
{
    char *lines = et_labels_join(&named->tags);
    struct et_origin origin = {.service = named->service,
                               .tags = lines,
                               .host = "",
                               .boot_id = "",
                               .executable = "",
                               .arch = "",
                               .agent = "pprof"};
    int64_t id = et_store_origin(store, &origin);
    free(lines);
    return id;
}

struct times {
    int64_t from, until;
};

/* The request's times, else the profile's own, else it ended just now. */
static struct times times_of(const et_pprof *pprof, int64_t from, int64_t until, int64_t now)
{
    if (from && until > from) {
        return (struct times){from, until};
    }
    if (pprof->time_nanos) {
        return (struct times){pprof->time_nanos, pprof->time_nanos + pprof->duration_nanos + 1};
    }
    return (struct times){now - pprof->duration_nanos - 1, now};
}

/* Inside a transaction. NULL, or what is wrong with the profile; *err: the store failed. */
static const char *store_all(struct et_store *store, const et_pprof *pprof, const char *family, int64_t origin,
                             struct times times, int *err)
{
    struct et_pprof_kind kinds[ET_PPROF_KINDS];
    const char *why = NULL;
    size_t count = et_pprof_kinds(pprof, family, kinds);
    for (size_t i = 0; i < count && !*err; i++) {
        struct et_profile *profile = et_pprof_profile(pprof, &kinds[i], &why);
        if (!profile) {
            return why;
        }
        *err = store_profile(store, profile, origin, times.from, times.until);
        et_profile_free(profile);
    }
    return NULL;
}

/* "service{key=value}": names with two underscores are no tags, __name__ is the family. */
static bool read_name(const char *text, struct named *named, const char **why)
{
    if (!et_selector_parse(&named->name, text, why)) {
        return false;
    }
    named->service = named->name.name;
    for (size_t i = 0; i < named->name.count; i++) {
        const struct et_matcher *tag = &named->name.matchers[i];
        if (tag->how != ET_MATCH_EQUAL) {
            *why = "name is service or service{key=value,...}";
            return false;
        }
        if (strcmp(tag->name, "__name__") == 0) {
            named->family = named->family ? named->family : tag->value;
        } else if (strncmp(tag->name, "__", 2) != 0) {
            et_labels_add(&named->tags, tag->name, tag->value);
        }
    }
    return true;
}

static void read_tags(char *const *tags, struct named *named)
{
    for (; tags && *tags; tags++) {
        char *tag = et_strdup(*tags), *equals = strchr(tag, '=');
        *equals = '\0';
        et_labels_add(&named->tags, tag, equals + 1);
        free(tag);
    }
}

static bool read_named(const struct et_pprof_push *push, struct named *named, const char **why)
{
    named->family = push->family;
    if (push->name && !read_name(push->name, named, why)) {
        return false;
    }
    if (!push->name) {
        named->name.name = et_clean(push->service, strlen(push->service));
        named->service = named->name.name;
        read_tags(push->tags, named);
    }
    *why = named->service[0] ? *why : "the name has no service";
    return named->service[0] != '\0';
}

enum et_verdict et_ingest_pprof(struct et_store *store, const struct et_pprof_push *push, int64_t now_ns,
                                const char **why)
{
    struct named named = {0};
    et_pprof *pprof = NULL;
    enum et_verdict verdict = ET_MALFORMED;
    if (read_named(push, &named, why) && (pprof = et_pprof_decode(push->bytes, push->size, why))) {
        int err = et_store_begin(store);
        int64_t origin = err ? err : store_origin(store, &named);
        err = origin < 0 ? (int)origin : 0;
        struct times times = times_of(pprof, push->from_ns, push->until_ns, now_ns);
        const char *wrong = err ? NULL : store_all(store, pprof, named.family ? named.family : "", origin, times, &err);
        int ended = et_store_end(store, !err && !wrong);
        verdict = err || ended ? ET_UNAVAILABLE : wrong ? ET_MALFORMED : ET_ACCEPTED;
        *why = verdict == ET_UNAVAILABLE ? et_store_why(store) : wrong ? wrong : "ok";
        et_pprof_free(pprof);
    }
    et_labels_free(&named.tags);
    et_selector_free(&named.name);
    return verdict;
}
