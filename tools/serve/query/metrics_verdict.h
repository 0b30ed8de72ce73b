/* Metrics of verdicts on versions (versions.h) in Prometheus's text format. */
#ifndef ET_METRICS_VERDICT_H
#define ET_METRICS_VERDICT_H

#include "tools/serve/query/versions.h"

enum { ET_VERDICT_FAMILIES = 4 };

/* Samples of all services, by family. Zeroed: none. */
struct et_verdict_metrics {
    struct et_buf families[ET_VERDICT_FAMILIES];
};

/* Adds what was compared; nothing for another state. */
void et_verdict_metrics_add(struct et_verdict_metrics *metrics, const struct et_versions *versions);
void et_verdict_metrics_put(const struct et_verdict_metrics *metrics, struct et_buf *out);
void et_verdict_metrics_free(struct et_verdict_metrics *metrics);

#endif
