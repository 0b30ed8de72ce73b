/*
 * Helpers for both encoders on top of nanopb: fields by their tag, nested messages and packed columns. The length of a
 * nested message is found by running its writer on a stream that only counts. A writer returns nanopb's success flag;
 * the first failure ("stream full") stays in the stream.
 *
 * Only files that encode messages include this: core/encode, and the features crash, incident and pprof. Context of
 * everything here: collect, deliver.
 */
#ifndef EP_ENCODE_WRITE_H
#define EP_ENCODE_WRITE_H

#include <pb_encode.h>

#include "core/encode/encode.h"

/* A writer's input: the profiler, the encoding, and an index if it writes one of many. */
struct ep_scratch;
struct ep_module_part;

struct ep_source {
    struct ep *ep;
    const struct ep_encoding *encoding;
    unsigned index, node;
    const struct ep_scratch *scratch;  /* pprof */
    const struct ep_module_part *part; /* of a module */
};

typedef bool ep_writer(pb_ostream_t *stream, const struct ep_source *source);

/* Fields that are omitted if they are zero, as in proto3. */
bool ep_put_number(pb_ostream_t *stream, uint32_t tag, uint64_t value);
bool ep_put_fixed64(pb_ostream_t *stream, uint32_t tag, uint64_t value);
bool ep_put_bytes(pb_ostream_t *stream, uint32_t tag, const void *bytes, size_t size);
bool ep_put_text(pb_ostream_t *stream, uint32_t tag, const char *text);

/* A string that is written even if it is empty: an element of a repeated field. Bytes that are not valid UTF-8 become
 * '?': receivers refuse other strings. */
bool ep_put_element(pb_ostream_t *stream, uint32_t tag, const char *text);

/* The sender: the profiler's configuration and identity. */
bool ep_write_origin(pb_ostream_t *stream, const struct ep_source *source);

/* A module, as one entry of the repeated field or as several. */
bool ep_put_module(pb_ostream_t *stream, uint32_t tag, const struct ep_module *module);

/* A nested message or packed column. */
bool ep_put_nested(pb_ostream_t *stream, uint32_t tag, ep_writer *writer, const struct ep_source *source);

#endif
