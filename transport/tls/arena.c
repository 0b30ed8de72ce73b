/*
 * calloc and free for mbedtls, in the caller's memory. First fit from the bottom, so the highest byte ever used is the
 * size that would have been enough. Each block follows a header with its size; free neighbours are joined during the
 * search. Freed blocks are wiped, so no key stays in memory on any path.
 *
 * One thread at a time, like all of TLS. No checks: memory to be freed must be from here.
 */
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "internal.h"

struct block {
    size_t size; /* size of the block with its header, a multiple of ALIGN; lowest bit: in use */
    size_t unused[16 / sizeof(size_t) - 1];
};

#define ALIGN sizeof(struct block)
#define USED  ((size_t)1)

static uint8_t *start, *end;
static _Atomic size_t peak;
static bool was_short;

_Static_assert(sizeof(struct block) == 16, "blocks are aligned to their header's size");

void ep_tls_wipe(void *bytes, size_t size)
{
    memset(bytes, 0, size);
    __asm__ volatile("" ::"r"(bytes) : "memory");
}

void ep_tls_arena_set(void *memory, size_t size)
{
    start = memory;
    end = start + size / ALIGN * ALIGN;
    if (start != end)
        *(struct block *)(void *)start = (struct block){.size = (size_t)(end - start)};
    atomic_store(&peak, 0);
}

size_t ep_tls_arena_peak(void)
{
    return atomic_load_explicit(&peak, memory_order_relaxed);
}

bool ep_tls_arena_short(void)
{
    bool answer = was_short;

    was_short = false;
    return answer;
}

static struct block *block_after(struct block *block)
{
    return (struct block *)(void *)((uint8_t *)block + (block->size & ~USED));
}

/* Joins a free block with the free blocks behind it. */
static void join_free(struct block *block)
{
    for (struct block *next = block_after(block); (uint8_t *)next < end && !(next->size & USED);
         next = block_after(block))
        block->size += next->size;
}

static void *block_use(struct block *block, size_t size)
{
    if (block->size > size) {
        struct block *rest = (struct block *)(void *)((uint8_t *)block + size);
        rest->size = block->size - size;
        block->size = size;
    }
    size_t reach = (size_t)((uint8_t *)block - start) + size;
    if (reach > ep_tls_arena_peak())
        atomic_store_explicit(&peak, reach, memory_order_relaxed);
    block->size |= USED;
    return memset(block + 1, 0, size - sizeof *block);
}

void *ep_tls_calloc(size_t count, size_t size)
{
    size_t wanted;
    bool before = was_short;

    was_short = true;
    if (__builtin_mul_overflow(count, size, &wanted) || wanted > (size_t)(end - start))
        return NULL;
    wanted = (wanted + sizeof(struct block) + ALIGN - 1) / ALIGN * ALIGN;
    for (struct block *block = (struct block *)(void *)start; (uint8_t *)block < end; block = block_after(block)) {
        if (block->size & USED)
            continue;
        join_free(block);
        if (block->size < wanted)
            continue;
        was_short = before;
        return block_use(block, wanted);
    }
    return NULL;
}

void ep_tls_free(void *memory)
{
    if (!memory)
        return;
    struct block *block = (struct block *)memory - 1;
    block->size &= ~USED;
    ep_tls_wipe(memory, block->size - sizeof *block);
}
