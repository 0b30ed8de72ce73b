/*
 * See ingest_batch.h: the profiles of a push.v1.PusherService/Push. Series are accepted or refused separately, as in
 * Pyroscope; the answer names the refused ones.
 */
#include "tools/lib/gzip.h"
#include "tools/serve/ingest/ingest_batch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { TOLD = 8 };

/* Returns NULL or an error. *left: remaining bytes for the request's inflated profiles. */
static const char *add_push_sample(struct et_batch *batch, const struct et_batch_source *source,
                                   const ProtobufCBinaryData *profile, size_t *left)
{
    struct et_buf inflated = {0};
    int err = et_gunzip(profile->data, profile->len, *left, &inflated);
    const char *wrong = err == -EFBIG ? "too large when inflated"
                        : err         ? "broken gzip or zstd data"
                                      : et_batch_pprof(batch, source, inflated.data, inflated.size);
    *left -= err ? 0 : inflated.size;
    et_buf_free(&inflated);
    return wrong;
}

/* Returns NULL, or an error of one of the profiles. */
static const char *add_push_series(struct et_batch *batch, const et_push_series *series, int64_t now_ns, size_t *left,
                                   size_t *refused)
{
    const char *wrong = et_push_wrong(series), *service = et_push_label(series, "service_name");
    if (wrong) {
        *refused += series->n_samples ? series->n_samples : 1;
        return wrong;
    }
    char *tags = et_push_tags(series);
    struct et_batch_source source = {.service = service && *service ? service : "unknown_service",
                                     .tags = tags,
                                     .family = et_push_label(series, "__name__"),
                                     .now_ns = now_ns};
    for (size_t i = 0; i < series->n_samples; i++) {
        const char *bad = add_push_sample(batch, &source, &series->samples[i]->raw_profile, left);
        *refused += bad != NULL;
        wrong = bad ? bad : wrong;
    }
    free(tags);
    return wrong;
}

size_t et_batch_push(struct et_batch *batch, const et_push *push, size_t limit, int64_t now_ns, struct et_buf *why)
{
    size_t refused = 0, told = 0;
    for (size_t i = 0; i < push->n_series; i++) {
        const char *wrong = add_push_series(batch, push->series[i], now_ns, &limit, &refused);
        if (wrong && told++ < TOLD) {
            const char *service = et_push_label(push->series[i], "service_name");
            char *clean = et_clean(service ? service : "", service ? strnlen(service, 64) : 0);
            et_buf_printf(why, "%sseries %zu%s%s: %s", told > 1 ? "; " : "", i + 1, *clean ? " of " : "", clean, wrong);
            free(clean);
        }
    }
    if (told > TOLD) {
        et_buf_printf(why, "; and %zu more", told - TOLD);
    }
    return refused;
}
