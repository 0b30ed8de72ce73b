/*
 * See ingest.h: push.v1.PusherService/Push, as Pyroscope's clients send it. Each profile is kept whole or not at all;
 * of a request with several the first that is refused ends it, as its answer says.
 */
#include "gzip.h"
#include "ingest.h"
#include "push.pb-c.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef Push__V1__RawProfileSeries series;

enum { INFLATED_LIMIT = 32 << 20 };

static const char *label_of(const series *series, const char *name)
{
    for (size_t i = 0; i < series->n_labels; i++) {
        if (strcmp(series->labels[i]->name, name) == 0) {
            return series->labels[i]->value;
        }
    }
    return NULL;
}

/* The labels that are tags of the service, "key=value"; NULL-terminated. */
static char **tags_of(const series *series)
{
    char **tags = et_alloc(series->n_labels + 1, sizeof *tags);
    size_t count = 0;
    for (size_t i = 0; i < series->n_labels; i++) {
        const char *name = series->labels[i]->name;
        if (*name && strncmp(name, "__", 2) != 0 && strcmp(name, "service_name") != 0 &&
            strcmp(name, "spy_name") != 0) {
            struct et_buf tag = {0};
            et_buf_printf(&tag, "%s=%s", name, series->labels[i]->value);
            tags[count++] = tag.data;
        }
    }
    return tags;
}

static void tags_free(char **tags)
{
    for (size_t i = 0; tags[i]; i++) {
        free(tags[i]);
    }
    free(tags);
}

static enum et_verdict take_sample(struct et_store *store, const series *series, const ProtobufCBinaryData *profile,
                                   int64_t now_ns, const char **why)
{
    struct et_buf inflated = {0};
    enum et_verdict verdict = ET_MALFORMED;
    const char *service = label_of(series, "service_name");
    int err = et_gunzip(profile->data, profile->len, INFLATED_LIMIT, &inflated);
    if (err) {
        *why = err == -EFBIG ? "larger than 32 MiB when inflated" : "broken gzip data";
    } else {
        char **tags = tags_of(series);
        struct et_pprof_push push = {.service = service && *service ? service : "unknown_service",
                                     .tags = tags,
                                     .family = label_of(series, "__name__"),
                                     .bytes = inflated.data,
                                     .size = inflated.size};
        verdict = et_ingest_pprof(store, &push, now_ns, why);
        tags_free(tags);
    }
    et_buf_free(&inflated);
    return verdict;
}

static enum et_verdict take_series(struct et_store *store, const series *series, int64_t now_ns, const char **why)
{
    const char *name = label_of(series, "__name__");
    enum et_verdict verdict = ET_ACCEPTED;
    if (!name || !*name) {
        *why = "a series without the label __name__";
        return ET_MALFORMED;
    }
    for (size_t i = 0; i < series->n_samples && verdict == ET_ACCEPTED; i++) {
        verdict = take_sample(store, series, &series->samples[i]->raw_profile, now_ns, why);
    }
    return verdict;
}

enum et_verdict et_ingest_push(struct et_store *store, const void *bytes, size_t size, int64_t now_ns, const char **why)
{
    Push__V1__PushRequest *request = push__v1__push_request__unpack(NULL, size, bytes);
    enum et_verdict verdict = ET_ACCEPTED;
    *why = "ok";
    if (!request) {
        *why = "no PushRequest";
        return ET_MALFORMED;
    }
    for (size_t i = 0; i < request->n_series && verdict == ET_ACCEPTED; i++) {
        verdict = take_series(store, request->series[i], now_ns, why);
    }
    push__v1__push_request__free_unpacked(request, NULL);
    return verdict;
}
