/*
 * Reads a gzip stream of blocks with fixed codes (RFC 1951, RFC 1952), bit by bit and without tables: for tests on
 * every machine. Real programs read the same streams in test-encoders and test-pushed.
 */
#ifndef GUNZIP_H
#define GUNZIP_H

#include <stddef.h>
#include <stdint.h>

/* Returns the size of what is in the stream; SIZE_MAX: it is malformed, or has more than `room` bytes. */
size_t gunzip(const void *data, size_t size, uint8_t *out, size_t room);

#endif
