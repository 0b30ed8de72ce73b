/*
 * What both encoders need on top of nanopb: fields by their tag, and nested messages and packed columns whose length
 * is found by running the same writer against a stream that only counts. A writer returns nanopb's success flag; the
 * first failure ("stream full") stays in the stream.
 *
 * Only encode.c and encode_*.c include this. Context of everything here: collect.
 */
#ifndef EP_ENCODE_WRITE_H
#define EP_ENCODE_WRITE_H

#include <pb_encode.h>

#include "core/encode/encode.h"

/* What a writer works on: the profiler, the encoding, and an index when it writes one of many. */
struct ep_source {
    struct ep *ep;
    const struct ep_encoding *encoding;
    unsigned index, node;
    const uint32_t *contexts; /* pprof: one bit for each that is told */
};

typedef bool ep_writer(pb_ostream_t *stream, const struct ep_source *source);

/* Fields that are left out when they are zero, as proto3 wants it. */
bool ep_put_number(pb_ostream_t *stream, uint32_t tag, uint64_t value);
bool ep_put_fixed64(pb_ostream_t *stream, uint32_t tag, uint64_t value);
bool ep_put_bytes(pb_ostream_t *stream, uint32_t tag, const void *bytes, size_t size);
bool ep_put_text(pb_ostream_t *stream, uint32_t tag, const char *text);

/* A string that counts even when it is empty: an element of a repeated field. */
bool ep_put_element(pb_ostream_t *stream, uint32_t tag, const char *text);

/* A nested message or packed column. */
bool ep_put_nested(pb_ostream_t *stream, uint32_t tag, ep_writer *writer, const struct ep_source *source);

#endif
