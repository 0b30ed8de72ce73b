/*
 * Messages of protobuf-c as JSON and back, by the rules of proto3's JSON mapping: lowerCamelCase names (the original
 * ones are read, too), 64-bit numbers as text, bytes as base64, enums by name, fields of value 0 left out. Works for
 * every message without maps, oneofs and groups.
 */
#ifndef ET_PROTOJSON_H
#define ET_PROTOJSON_H

#include "tools/lib/util.h"

#include <protobuf-c/protobuf-c.h>

void et_protojson_encode(const ProtobufCMessage *message, struct et_buf *out);

/* Unknown fields are skipped. NULL: no JSON, or beyond the bounds of json_read.h, or not of that message; *why says
 * what (static, or valid until the next call of the thread). protobuf_c_message_free_unpacked(message, NULL) frees the
 * result. Context: any thread. */
ProtobufCMessage *et_protojson_decode(const ProtobufCMessageDescriptor *descriptor, const void *text, size_t size,
                                      const char **why);

#endif
