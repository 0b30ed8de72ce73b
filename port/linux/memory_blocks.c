/*
 * The table of followed blocks: an index from addresses to places of the live heap's table (core/features/live/live.c).
 * No lock: each entry is one word that is written by compare-and-swap.
 *
 *   ep_blocks_add     entry {address, token} in the bucket of its hash or in the next one; held[token - 1] = ~address
 *   ep_blocks_remove  takes the entry out
 *   ep_blocks_gone    held[token - 1] = 0: for the collect thread this is a weak reference whose object is gone
 *
 * Entries may be left over: the collect thread gives up a place (the table is thinned, a forked child starts its own
 * profiler), or a block was freed by a function that is not hooked. The next user of the place, or of the address,
 * removes them. No word here is the address of a block: LeakSanitizer, valgrind and conservative collectors would take
 * it for a reference. Whoever takes an entry out counts its byte of the filter down, so the filter stays exact.
 */
#include "memory_blocks.h"

#include <edgeprof/hooks.h>

#define PLACES     4096u
#define PLACE_BITS 12
#define BUCKET     8u /* entries; one cache line */
#define BUCKETS    1024u
#define SEARCHED   (2 * BUCKET)
#define SEEN_MOST  250u
#define PAGE       4096u /* or more: every page's address is a multiple */
#define WIDE       512u  /* pages: an allocator gives up so many with blocks in them */

_Static_assert(PLACES == 1u << PLACE_BITS, "an entry has the place in its lowest bits");
_Static_assert(BUCKETS << 5 == 1u << EP_BLOCKS_HASH_BITS, "the bucket is the hash without its lowest bits");

void (*ep_blocks_added)(void);
atomic_uchar ep_blocks_seen[1u << EP_BLOCKS_HASH_BITS];
/* The lower bits of an address, without what the processor ignores, and its place. 0: free. */
static _Alignas(64) _Atomic uint64_t index_of[BUCKETS * BUCKET];
static atomic_uintptr_t held[PLACES];
/* Of a mapping: pages from its first to its last address, those that are still mapped, and those that it had at first.
 * 0: a block of an allocator. */
static atomic_uint pages[PLACES], mapped_pages[PLACES], first_pages[PLACES];
static atomic_uint left[PLACES]; /* struct ep_live_table.left */
static atomic_uint mappings;     /* that have been followed so far */
static struct ep_live_place place[PLACES];

static uint64_t entry_of(const void *block, uint32_t token)
{
    return (uint64_t)(uintptr_t)block << PLACE_BITS | (token - 1);
}

/* The place of an entry for the block's hash: `i` below SEARCHED. */
static _Atomic uint64_t *entry_at(const void *block, unsigned i)
{
    return &index_of[((ep_blocks_hash(block) >> 5) * BUCKET + i) % (BUCKETS * BUCKET)];
}

static void count_down(const void *block)
{
    (void)atomic_fetch_sub_explicit(&ep_blocks_seen[ep_blocks_hash(block)], 1, memory_order_relaxed);
}

static bool entry_put(const void *block, uint32_t token)
{
    atomic_uchar *seen = &ep_blocks_seen[ep_blocks_hash(block)];

    if (atomic_fetch_add_explicit(seen, 1, memory_order_relaxed) < SEEN_MOST) {
        for (unsigned i = 0; i < SEARCHED; i++) {
            uint64_t nothing = 0;
            if (atomic_compare_exchange_strong(entry_at(block, i), &nothing, entry_of(block, token)))
                return true;
        }
    }
    count_down(block);
    return false;
}

/* Takes the entry of a block out that has exactly this token. */
static void entry_drop(const void *block, uint32_t token)
{
    for (unsigned i = 0; i < SEARCHED; i++) {
        uint64_t entry = entry_of(block, token);
        if (atomic_compare_exchange_strong(entry_at(block, i), &entry, 0)) {
            count_down(block);
            return;
        }
    }
}

uint32_t ep_blocks_remove(const void *block)
{
    for (unsigned i = 0; i < SEARCHED; i++) {
        _Atomic uint64_t *at = entry_at(block, i);
        uint64_t entry = atomic_load_explicit(at, memory_order_relaxed);
        if (!entry || (entry ^ entry_of(block, 1)) >> PLACE_BITS)
            continue;
        if (!atomic_compare_exchange_strong(at, &entry, 0))
            continue;
        count_down(block);
        return (uint32_t)(entry & (PLACES - 1)) + 1;
    }
    return 0;
}

void ep_blocks_gone(const void *block, uint32_t token)
{
    uintptr_t expected = ~(uintptr_t)block;

    (void)atomic_compare_exchange_strong(&held[token - 1], &expected, 0);
}

