/* See ingest.h and ingest_batch.h: pprof of Pyroscope's clients, one profile per kind. */
#include "tools/serve/ingest/ingest_batch.h"
#include "tools/lib/time_text.h"
#include "tools/lib/labels.h"
#include "tools/lib/selector.h"
#include "tools/formats/pprof_read.h"

#include <stdlib.h>
#include <string.h>

void et_batch_add(struct et_batch *batch, const char *service, const char *tags, struct et_profile *profile,
                  int64_t from_ns, int64_t until_ns)
{
    et_profile_trim(profile); /* a push may have 100,000 small ones */
    batch->items = et_reserve(batch->items, &batch->capacity, batch->count + 1, sizeof *batch->items);
    batch->items[batch->count++] = (struct et_batch_item){.service = et_clean(service, strlen(service)),
                                                          .tags = et_strdup(tags),
                                                          .profile = profile,
                                                          .from_ns = from_ns,
                                                          .until_ns = until_ns};
}

void et_batch_free(struct et_batch *batch)
{
    while (batch->count) {
        struct et_batch_item *item = &batch->items[--batch->count];
        free(item->service);
        free(item->tags);
        et_profile_free(item->profile);
    }
    free(batch->items);
    et_arena_free(&batch->arena);
    *batch = (struct et_batch){0};
}

/* A time that no set clock has is replaced by that of the arrival, and so is a duration that ends in the future. */
struct et_times et_batch_times(const struct et_batch_source *source, int64_t start_ns, int64_t duration_ns)
{
    if (source->from_ns && source->until_ns > source->from_ns) {
        return (struct et_times){source->from_ns, source->until_ns};
    }
    if (et_is_date(start_ns)) {
        bool past = duration_ns < INT64_MAX - start_ns && et_is_date(start_ns + duration_ns);
        return (struct et_times){start_ns, start_ns + (past ? duration_ns : 0) + 1};
    }
    bool sane = et_is_date(source->now_ns - duration_ns);
    return (struct et_times){source->now_ns - (sane ? duration_ns : 0) - 1, source->now_ns};
}

static const char *displayed_name(void *context, const char *type)
{
    return json_string_value(json_object_get(json_object_get(context, type), "display-name"));
}

const char *et_batch_pprof(struct et_batch *batch, const struct et_batch_source *source, const void *bytes, size_t size)
{
    struct et_pprof_kind kinds[ET_PPROF_KINDS];
    const char *why = NULL;
    et_pprof *pprof = et_pprof_decode_in(&batch->arena, bytes, size, &why);
    if (!pprof) {
        et_arena_reset(&batch->arena);
        return why;
    }
    struct et_times times = et_batch_times(source, pprof->time_nanos, pprof->duration_nanos);
    const char *family =
        source->guess && !source->family[0] ? et_pprof_family(pprof, displayed_name, source->config) : source->family;
    family = family[0] ? family : et_pprof_hint(pprof);
    size_t count = et_pprof_sent_kinds(pprof, family, kinds);
    for (size_t i = 0; i < count; i++) {
        struct et_profile *profile = et_pprof_profile(pprof, &kinds[i], &why);
        if (profile) {
            et_batch_add(batch, source->service, source->tags, profile, times.from_ns, times.until_ns);
        }
    }
    et_arena_reset(&batch->arena);
    return why;
}

bool et_batch_name(const char *text, char **service, char **tags, char **family, const char **why)
{
    struct et_selector name = {0};
    struct et_labels lines = {0};
    const char *metric = "";
    bool ok = et_selector_parse(&name, text, why);
    for (size_t i = 0; i < name.count && ok; i++) {
        const struct et_matcher *tag = &name.matchers[i];
        ok = tag->how == ET_MATCH_EQUAL;
        *why = ok ? *why : "name must be service or service{key=value,...}";
        metric = strcmp(tag->name, "__name__") == 0 ? tag->value : metric;
        if (!et_label_reserved(tag->name)) {
            et_labels_add(&lines, tag->name, tag->value);
        }
    }
    if (ok && !name.name[0]) {
        *why = "the name has no service";
        ok = false;
    }
    *service = ok ? et_strdup(name.name) : NULL;
    *family = ok ? et_strdup(metric) : NULL;
    *tags = et_labels_join(&lines);
    if (!ok) {
        free(*tags);
        *tags = NULL;
    }
    et_selector_free(&name);
    return ok;
}

enum et_outcome et_ingest_pprof(struct et_store *store, const struct et_pprof_push *push, int64_t now_ns,
                                const char **why)
{
    struct et_batch batch = {0};
    char *service, *tags, *family;
    if (!et_batch_name(push->name, &service, &tags, &family, why)) {
        return ET_MALFORMED;
    }
    struct et_batch_source source = {
        .service = service, .tags = tags, .family = push->family ? push->family : family, .now_ns = now_ns};
    const char *wrong = et_batch_pprof(&batch, &source, push->bytes, push->size);
    *why = wrong ? wrong : "";
    enum et_outcome outcome = wrong && !batch.count ? ET_MALFORMED : et_batch_store(store, &batch, why);
    et_batch_free(&batch);
    free(service);
    free(tags);
    free(family);
    return outcome;
}
