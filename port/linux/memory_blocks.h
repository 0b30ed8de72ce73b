/*
 * The sampled blocks and mappings of native memory that are in use, by address, and a filter in front of them. Private
 * to the memory hooks (memory.c). A token is 1 + the index of a place in the live heap's table.
 *
 * The program owns a block while a function here is called for it. So two threads never add or remove the same address
 * at once.
 */
#ifndef EP_LINUX_MEMORY_BLOCKS_H
#define EP_LINUX_MEMORY_BLOCKS_H

#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EP_BLOCKS_HASH_BITS 15

/* By hash: the number of followed blocks. A byte each, so that the filter of a full table is in the nearest cache. */
extern atomic_uchar ep_blocks_seen[1u << EP_BLOCKS_HASH_BITS];

/* Blocks are multiples of 16 bytes apart on 64 bits; the product's upper bits depend on all bits of the address. */
static inline unsigned ep_blocks_hash(const void *block)
{
    const uintptr_t golden = (uintptr_t)UINT64_C(0x9e3779b97f4a7c15);

    return (unsigned)(((uintptr_t)block >> 4) * golden >> (sizeof(uintptr_t) * CHAR_BIT - EP_BLOCKS_HASH_BITS));
}

/* False: the block is not followed. Context: any thread. */
static inline bool ep_blocks_may_have(const void *block)
{
    return atomic_load_explicit(&ep_blocks_seen[ep_blocks_hash(block)], memory_order_relaxed) != 0;
}

/* Registers the table with ep_live_attach(). Returns what that returns. Context: init. */
int ep_blocks_attach(void);

/* Follows a new block until ep_blocks_gone(). mapped: its bytes, if it is a mapping. False: there is no room for its
 * address; give the token back. Context: any thread. */
bool ep_blocks_add(const void *block, size_t mapped, uint32_t token);

/* Forgets the address. Returns the block's token, 0: it is not followed. To be followed by ep_blocks_gone() or
 * ep_blocks_restore(). Context: any thread. */
uint32_t ep_blocks_remove(const void *block);
/* The block is not in use any more. Context: any thread. */
void ep_blocks_gone(const void *block, uint32_t token);
/* The block is still in use: realloc() failed. Context: any thread. */
void ep_blocks_restore(const void *block, uint32_t token);

/* Called after ep_blocks_add(); NULL: nothing to do. Context: any thread. */
extern void (*ep_blocks_added)(void);

/* These addresses are not mapped any more. A mapping of which a part is left keeps that part of its weight. While
 * mappings are followed this looks at all places. Context: any thread. */
void ep_blocks_unmapped(const void *start, size_t size);

/* Makes ep_blocks_may_have() true for the block for ever. Context: any thread. */
void ep_blocks_mark(const void *block);

#endif
