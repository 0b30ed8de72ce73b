/* Metrics of verdicts on versions (versions.h) and of leaks (leaks.h) in Prometheus's text format. */
#ifndef ET_METRICS_VERDICT_H
#define ET_METRICS_VERDICT_H

#include "tools/serve/query/leaks.h"
#include "tools/serve/query/versions.h"

enum { ET_VERDICT_FAMILIES = 5 };

/* Samples of all services, by family. Zeroed: none. */
struct et_verdict_metrics {
    struct et_buf families[ET_VERDICT_FAMILIES];
};

/* Adds what was compared; nothing for another state. */
void et_verdict_metrics_add(struct et_verdict_metrics *metrics, const struct et_versions *versions);
/* Adds what grows. */
void et_verdict_metrics_add_leaks(struct et_verdict_metrics *metrics, const struct et_leaks *leaks);
void et_verdict_metrics_put(const struct et_verdict_metrics *metrics, struct et_buf *out);
void et_verdict_metrics_free(struct et_verdict_metrics *metrics);

#endif
