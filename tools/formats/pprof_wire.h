/*
 * Unpacks a pprof (core/proto/pprof.proto) as protobuf-c does, but counts the elements first: a message that needs more
 * memory than there is costs none, and no element is allocated by itself. What it does not read stays zero: booleans
 * and unknown fields.
 */
#ifndef ET_PPROF_WIRE_H
#define ET_PPROF_WIRE_H

#include "pprof.pb-c.h"
#include "tools/formats/protobuf_budget.h"

/* Returns NULL when the bytes are no pprof, or when it does not fit in arena->left. It belongs to the arena. */
Perftools__Profiles__Profile *et_pprof_unpack(struct et_arena *arena, const void *bytes, size_t size);

#endif
