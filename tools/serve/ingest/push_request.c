/* See push_request.h. JSON uses protobuf's mapping (protojson.h). */
#include "tools/serve/ingest/push_request.h"
#include "tools/lib/labels.h"
#include "tools/formats/protojson.h"
#include "tools/formats/protobuf_budget.h"

#include <string.h>

static const size_t DECODE_BUDGET = (size_t)64 << 20;

enum { SERIES_MAX = 10000, LABELS_MAX = 256 };

void et_push_free(et_push *push)
{
    ProtobufCAllocator allocator = et_budget_allocator(NULL);
    push__v1__push_request__free_unpacked(push, &allocator);
}

et_push *et_push_decode(const void *bytes, size_t size, struct et_buf *why)
{
    size_t left = DECODE_BUDGET;
    ProtobufCAllocator allocator = et_budget_allocator(&left);
    et_push *push = push__v1__push_request__unpack(&allocator, size, bytes);
    if (!push) {
        et_buf_text(why, "no PushRequest");
    }
    return push;
}

/* ---- JSON ---- */

/* Checks that every profile is present and that lists have sensible lengths. */
static bool is_plausible(const et_push *push)
{
    bool ok = push->n_series <= SERIES_MAX;
    for (size_t i = 0; i < push->n_series && ok; i++) {
        const et_push_series *series = push->series[i];
        ok = series->n_labels <= SERIES_MAX && series->n_samples <= SERIES_MAX;
        for (size_t k = 0; k < series->n_samples && ok; k++) {
            ok = series->samples[k]->raw_profile.data != NULL;
        }
    }
    return ok;
}

et_push *et_push_decode_json(const void *bytes, size_t size, struct et_buf *why)
{
    const char *wrong = "rawProfile is missing, or there are too many";
    et_push *push = (et_push *)et_protojson_decode(&push__v1__push_request__descriptor, bytes, size, &wrong);
    if (!push || !is_plausible(push)) {
        et_buf_printf(why,
                      "not a PushRequest ({\"series\":[{\"labels\":[{\"name\",\"value\"}],\"samples\":"
                      "[{\"rawProfile\":base64}]}]}): %s",
                      wrong);
        if (push) {
            et_push_free(push);
        }
        return NULL;
    }
    return push;
}

/* ---- labels ---- */

const char *et_push_label(const et_push_series *series, const char *name)
{
    for (size_t i = 0; i < series->n_labels; i++) {
        if (strcmp(series->labels[i]->name, name) == 0) {
            return series->labels[i]->value;
        }
    }
    return NULL;
}

static bool is_metric(const char *name)
{
    static const char first[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_:";
    static const char more[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_:0123456789";
    return *name && strchr(first, *name) && name[strspn(name, more)] == '\0';
}

const char *et_push_wrong(const et_push_series *series)
{
    const char *name = et_push_label(series, "__name__");
    if (series->n_labels > LABELS_MAX) {
        return "more than 256 labels";
    }
    for (size_t i = 0; i < series->n_labels; i++) {
        const Push__V1__LabelPair *label = series->labels[i];
        if (!*label->name) {
            return "a label without a name";
        }
        for (size_t k = 0; k < i; k++) {
            if (et_label_same(series->labels[k]->name, label->name)) {
                return "a label twice";
            }
        }
    }
    return !name ? "no label __name__" : !is_metric(name) ? "__name__ is not a valid metric name" : NULL;
}

char *et_push_tags(const et_push_series *series)
{
    struct et_labels tags = {0};
    for (size_t i = 0; i < series->n_labels; i++) {
        const char *name = series->labels[i]->name;
        if (!et_label_reserved(name)) {
            et_labels_add(&tags, name, series->labels[i]->value);
        }
    }
    return et_labels_join(&tags);
}
