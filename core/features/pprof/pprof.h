/*
 * The interface of the pprof encoder. It writes a tree as one perftools.profiles.Profile.
 *
 * In: a tree that does not change meanwhile, and what to encode of it. Out: bytes in the encoding's buffer.
 */
#ifndef EP_PPROF_H
#define EP_PPROF_H

#include "core/profile/encoding.h"

struct ep_deadline;
struct ep_gzip;

/* The kinds that share a pprof with the lowest of `kinds`, and its family: struct ep_message. Context: any thread. */
uint32_t ep_pprof_together(uint32_t kinds);
const char *ep_pprof_family(uint32_t kinds);

/* The number of samples in the encoding's pprof, and their totals. Context: deliver. */
unsigned ep_encode_pprof_sum(const struct ep_encoding *encoding, struct ep_sums *sums);

/* Encodes a pprof as a gzip stream, with the names that are found until the deadline. Returns its size; 0: it does not
 * fit into the encoding's buffer. Context: deliver. */
uint32_t ep_encode_pprof_gzip(const struct ep_encoding *encoding, struct ep_gzip *gzip,
                              const struct ep_deadline *deadline);

/* The size of a pprof without compression; and its bytes from `from` on, as many as fit into the encoding's buffer. So
 * a large one can be sent in pieces through a small buffer. The bytes stay the same as long as the encoding's input
 * does. Context: collect. */
uint64_t ep_encode_pprof_size(const struct ep_encoding *encoding);
uint32_t ep_encode_pprof_piece(const struct ep_encoding *encoding, uint64_t from);

#endif
