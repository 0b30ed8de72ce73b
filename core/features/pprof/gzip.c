/*
 * See gzip.h. Input is collected in a buffer of two windows. Once it is full, all but the longest match is encoded, and
 * the older window is dropped.
 *
 *   ep_gzip_write -> encode -> match_find, put_match or put_literal -> put_bits
 *                 -> slide
 */
#include "core/features/pprof/gzip.h"

#include <string.h>

#define MATCH_LEAST 3u
#define MATCH_MOST  258u
#define CHAIN_MOST  24u /* positions that are compared for a match */
#define GOOD        64u /* a match of this length is taken at once */

/* ---- bits ---- */

static void put_byte(struct ep_gzip *gzip, uint8_t byte)
{
    if (gzip->used == gzip->room)
        gzip->full = true;
    else
        gzip->out[gzip->used++] = byte;
}

static void put_bits(struct ep_gzip *gzip, uint32_t value, unsigned count)
{
    gzip->bits |= (uint64_t)value << gzip->bit_count;
    for (gzip->bit_count += count; gzip->bit_count >= 8; gzip->bit_count -= 8) {
        put_byte(gzip, (uint8_t)gzip->bits);
        gzip->bits >>= 8;
    }
}

/* Huffman codes are written from their most significant bit on. */
static void put_code(struct ep_gzip *gzip, uint32_t code, unsigned count)
{
    uint32_t turned = 0;

    for (unsigned i = 0; i < count; i++)
        turned |= (code >> i & 1) << (count - 1 - i);
    put_bits(gzip, turned, count);
}

/* RFC 1951, 3.2.6. */
static void put_symbol(struct ep_gzip *gzip, unsigned symbol)
{
    if (symbol < 144)
        put_code(gzip, 0x30 + symbol, 8);
    else if (symbol < 256)
        put_code(gzip, 0x190 + symbol - 144, 9);
    else if (symbol < 280)
        put_code(gzip, symbol - 256, 7);
    else
        put_code(gzip, 0xc0 + symbol - 280, 8);
}

/* RFC 1951, 3.2.5: the first value of code n; it has (n - first) / step extra bits. */
static unsigned code_of(unsigned value, unsigned step, unsigned *extra, unsigned *base)
{
    unsigned bits = 0, code = 0;

    /* Each power of two is divided into `step` codes. */
    while (value >> (bits + 1) >= step)
        bits++;
    code = bits * step + (value >> bits);
    *extra = bits;
    *base = value >> bits << bits;
    return code;
}

static void put_match(struct ep_gzip *gzip, unsigned length, unsigned distance)
{
    unsigned extra, base, value = length - MATCH_LEAST, code;

    if (length == MATCH_MOST) {
        put_symbol(gzip, 285);
    } else {
        code = code_of(value, 4, &extra, &base);
        put_symbol(gzip, 257 + code);
        put_bits(gzip, value - base, extra);
    }
    code = code_of(distance - 1, 2, &extra, &base);
    put_code(gzip, code, 5);
    put_bits(gzip, distance - 1 - base, extra);
}

/* ---- matches ---- */

static unsigned hash_at(const uint8_t *at)
{
    uint32_t three = (uint32_t)at[0] << 16 | (uint32_t)at[1] << 8 | at[2];

    return (three * 2654435761u) >> 20 & (EP_GZIP_HASHES - 1);
}

static void note_position(struct ep_gzip *gzip, unsigned at)
{
    unsigned hash;

    if (at + MATCH_LEAST > gzip->fill)
        return;
    hash = hash_at(gzip->window + at);
    gzip->before[at % EP_GZIP_WINDOW] = gzip->head[hash];
    gzip->head[hash] = (uint16_t)(at + 1);
}

static unsigned match_length(const struct ep_gzip *gzip, unsigned a, unsigned b)
{
    unsigned length = 0, most = gzip->fill - b < MATCH_MOST ? gzip->fill - b : MATCH_MOST;

    while (length < most && gzip->window[a + length] == gzip->window[b + length])
        length++;
    return length;
}

