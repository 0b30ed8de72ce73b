/*
 * The interface of core/encode, which encodes the tree as one message, compact (core/FORMAT.md) or pprof.
 *
 * In: a tree that does not change meanwhile, and what to encode of it. Out: bytes in the caller's buffer.
 */
#ifndef EP_ENCODE_H
#define EP_ENCODE_H

#include "core/data/encoding.h"
#include "core/state/profiler.h"

extern const struct ep_encoder ep_encoder_compact;

/* The size of the whole message; and its bytes from `from` on, as many as fit into the encoding's buffer. So a large
 * message can be sent in pieces through a small buffer. The bytes stay the same as long as the encoding's input
 * does. Context: collect. */
uint64_t ep_encode_pprof_size(struct ep *ep, const struct ep_encoding *encoding);
uint32_t ep_encode_pprof_piece(struct ep *ep, const struct ep_encoding *encoding, uint64_t from);

#endif
