/*
 * A gzip stream (RFC 1951, RFC 1952) in fixed memory: LZ77 in a small window, fixed Huffman codes.
 *
 * The window is small because repetitions are near: an encoder writes stacks with the same callers one after the other.
 */
#ifndef EP_ENCODE_GZIP_H
#define EP_ENCODE_GZIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EP_GZIP_WINDOW 16384u /* a power of two, at most 16384 */
#define EP_GZIP_HASHES 4096u

struct ep_gzip {
    uint8_t *out;
    size_t room, used;
    bool full; /* the output did not fit */
    uint32_t crc, size;
    uint64_t bits;
    unsigned bit_count;
    unsigned fill, done; /* bytes in the window's buffer, and those of them that are encoded */
    uint16_t head[EP_GZIP_HASHES];
    uint16_t before[EP_GZIP_WINDOW]; /* position of the same hash before this one, + 1; by position % window */
    uint8_t window[2 * EP_GZIP_WINDOW];
};

/* Begins a stream in the caller's buffer. Context: deliver. */
void ep_gzip_begin(struct ep_gzip *gzip, uint8_t *out, size_t room);
/* Returns false once the output did not fit. Context: deliver. */
bool ep_gzip_write(struct ep_gzip *gzip, const uint8_t *bytes, size_t size);
/* Returns the size of the whole stream; 0: it did not fit. Context: deliver. */
size_t ep_gzip_end(struct ep_gzip *gzip);

#endif
