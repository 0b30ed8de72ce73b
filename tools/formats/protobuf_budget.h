/*
 * Memory for protobuf-c's decoding, with a budget: a few bytes on the wire can ask for much memory (empty repeated
 * messages), and a server must survive that.
 */
#ifndef ET_PROTOBUF_BUDGET_H
#define ET_PROTOBUF_BUDGET_H

#include <protobuf-c/protobuf-c.h>

/* Allocates as long as *left lasts. left: NULL for freeing only. */
ProtobufCAllocator et_budget_allocator(size_t *left);

#endif
