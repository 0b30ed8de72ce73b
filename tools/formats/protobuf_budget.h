/*
 * A memory budget for protobuf-c's decoding. A few bytes can require much memory (empty repeated messages), and the
 * server must survive that.
 */
#ifndef ET_PROTOBUF_BUDGET_H
#define ET_PROTOBUF_BUDGET_H

#include <protobuf-c/protobuf-c.h>

/* Allocates until *left is used up. left: NULL for freeing only. */
ProtobufCAllocator et_budget_allocator(size_t *left);

/* The same for a message that is only read: its pieces come from large blocks and are freed together. Set `left` to
 * the budget; the rest is zeroed. */
struct et_arena {
    size_t left;
    struct et_arena_block *blocks;
    char *at;
    size_t room, size; /* of the last block */
};

/* The message is valid until et_arena_free(); nothing else frees it. */
ProtobufCAllocator et_arena_allocator(struct et_arena *arena);
void et_arena_free(struct et_arena *arena);
/* The same for the next message: keeps a block if it is small. */
void et_arena_reset(struct et_arena *arena);

#endif
