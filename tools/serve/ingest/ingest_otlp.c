/* See ingest_batch.h: OTLP profiles, each group of them as a pprof. */
#include "tools/serve/ingest/ingest_batch.h"

struct otlp_batch {
    struct et_batch *batch;
    int64_t now_ns;
};

static const char *add_otlp_pprof(void *context, const struct et_otlp_pprof *pprof)
{
    const struct otlp_batch *into = context;
    const struct et_batch_source source = {
        .service = pprof->service, .tags = pprof->tags, .family = pprof->family, .now_ns = into->now_ns};
    return et_batch_pprof(into->batch, &source, pprof->bytes, pprof->size);
}

int et_batch_otlp(struct et_batch *batch, const et_otlp_request *request, size_t limit, int64_t now_ns,
                  struct et_buf *why)
{
    return et_otlp_convert(request, limit, add_otlp_pprof, &(struct otlp_batch){batch, now_ns}, why);
}
