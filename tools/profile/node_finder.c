/* See node_finder.h. */
#include "tools/profile/node_finder.h"
#include "tools/lib/hash.h"
#include "tools/lib/labels.h"

#include <stdlib.h>
#include <string.h>

static uint32_t *node_slot(const struct et_node_finder *f, uint32_t parent, uint32_t frame)
{
    size_t mask = f->slot_count - 1, i = (size_t)et_hash_number((uint64_t)parent << 32 | frame) & mask;
    const struct et_node *nodes = f->profile->nodes;
    while (f->slots[i] && (nodes[f->slots[i]].parent != parent || nodes[f->slots[i]].frame != frame)) {
        i = (i + 1) & mask;
    }
    return &f->slots[i];
}

static void grow_slots(struct et_node_finder *f)
{
    enum { FIRST = 1024 };
    free(f->slots);
    f->slot_count = f->slot_count ? f->slot_count * 2 : FIRST;
    f->slots = et_alloc(f->slot_count, sizeof *f->slots);
    for (size_t i = 1; i < f->profile->node_count; i++) {
        *node_slot(f, f->profile->nodes[i].parent, f->profile->nodes[i].frame) = (uint32_t)i;
    }
}

static uint32_t find_child(struct et_node_finder *f, uint32_t parent, uint32_t frame)
{
    if (f->profile->node_count * 2 >= f->slot_count) {
        grow_slots(f);
    }
    uint32_t *slot = node_slot(f, parent, frame);
    *slot = *slot ? *slot : et_profile_node(f->profile, parent, frame);
    return *slot;
}

/* Stacks one after another often have the frames next to the root in common. */
uint32_t et_node_find(struct et_node_finder *f, const uint32_t *stack, size_t depth)
{
    size_t same = 0;
    while (same < depth && same < f->depth && f->path[same].frame == stack[depth - 1 - same]) {
        same++;
    }
    uint32_t node = same ? f->path[same - 1].node : 0;
    for (size_t i = same; i < depth; i++) {
        uint32_t frame = stack[depth - 1 - i];
        node = find_child(f, node, frame);
        f->path[i] = (struct et_node_step){.frame = frame, .node = node};
    }
    f->depth = depth;
    return node;
}

void et_node_finder_free(struct et_node_finder *f)
{
    free(f->slots);
    f->slots = NULL;
}

uint32_t et_profile_sent_module(struct et_profile *profile, const char *build_id, const char *path)
{
    char *id = et_clean(build_id, strlen(build_id)), *clean = et_clean(path, strlen(path));
    uint32_t module = et_profile_module(profile, strlen(id) <= 128 && et_is_hex(id, strlen(id)) ? id : "", clean);
    free(id);
    free(clean);
    return module;
}
