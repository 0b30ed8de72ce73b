/* See ingest_batch.h: OTLP profiles. */
#include "tools/serve/ingest/ingest_batch.h"

struct otlp_batch {
    struct et_batch *batch;
    int64_t now_ns;
};

static void add_otlp_profile(void *context, const char *service, const char *tags, struct et_profile *profile)
{
    const struct otlp_batch *into = context;
    const struct et_batch_source source = {.now_ns = into->now_ns};
    struct et_times times = et_batch_times(&source, profile->start_ns, profile->end_ns - profile->start_ns);
    et_batch_add(into->batch, service, tags, profile, times.from_ns, times.until_ns);
}

int et_batch_otlp(struct et_batch *batch, const et_otlp_request *request, size_t limit, int64_t now_ns,
                  struct et_buf *why, size_t *refused)
{
    return et_otlp_convert(request, limit, add_otlp_profile, &(struct otlp_batch){batch, now_ns}, why, refused);
}
