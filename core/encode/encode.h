/*
 * The interface of core/encode, which encodes a tree as one compact message (core/FORMAT.md).
 *
 * In: a tree that does not change meanwhile, and what to encode of it. Out: bytes in the caller's buffer.
 */
#ifndef EP_ENCODE_H
#define EP_ENCODE_H

#include "core/profile/encoding.h"
#include "core/sample/profiler.h"

/* Encodes one compact message of the tree's nodes below encoding->limit. Returns its size, or -ENOSPC. Context:
 * collect. */
int32_t ep_encode_compact(struct ep *ep, const struct ep_encoding *encoding);

#endif
