/*
 * See hash.h. SipHash (Aumasson, Bernstein 2012): 2-4 for bytes; numbers are whole blocks of the same number, so they
 * need no block for the length, and 1-3 rounds as in other languages' hash tables.
 */
#include "tools/lib/hash.h"

#include <endian.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/random.h>

static uint64_t process_key[2];

/* Before main(), so that no lookup has to ask. Without random numbers yet (early at boot), the kernel's 16 random bytes
 * for this process serve. */
__attribute__((constructor)) static void make_key(void)
{
    if (getrandom(process_key, sizeof process_key, GRND_NONBLOCK) != (ssize_t)sizeof process_key) {
        const void *bytes = (const void *)getauxval(AT_RANDOM);
        memcpy(process_key, bytes ? bytes : "edgeprof's table", sizeof process_key);
    }
}

struct sip {
    uint64_t v[4];
};

static inline uint64_t rotate(uint64_t x, unsigned bits)
{
    return x << bits | x >> (64 - bits);
}

static inline void sip_rounds(struct sip *s, int count)
{
    for (int i = 0; i < count; i++) {
        s->v[0] += s->v[1];
        s->v[2] += s->v[3];
        s->v[1] = rotate(s->v[1], 13) ^ s->v[0];
        s->v[3] = rotate(s->v[3], 16) ^ s->v[2];
        s->v[0] = rotate(s->v[0], 32);
        s->v[2] += s->v[1];
        s->v[0] += s->v[3];
        s->v[1] = rotate(s->v[1], 17) ^ s->v[2];
        s->v[3] = rotate(s->v[3], 21) ^ s->v[0];
        s->v[2] = rotate(s->v[2], 32);
    }
}

static inline struct sip sip_begin(const uint64_t key[2])
{
    return (struct sip){{key[0] ^ 0x736f6d6570736575u, key[1] ^ 0x646f72616e646f6du, key[0] ^ 0x6c7967656e657261u,
                         key[1] ^ 0x7465646279746573u}};
}

static inline void sip_block(struct sip *s, uint64_t block, int rounds)
{
    s->v[3] ^= block;
    sip_rounds(s, rounds);
    s->v[0] ^= block;
}

static inline uint64_t sip_end(struct sip *s, int rounds)
{
    s->v[2] ^= 0xff;
    sip_rounds(s, rounds);
    return s->v[0] ^ s->v[1] ^ s->v[2] ^ s->v[3];
}

uint64_t et_hash_number(uint64_t number)
{
    struct sip s = sip_begin(process_key);
    sip_block(&s, number, 1);
    return sip_end(&s, 3);
}

uint64_t et_hash_pair(uint64_t first, uint64_t second)
{
    struct sip s = sip_begin(process_key);
    sip_block(&s, first, 1);
    sip_block(&s, second, 1);
    return sip_end(&s, 3);
}

/* Less than 8 bytes, the first one lowest. */
static inline uint64_t read_block(const uint8_t *bytes, size_t size)
{
    uint64_t block = 0;
    for (size_t i = 0; i < size; i++) {
        block |= (uint64_t)bytes[i] << 8 * i;
    }
    return block;
}

uint64_t et_hash_keyed(const uint64_t key[2], const void *bytes, size_t size)
{
    struct sip s = sip_begin(key);
    const uint8_t *at = bytes;
    size_t left = size;
    for (; left >= 8; at += 8, left -= 8) {
        uint64_t block;
        memcpy(&block, at, sizeof block);
        sip_block(&s, le64toh(block), 2);
    }
    sip_block(&s, read_block(at, left) | (uint64_t)size << 56, 2);
    return sip_end(&s, 4);
}

uint64_t et_hash_bytes(const void *bytes, size_t size)
{
    return et_hash_keyed(process_key, bytes, size);
}
