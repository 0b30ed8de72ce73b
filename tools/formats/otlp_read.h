/*
 * Reads OTLP profiles (proto/otlp.proto) and converts them to struct et_profile, whose kinds are those of pprof's types
 * (pprof_read.h). otlp.h writes OTLP.
 *
 * The rules are those of OpenTelemetry's profcheck, except what real senders break without harm: tables may be absent
 * when nothing refers to them, element 0 of a table may be a real element, to which index 0 then refers, and timestamps
 * may be outside of the profile's interval.
 */
#ifndef ET_OTLP_READ_H
#define ET_OTLP_READ_H

#include "tools/profile/profile.h"
#include "otlp.pb-c.h"

typedef Otlp__ExportProfilesServiceRequest et_otlp_request;

/* Decodes a request and checks every rule. Samples and profiles that break one, or refer to an element that does, are
 * taken out; *why then names the first broken rule in one line, and *refused counts the profiles. et_otlp_free() the
 * result. NULL: nothing is left. */
et_otlp_request *et_otlp_decode(const void *bytes, size_t size, struct et_buf *why, size_t *refused);
et_otlp_request *et_otlp_decode_json(const void *bytes, size_t size, struct et_buf *why, size_t *refused);
void et_otlp_free(et_otlp_request *request);

/* Takes ownership of the profile: one kind of one service, scope and interval. tags: attributes of resource and scope,
 * lines (labels.h). The texts are valid during the call. */
typedef void et_otlp_take(void *context, const char *service, const char *tags, struct et_profile *profile);

/* Calls take() for each profile. limit: total bytes, about as the profiles would have as pprof. Returns 0; *why then
 * may say what was left out, values that are too large or a stack with too many frames or labels, and *refused grows by
 * the profiles. Or -EFBIG: more than the limit; what was taken before is to be dropped, see *why. */
int et_otlp_convert(const et_otlp_request *request, size_t limit, et_otlp_take *take, void *context, struct et_buf *why,
                    size_t *refused);

/* The text of an attribute's value: a string, number or boolean with its unit. Appends nothing for other values. */
void et_otlp_value(const Otlp__ProfilesDictionary *dictionary, const Otlp__AnyValue *value, int32_t unit,
                   struct et_buf *out);

#endif
