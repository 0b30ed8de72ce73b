/*
 * Metrics in Prometheus's text format 0.0.4: total usage of each service, version and device, and metrics of the
 * server.
 */
#ifndef ET_METRICS_H
#define ET_METRICS_H

#include "tools/store/store.h"

/* Writes the database's metrics. Returns 0 or its error. */
int et_metrics_store(struct et_store *store, struct et_buf *out);

/* Writes metrics of this process: CPU time, memory, files, start time. */
void et_metrics_process(struct et_buf *out);

/* Writes "# HELP" and "# TYPE" of a family; its samples must follow. */
void et_metrics_family(struct et_buf *out, const char *name, const char *type, const char *help);

/* Writes a sample's name and labels: name, value, ... up to a NULL. Escapes values. The caller writes the number next.
 */
void et_metrics_sample(struct et_buf *out, const char *family, ...) __attribute__((sentinel));

/* Writes a number, or a number of billionths, and a line end. */
void et_metrics_number(struct et_buf *out, uint64_t number);

#endif
