/*
 * Converts messages of protobuf-c to JSON and back, by proto3's JSON mapping: lowerCamelCase names (reading also
 * accepts the original names), 64-bit numbers as text, bytes as base64, enums by name, default values omitted. Supports
 * every message without maps and groups.
 */
#ifndef ET_PROTOJSON_H
#define ET_PROTOJSON_H

#include "tools/lib/util.h"

#include <protobuf-c/protobuf-c.h>

void et_protojson_encode(const ProtobufCMessage *message, struct et_buf *out);

/* Skips unknown fields. NULL: not JSON, beyond the limits of json_read.h, or not this message; *why says how (static,
 * or valid until the thread's next call). protobuf_c_message_free_unpacked(message, NULL) frees the result. Context:
 * any thread. */
ProtobufCMessage *et_protojson_decode(const ProtobufCMessageDescriptor *descriptor, const void *text, size_t size,
                                      const char **why);

#endif