/* The longest match for the bytes at `at`; 0: none. */
static unsigned match_find(const struct ep_gzip *gzip, unsigned at, unsigned *distance)
{
    unsigned best = 0, position = at + MATCH_LEAST > gzip->fill ? 0 : gzip->head[hash_at(gzip->window + at)];

    for (unsigned i = 0; i < CHAIN_MOST && position && at - (position - 1) < EP_GZIP_WINDOW; i++) {
        unsigned length = match_length(gzip, position - 1, at);
        if (length > best) {
            best = length;
            *distance = at - (position - 1);
        }
        if (best >= GOOD)
            break;
        unsigned next = gzip->before[(position - 1) % EP_GZIP_WINDOW];
        if (next >= position) /* its place was used again */
            break;
        position = next;
    }
    return best < MATCH_LEAST ? 0 : best;
}

static void encode(struct ep_gzip *gzip, unsigned until)
{
    while (gzip->done < until) {
        unsigned distance = 0, length = match_find(gzip, gzip->done, &distance);
        if (length)
            put_match(gzip, length, distance);
        else
            put_symbol(gzip, gzip->window[gzip->done]);
        for (unsigned end = gzip->done + (length ? length : 1); gzip->done < end; gzip->done++)
            note_position(gzip, gzip->done);
    }
}

/* Drops the older half of the buffer. */
static void slide(struct ep_gzip *gzip)
{
    memmove(gzip->window, gzip->window + EP_GZIP_WINDOW, gzip->fill - EP_GZIP_WINDOW);
    gzip->fill -= EP_GZIP_WINDOW;
    gzip->done -= EP_GZIP_WINDOW;
    for (unsigned i = 0; i < EP_GZIP_HASHES; i++)
        gzip->head[i] = (uint16_t)(gzip->head[i] > EP_GZIP_WINDOW ? gzip->head[i] - EP_GZIP_WINDOW : 0);
    for (unsigned i = 0; i < EP_GZIP_WINDOW; i++)
        gzip->before[i] = (uint16_t)(gzip->before[i] > EP_GZIP_WINDOW ? gzip->before[i] - EP_GZIP_WINDOW : 0);
}

/* ---- the stream ---- */

/* CRC-32 of RFC 1952, a nibble at a time. */
static uint32_t crc_of(uint32_t crc, const uint8_t *bytes, size_t size)
{
    static const uint32_t table[16] = {0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4,
                                       0x4db26158, 0x5005713c, 0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
                                       0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c};

    for (size_t i = 0; i < size; i++) {
        crc ^= bytes[i];
        crc = crc >> 4 ^ table[crc & 15];
        crc = crc >> 4 ^ table[crc & 15];
    }
    return crc;
}

void ep_gzip_begin(struct ep_gzip *gzip, uint8_t *out, size_t room)
{
    static const uint8_t head[10] = {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3};

    gzip->out = out;
    gzip->room = room;
    gzip->used = 0;
    gzip->full = false;
    gzip->crc = 0xffffffff;
    gzip->size = gzip->fill = gzip->done = gzip->bit_count = 0;
    gzip->bits = 0;
    memset(gzip->head, 0, sizeof gzip->head);
    for (unsigned i = 0; i < sizeof head; i++)
        put_byte(gzip, head[i]);
    put_bits(gzip, 1 | 1 << 1, 3); /* the last block, with fixed codes */
}

bool ep_gzip_write(struct ep_gzip *gzip, const uint8_t *bytes, size_t size)
{
    gzip->crc = crc_of(gzip->crc, bytes, size);
    gzip->size += (uint32_t)size;
    while (size && !gzip->full) {
        size_t part = sizeof gzip->window - gzip->fill;
        if (part > size)
            part = size;
        memcpy(gzip->window + gzip->fill, bytes, part);
        gzip->fill += (unsigned)part;
        bytes += part;
        size -= part;
        if (gzip->fill == sizeof gzip->window) {
            encode(gzip, gzip->fill - MATCH_MOST);
            slide(gzip);
        }
    }
    return !gzip->full;
}

size_t ep_gzip_end(struct ep_gzip *gzip)
{
    encode(gzip, gzip->fill);
    put_symbol(gzip, 256);
    put_bits(gzip, 0, (8 - gzip->bit_count % 8) % 8);
    put_bits(gzip, ~gzip->crc, 32);
    put_bits(gzip, gzip->size, 32);
    return gzip->full ? 0 : gzip->used;
}
