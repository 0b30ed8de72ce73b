/* See protobuf_budget.h. Freed memory is not returned to the budget: decoding frees only after it has failed. */
#include "tools/formats/protobuf_budget.h"

#include <stddef.h>
#include <stdlib.h>

static void *budget_alloc(void *data, size_t size)
{
    size_t *left = data;
    if (size > *left) {
        return NULL;
    }
    *left -= size;
    return malloc(size);
}

static void budget_free(void *data, void *memory)
{
    (void)data;
    free(memory);
}

ProtobufCAllocator et_budget_allocator(size_t *left)
{
    return (ProtobufCAllocator){.alloc = budget_alloc, .free = budget_free, .allocator_data = left};
}

/* ---- blocks ---- */

struct et_arena_block {
    struct et_arena_block *next;
    size_t room;
    max_align_t first;
};

/* A piece that does not fit in the last block begins another one, which is twice as large. */
static void *arena_alloc(void *data, size_t size)
{
    enum { ALIGN = _Alignof(max_align_t), FIRST = 16 << 10, MOST = 1 << 20 };
    struct et_arena *arena = data;
    size_t need = (size + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    if (need < size || need > arena->left) {
        return NULL;
    }
    if (need > arena->room) {
        size_t room = arena->size ? arena->size * 2 : FIRST;
        arena->size = room < MOST ? room : MOST;
        room = need > arena->size ? need : arena->size;
        struct et_arena_block *block = malloc(offsetof(struct et_arena_block, first) + room);
        if (!block) {
            return NULL;
        }
        *block = (struct et_arena_block){.next = arena->blocks, .room = room};
        arena->blocks = block;
        arena->at = (char *)&block->first;
        arena->room = room;
    }
    char *piece = arena->at;
    arena->at += need;
    arena->room -= need;
    arena->left -= need;
    return piece;
}

static void arena_free_piece(void *data, void *memory)
{
    (void)data;
    (void)memory;
}

ProtobufCAllocator et_arena_allocator(struct et_arena *arena)
{
    return (ProtobufCAllocator){.alloc = arena_alloc, .free = arena_free_piece, .allocator_data = arena};
}

void et_arena_reset(struct et_arena *arena)
{
    enum { KEPT = 64 << 10 };
    struct et_arena_block *last = arena->blocks;
    if (!last || last->room > KEPT) {
        et_arena_free(arena);
        return;
    }
    struct et_arena older = {.blocks = last->next};
    et_arena_free(&older);
    last->next = NULL;
    *arena = (struct et_arena){.blocks = last, .at = (char *)&last->first, .room = last->room, .size = last->room};
}

void et_arena_free(struct et_arena *arena)
{
    while (arena->blocks) {
        struct et_arena_block *block = arena->blocks;
        arena->blocks = block->next;
        free(block);
    }
    *arena = (struct et_arena){0};
}
