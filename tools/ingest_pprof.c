/*
 * See ingest.h: pprof as Pyroscope's clients send it, one stored profile per sample type.
 */
#include "ingest.h"
#include "when.h"
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

static int store_profile(struct et_store *store, const struct et_profile *p, int64_t origin, int64_t from,
                         int64_t until)
{
    int64_t *nodes = et_alloc(p->node_count, sizeof *nodes);
    int err = store_nodes(store, p, nodes);
    struct et_buf stacks = {0};
    for (size_t i = 1; i < p->node_count && !err; i++) {
        if (p->nodes[i].self) {
            et_varint_put(&stacks, (uint64_t)nodes[i]);
            et_varint_put(&stacks, p->nodes[i].self);
        }
    }
    struct et_stored stored = {
        .origin = origin,
        .kind = et_text(&p->strings, p->kind),
        .unit = et_text(&p->strings, p->unit),
        .start_ns = from,
        .end_ns = until,
        .period = p->period,
        .samples = p->samples,
        .quantum = 1,
        .stacks = &stacks,
    };
    err = err ? err : et_store_profile(store, &stored);
    et_buf_free(&stacks);
    free(nodes);
    return err;
}

static int64_t store_origin(struct et_store *store, const struct et_wanted *wanted)
{
    struct et_tags tags = {0};
    for (size_t i = 0; i < wanted->query.tag_count; i++) {
        char *tag = et_strdup(wanted->query.tags[i]), *equals = strchr(tag, '=');
        *equals = '\0';
        et_tags_add(&tags, tag, equals + 1);
        free(tag);
    }
    char *lines = et_tags_join(&tags);
    struct et_origin origin = {.service = wanted->service,
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
static const char *store_all(struct et_store *store, const et_pprof *pprof, int64_t origin, struct times times,
                             int *err)
{
    const char *why = NULL;
    for (size_t type = 0; type < pprof->n_sample_type && !*err; type++) {
        struct et_profile *profile = et_pprof_is_count(pprof, type) ? NULL : et_pprof_profile(pprof, type, &why);
        if (why) {
            return why;
        }
        if (profile) {
            *err = store_profile(store, profile, origin, times.from, times.until);
            et_profile_free(profile);
        }
    }
    return NULL;
}

enum et_verdict et_ingest_pprof(struct et_store *store, const char *name, int64_t from_ns, int64_t until_ns,
                                const void *bytes, size_t size, int64_t now_ns, const char **why)
{
    struct et_wanted wanted = {0};
    et_pprof *pprof = NULL;
    enum et_verdict verdict = ET_MALFORMED;
    if (!et_wanted_name(&wanted, name) || !wanted.service[0]) {
        *why = "name is service or service{key=value,...}";
    } else if ((pprof = et_pprof_decode(bytes, size, why))) {
        int err = et_store_begin(store);
        int64_t origin = err ? err : store_origin(store, &wanted);
        err = origin < 0 ? (int)origin : 0;
        const char *wrong =
            err ? NULL : store_all(store, pprof, origin, times_of(pprof, from_ns, until_ns, now_ns), &err);
        int ended = et_store_end(store, !err && !wrong);
        verdict = err || ended ? ET_UNAVAILABLE : wrong ? ET_MALFORMED : ET_ACCEPTED;
        *why = verdict == ET_UNAVAILABLE ? et_store_why(store) : wrong ? wrong : "ok";
        et_pprof_free(pprof);
    }
    et_wanted_free(&wanted);
    return verdict;
}