void ep_blocks_restore(const void *block, uint32_t token)
{
    if (!entry_put(block, token))
        ep_blocks_gone(block, token);
}

static void pages_set(uint32_t token, unsigned count)
{
    atomic_store_explicit(&mapped_pages[token - 1], count, memory_order_relaxed);
    atomic_store_explicit(&first_pages[token - 1], count, memory_order_relaxed);
    atomic_store_explicit(&left[token - 1], EP_LIVE_WHOLE, memory_order_relaxed);
    atomic_store_explicit(&pages[token - 1], count, memory_order_relaxed);
    if (count)
        (void)atomic_fetch_add_explicit(&mappings, 1, memory_order_relaxed);
}

bool ep_blocks_add(const void *block, size_t mapped, uint32_t token)
{
    uint32_t old = ep_blocks_may_have(block) ? ep_blocks_remove(block) : 0;
    uintptr_t before = atomic_exchange(&held[token - 1], ~(uintptr_t)block);

    if (old && old != token)
        ep_blocks_gone(block, old);
    if (ep_blocks_added)
        ep_blocks_added();
    if (before)
        entry_drop((const void *)~before, token);
    pages_set(token, (unsigned)((mapped + PAGE - 1) / PAGE));
    if (entry_put(block, token))
        return true;
    ep_blocks_gone(block, token);
    return false;
}

/* Takes pages off a mapping. False: none is left. */
static bool pages_less(uint32_t token, unsigned less)
{
    unsigned count = atomic_load_explicit(&mapped_pages[token - 1], memory_order_relaxed);
    const unsigned first = atomic_load_explicit(&first_pages[token - 1], memory_order_relaxed);

    if (less >= count || !first)
        return false;
    count -= less;
    atomic_store_explicit(&mapped_pages[token - 1], count, memory_order_relaxed);
    atomic_store_explicit(&left[token - 1], (unsigned)((uint64_t)count * EP_LIVE_WHOLE / first), memory_order_relaxed);
    return true;
}

/* The first `cut` pages are unmapped: the rest has another address. */
static void cut_front(const void *block, uint32_t token, unsigned cut, unsigned count)
{
    const void *rest = (const char *)block + (size_t)cut * PAGE;
    uintptr_t expected = ~(uintptr_t)block;

    if (ep_blocks_remove(block) != token)
        return;
    if (cut >= count || !pages_less(token, cut)) {
        ep_blocks_gone(block, token);
    } else if (atomic_compare_exchange_strong(&held[token - 1], &expected, ~(uintptr_t)rest)) {
        atomic_store_explicit(&pages[token - 1], count - cut, memory_order_relaxed);
        ep_blocks_restore(rest, token);
    }
}

static void cut_behind(const void *block, uint32_t token, unsigned from, unsigned to)
{
    const unsigned count = atomic_load_explicit(&pages[token - 1], memory_order_relaxed);

    if (to >= count) {
        to = count;
        atomic_store_explicit(&pages[token - 1], from, memory_order_relaxed);
    }
    if (!pages_less(token, to - from) && ep_blocks_remove(block) == token)
        ep_blocks_gone(block, token);
}

/* An address range is unmapped that begins in the mapping, or in front of it. */
static void unmap_one(uint32_t token, unsigned count, uintptr_t first, uintptr_t end)
{
    const uintptr_t word = atomic_load_explicit(&held[token - 1], memory_order_relaxed), start = ~word;

    if (!word || end <= start || first >= start + (count ? (uintptr_t)count * PAGE : 1))
        return;
    const unsigned to = (unsigned)((end - start + PAGE - 1) / PAGE);
    if (first <= start)
        cut_front((const void *)start, token, to, count);
    else
        cut_behind((const void *)start, token, (unsigned)((first - start) / PAGE), to);
}

void ep_blocks_unmapped(const void *start, size_t size)
{
    const uintptr_t first = (uintptr_t)start, end = first + size;

    if (size / PAGE <= WIDE && atomic_load_explicit(&mappings, memory_order_relaxed) == 0)
        return;
    for (unsigned i = 0; i < PLACES; i++) {
        const unsigned count = atomic_load_explicit(&pages[i], memory_order_relaxed);
        if (count || size / PAGE > WIDE)
            unmap_one(i + 1, count, first, end);
    }
}

void ep_blocks_mark(const void *block)
{
    (void)atomic_fetch_add_explicit(&ep_blocks_seen[ep_blocks_hash(block)], 1, memory_order_relaxed);
}

int ep_blocks_attach(void)
{
    static const atomic_uint collections; /* there are none, so each block counts at once */
    static const struct ep_live_table table = {
        .place = place, .places = PLACES, .collections = &collections, .left = left};

    for (unsigned i = 0; i < PLACES; i++)
        place[i].object = &held[i];
    return ep_live_attach(&table);
}
