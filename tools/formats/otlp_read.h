/*
 * Reads OTLP profiles (proto/otlp.proto) and converts them to pprof, which pprof_read.h reads. otlp.h writes OTLP.
 *
 * The rules are those of OpenTelemetry's profcheck, except what real senders break without harm: tables may be absent
 * when nothing refers to them, element 0 of location_table may be a location, and a timestamp may be the interval's
 * end.
 */
#ifndef ET_OTLP_READ_H
#define ET_OTLP_READ_H

#include "tools/lib/util.h"
#include "otlp.pb-c.h"

typedef Otlp__ExportProfilesServiceRequest et_otlp_request;

/* Decodes a request and checks every rule. et_otlp_free() the result. NULL: *why names the broken rule in one line. */
et_otlp_request *et_otlp_decode(const void *bytes, size_t size, struct et_buf *why);
et_otlp_request *et_otlp_decode_json(const void *bytes, size_t size, struct et_buf *why);
void et_otlp_free(et_otlp_request *request);

/* Profiles of one service, scope and interval as one pprof with a sample type for each. Valid during the call. */
struct et_otlp_pprof {
    const char *service, *tags; /* tags: attributes of resource and scope, lines (labels.h) */
    const char *family;         /* first part of the profile types' ids, as Pyroscope names them; or "" */
    const void *bytes;
    size_t size;
};

/* Returns NULL or an error, which ends the conversion. */
typedef const char *et_otlp_take(void *context, const struct et_otlp_pprof *pprof);

/* Calls take() for each pprof. limit: total bytes of the pprofs. Returns 0; -EFBIG: more than the limit; -EINVAL: an
 * error of take() or values that are too large. *why: the error. */
int et_otlp_convert(const et_otlp_request *request, size_t limit, et_otlp_take *take, void *context,
                    struct et_buf *why);

/* The text of an attribute's value: a string, number or boolean with its unit. Appends nothing for other values. */
void et_otlp_value(const Otlp__ProfilesDictionary *dictionary, const Otlp__AnyValue *value, int32_t unit,
                   struct et_buf *out);

#endif
