/*
 * Figures as Prometheus reads them, text format 0.0.4: what each service, version and device has used, ever, and how
 * the server itself is doing.
 */
#ifndef ET_METRICS_H
#define ET_METRICS_H

#include "tools/store/store.h"

/* Figures of the store. 0 or its error. */
int et_metrics_store(struct et_store *store, struct et_buf *out);

/* Figures of this process: CPU time, memory, files, start. */
void et_metrics_process(struct et_buf *out);

/* "# HELP" and "# TYPE" of a family, which its samples follow. */
void et_metrics_family(struct et_buf *out, const char *name, const char *type, const char *help);

/* A sample's name and labels: name, value, ... up to a NULL; values are escaped. The number is the caller's to add. */
void et_metrics_sample(struct et_buf *out, const char *family, ...) __attribute__((sentinel));

/* A number, and one in billionths, with an end of line. */
void et_metrics_number(struct et_buf *out, uint64_t number);
void et_metrics_billionths(struct et_buf *out, uint64_t number);

#endif
