/* Decodes requests of push.v1.PusherService/Push, binary or JSON, to protobuf-c's structure. */
#ifndef ET_PUSH_REQUEST_H
#define ET_PUSH_REQUEST_H

#include "push.pb-c.h"
#include "tools/lib/util.h"

typedef Push__V1__PushRequest et_push;
typedef Push__V1__RawProfileSeries et_push_series;

/* et_push_free() the result. NULL: malformed, *why says how. */
et_push *et_push_decode(const void *bytes, size_t size, struct et_buf *why);
et_push *et_push_decode_json(const void *bytes, size_t size, struct et_buf *why);
void et_push_free(et_push *push);

/* The value of a series' label; NULL: absent. */
const char *et_push_label(const et_push_series *series, const char *name);

/* Checks labels as Pyroscope does. Returns NULL or the error: more than 256 labels, __name__ missing or not a metric
 * name, empty name, duplicate name, invalid UTF-8. */
const char *et_push_wrong(const et_push_series *series);

/* The labels to use as tags, as lines (labels.h): without service_name, spy_name, and names that begin with "__" except
 * __session_id__. free() it. */
char *et_push_tags(const et_push_series *series);

#endif
