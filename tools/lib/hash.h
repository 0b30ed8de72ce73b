/*
 * Hashes with a random key of this process, for tables whose keys come from senders: nobody can choose keys that
 * collide. The values differ from run to run, so they may not be stored or decide an order.
 */
#ifndef ET_HASH_H
#define ET_HASH_H

#include <stddef.h>
#include <stdint.h>

uint64_t et_hash_number(uint64_t number);
uint64_t et_hash_pair(uint64_t first, uint64_t second);
uint64_t et_hash_bytes(const void *bytes, size_t size);

/* SipHash-2-4 with this key. */
uint64_t et_hash_keyed(const uint64_t key[2], const void *bytes, size_t size);

#endif
