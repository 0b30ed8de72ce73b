/*
 * The face of core/encode: the tree as one message, compact (core/FORMAT.md) or pprof.
 *
 * In: a tree that stands still and what to report of it. Out: bytes in the caller's buffer.
 */
#ifndef EP_ENCODE_H
#define EP_ENCODE_H

#include "core/data/encoding.h"
#include "core/state/profiler.h"

extern const struct ep_encoder ep_encoder_compact;

/* The whole message's size, and the bytes of it from `from` on, as many as there are and there is room for: a large one
 * in several rounds through a small buffer. As long as what the encoding tells stays as it is, so do all bytes.
 * Context: collect. */
uint64_t ep_encode_pprof_size(struct ep *ep, const struct ep_encoding *encoding);
uint32_t ep_encode_pprof_piece(struct ep *ep, const struct ep_encoding *encoding, uint64_t from);

#endif
