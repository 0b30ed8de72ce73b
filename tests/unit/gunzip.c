/* See gunzip.h. */
#include "gunzip.h"

#include <stdbool.h>

struct bits {
    const uint8_t *at, *end;
    unsigned used; /* bits of *at */
    bool bad;
};

static unsigned bits_next(struct bits *bits, unsigned count)
{
    unsigned value = 0;

    for (unsigned i = 0; i < count; i++) {
        if (bits->at == bits->end) {
            bits->bad = true;
            return 0;
        }
        value |= (unsigned)(*bits->at >> bits->used & 1) << i;
        if (++bits->used == 8) {
            bits->used = 0;
            bits->at++;
        }
    }
    return value;
}

static unsigned code_next(struct bits *bits, unsigned code, unsigned count)
{
    while (count--)
        code = code << 1 | bits_next(bits, 1);
    return code;
}

static unsigned symbol_next(struct bits *bits)
{
    unsigned code = code_next(bits, 0, 7);

    if (code < 0x18)
        return 256 + code;
    code = code_next(bits, code, 1);
    if (code >= 0x30 && code <= 0xbf)
        return code - 0x30;
    if (code >= 0xc0 && code <= 0xc7)
        return 280 + code - 0xc0;
    return 144 + code_next(bits, code, 1) - 0x190;
}

static unsigned length_next(struct bits *bits, unsigned symbol)
{
    static const uint16_t base[29] = {3,  4,  5,  6,  7,  8,  9,  10, 11,  13,  15,  17,  19,  23, 27,
                                      31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258};
    unsigned code = symbol - 257;

    if (code > 28) {
        bits->bad = true;
        return 0;
    }
    return base[code] + bits_next(bits, code < 8 || code == 28 ? 0 : (code - 4) / 4);
}

static unsigned distance_next(struct bits *bits)
{
    unsigned code = code_next(bits, 0, 5), extra = code < 4 ? 0 : (code - 2) / 2;
    unsigned base = code < 4 ? code + 1 : ((2 + code % 2) << extra) + 1;

    return base + bits_next(bits, extra);
}

static size_t blocks_read(struct bits *bits, uint8_t *out, size_t room)
{
    size_t size = 0;
    bool last = false;

    while (!last && !bits->bad) {
        last = bits_next(bits, 1);
        bits->bad |= bits_next(bits, 2) != 1;
        for (unsigned symbol; !bits->bad && (symbol = symbol_next(bits)) != 256;) {
            unsigned length = symbol < 256 ? 1 : length_next(bits, symbol);
            unsigned distance = symbol < 256 ? 0 : distance_next(bits);
            bits->bad |= distance > size || length > room - size;
            for (; length && !bits->bad; length--, size++)
                out[size] = symbol < 256 ? (uint8_t)symbol : out[size - distance];
        }
    }
    return size;
}

static uint32_t crc_of(const uint8_t *bytes, size_t size)
{
    uint32_t crc = 0xffffffff;

    for (size_t i = 0; i < size; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
    }
    return ~crc;
}

static uint32_t word_at(const uint8_t *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

size_t gunzip(const void *data, size_t size, uint8_t *out, size_t room)
{
    const uint8_t *at = data;

    if (size < 18 || at[0] != 0x1f || at[1] != 0x8b || at[2] != 8 || at[3] != 0)
        return SIZE_MAX;
    struct bits bits = {.at = at + 10, .end = at + size};
    size_t got = blocks_read(&bits, out, room);
    bits.at += bits.used != 0;
    bool good = !bits.bad && bits.end - bits.at == 8 && word_at(bits.at) == crc_of(out, got) &&
                word_at(bits.at + 4) == (uint32_t)got;
    return good ? got : SIZE_MAX;
}
