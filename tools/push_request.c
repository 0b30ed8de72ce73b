/*
 * See push_request.h. JSON is protobuf's: names in camelCase or as in the .proto file, null is absence, what is not
 * known is passed over, as Connect's servers do.
 */
#include "push_request.h"
#include "json_in.h"
#include "labels.h"
#include "wire_budget.h"

#include <stdlib.h>
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

/* A list that may be absent; its size, or false when it is something else. */
static bool list_of(const json_t *object, const char *name, const json_t **list, size_t *count)
{
    *list = json_object_get(object, name);
    *count = json_array_size(*list);
    return (!*list || json_is_null(*list) || json_is_array(*list)) && *count <= SERIES_MAX;
}

/* A member that is a string: a copy, "" when it is absent, NULL when it is something else. */
static char *text_of(const json_t *object, const char *name)
{
    const json_t *member = json_object_get(object, name);
    return !member || json_is_null(member) ? et_strdup("")
           : json_is_string(member)        ? et_strdup(json_string_value(member))
                                           : NULL;
}

static bool take_label(const json_t *from, Push__V1__LabelPair *label)
{
    push__v1__label_pair__init(label);
    label->name = text_of(from, "name");
    label->value = text_of(from, "value");
    return json_is_object(from) && label->name && label->value;
}

static bool take_sample(const json_t *from, Push__V1__RawSample *sample)
{
    struct et_buf bytes = {0};
    push__v1__raw_sample__init(sample);
    const char *text = et_json_text(from, "rawProfile");
    text = text ? text : et_json_text(from, "raw_profile");
    sample->id = text_of(from, "ID");
    et_buf_text(&bytes, "");
    bool ok = json_is_object(from) && sample->id && text && et_base64(text, strlen(text), &bytes);
    sample->raw_profile = (ProtobufCBinaryData){.data = (uint8_t *)bytes.data, .len = bytes.size};
    return ok;
}

static bool take_series(const json_t *from, et_push_series *series)
{
    const json_t *labels, *samples;
    size_t label_count, sample_count;
    bool ok = json_is_object(from) && list_of(from, "labels", &labels, &label_count) &&
              list_of(from, "samples", &samples, &sample_count);
    push__v1__raw_profile_series__init(series);
    if (!ok) {
        return false;
    }
    series->labels = et_alloc(label_count, sizeof *series->labels);
    series->samples = et_alloc(sample_count, sizeof *series->samples);
    for (size_t i = 0; i < label_count && ok; i++) {
        series->labels[series->n_labels] = et_alloc(1, sizeof **series->labels);
        ok = take_label(json_array_get(labels, i), series->labels[series->n_labels++]);
    }
    for (size_t i = 0; i < sample_count && ok; i++) {
        series->samples[series->n_samples] = et_alloc(1, sizeof **series->samples);
        ok = take_sample(json_array_get(samples, i), series->samples[series->n_samples++]);
    }
    return ok;
}

et_push *et_push_decode_json(const void *bytes, size_t size, struct et_buf *why)
{
    json_t *root = et_json_read(bytes, size, why);
    const json_t *list = NULL;
    size_t count = 0;
    if (!root) {
        return NULL;
    }
    et_push *push = et_alloc(1, sizeof *push);
    push__v1__push_request__init(push);
    bool ok = json_is_object(root) && list_of(root, "series", &list, &count);
    push->series = et_alloc(count, sizeof *push->series);
    for (size_t i = 0; i < count && ok; i++) {
        push->series[push->n_series] = et_alloc(1, sizeof **push->series);
        ok = take_series(json_array_get(list, i), push->series[push->n_series++]);
    }
    json_decref(root);
    if (!ok) {
        et_buf_text(
            why,
            "no PushRequest: {\"series\":[{\"labels\":[{\"name\",\"value\"}],\"samples\":[{\"rawProfile\":base64}]}]}");
        et_push_free(push);
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
        if (et_push_label(series, label->name) != label->value) {
            return "a label twice";
        }
    }
    return !name ? "no label __name__" : !is_metric(name) ? "__name__ is no metric's name" : NULL;
}

char *et_push_tags(const et_push_series *series)
{
    struct et_labels tags = {0};
    for (size_t i = 0; i < series->n_labels; i++) {
        const char *name = series->labels[i]->name;
        bool inner = strncmp(name, "__", 2) == 0 && strcmp(name, "__session_id__") != 0;
        if (!inner && strcmp(name, "service_name") != 0 && strcmp(name, "spy_name") != 0) {
            et_labels_add(&tags, name, series->labels[i]->value);
        }
    }
    return et_labels_join(&tags);
}
