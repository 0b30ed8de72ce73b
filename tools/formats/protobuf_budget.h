/*
 * A memory budget for protobuf-c's decoding. A few bytes can require much memory (empty repeated messages), and the
 * server must survive that.
 */
#ifndef ET_PROTOBUF_BUDGET_H
#define ET_PROTOBUF_BUDGET_H

#include <protobuf-c/protobuf-c.h>

/* Allocates until *left is used up. left: NULL for freeing only. */
ProtobufCAllocator et_budget_allocator(size_t *left);

#endif
