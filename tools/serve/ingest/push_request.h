/*
 * Requests of push.v1.PusherService/Push, binary or JSON, as one structure: protobuf-c's.
 */
#ifndef ET_PUSH_REQUEST_H
#define ET_PUSH_REQUEST_H

#include "push.pb-c.h"
#include "tools/lib/util.h"

typedef Push__V1__PushRequest et_push;
typedef Push__V1__RawProfileSeries et_push_series;

/* et_push_free() gives them back. NULL: malformed, *why says how. */
et_push *et_push_decode(const void *bytes, size_t size, struct et_buf *why);
et_push *et_push_decode_json(const void *bytes, size_t size, struct et_buf *why);
void et_push_free(et_push *push);

/* Value of a series' label, NULL: it has none of that name. */
const char *et_push_label(const et_push_series *series, const char *name);

/* NULL, or what Pyroscope refuses about the labels: more than 256, no __name__ or one that is no metric's name, an
 * empty name, one name twice, text that is not UTF-8. */
const char *et_push_wrong(const et_push_series *series);

/* The labels that are tags of the service, as lines (labels.h): without service_name, without spy_name, and without
 * those that begin with "__", of which __session_id__ is an exception. free() it. */
char *et_push_tags(const et_push_series *series);

#endif
