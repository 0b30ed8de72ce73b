/* See granularity.h. */
#include "tools/profile/granularity.h"

#include <stdlib.h>
#include <string.h>

bool et_granularity_read(const char *word, enum et_granularity *out)
{
    static const char *const words[] = {"function", "functions", "line", "lines"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(word, words[i]) == 0) {
            *out = i < 2 ? ET_GRANULARITY_FUNCTION : ET_GRANULARITY_LINE;
            return true;
        }
    }
    return false;
}

void et_profile_name_lines(struct et_profile *p, enum et_granularity granularity)
{
    struct et_buf name = {0};
    for (size_t i = 0; granularity == ET_GRANULARITY_LINE && i < p->line_count; i++) {
        struct et_line *line = &p->lines[i];
        const char *file = et_text(&p->strings, line->file);
        name.size = 0;
        et_buf_text(&name, et_text(&p->strings, line->function));
        if (line->line) {
            et_buf_printf(&name, " %s:%u", file, line->line);
        } else if (line->file) {
            et_buf_printf(&name, " %s", file);
        }
        line->function = et_intern(&p->strings, name.data);
    }
    p->by_line |= granularity == ET_GRANULARITY_LINE;
    et_buf_free(&name);
}

/* ---- merging ---- */

static void drop_addresses(struct et_profile *p, bool numbers)
{
    for (size_t i = 0; i < p->line_count && !numbers; i++) {
        p->lines[i].line = 0;
    }
    for (size_t i = 0; i < p->frame_count; i++) {
        p->frames[i].address = p->frames[i].module && p->frames[i].line_count ? 0 : p->frames[i].address;
    }
}

/* For each frame the first one that equals it. */
static uint32_t *equal_frames(const struct et_profile *p)
{
    struct et_strings keys = {0};
    struct et_map first = {0}; /* key -> frame + 1 */
    struct et_buf key = {0};
    uint32_t *equal = et_alloc(p->frame_count, sizeof *equal);
    for (size_t i = 0; i < p->frame_count; i++) {
        const struct et_frame *frame = &p->frames[i];
        key.size = 0;
        et_buf_printf(&key, "%u %llu", frame->module, (unsigned long long)frame->address);
        for (uint32_t k = 0; k < frame->line_count; k++) {
            const struct et_line *line = &p->lines[frame->first_line + k];
            et_buf_printf(&key, " %u %u %u", line->function, line->file, line->line);
        }
        uint64_t *known = et_map_at(&first, et_intern(&keys, key.data));
        *known = *known ? *known : i + 1;
        equal[i] = (uint32_t)*known - 1;
    }
    et_buf_free(&key);
    et_map_free(&first);
    et_strings_free(&keys);
    return equal;
}

/* For each node its new number. */
static uint32_t *merge_nodes(struct et_profile *p, const uint32_t *equal)
{
    struct et_map children = {0}; /* parent << 32 | frame -> node */
    uint32_t *moved = et_alloc(p->node_count, sizeof *moved);
    size_t kept = 1;
    for (size_t i = 1; i < p->node_count; i++) {
        struct et_node node = p->nodes[i];
        node.parent = moved[node.parent];
        node.frame = equal[node.frame];
        uint64_t *known = et_map_at(&children, (uint64_t)node.parent << 32 | node.frame);
        if (*known) {
            p->nodes[*known].self += node.self;
        } else {
            *known = kept;
            p->nodes[kept++] = node;
        }
        moved[i] = (uint32_t)*known;
    }
    p->node_count = kept;
    et_map_free(&children);
    return moved;
}

static void merge_entries(struct et_profile *p, const uint32_t *moved)
{
    struct et_map index = {0}; /* node << 32 | labels -> entry + 1 */
    size_t kept = 0;
    for (size_t i = 0; i < p->entry_count; i++) {
        struct et_entry entry = p->entries[i];
        entry.node = moved[entry.node];
        uint64_t *known = et_map_at(&index, (uint64_t)entry.node << 32 | entry.labels);
        if (*known) {
            p->entries[*known - 1].count += entry.count;
            p->entries[*known - 1].value += entry.value;
        } else {
            p->entries[kept++] = entry;
            *known = kept;
        }
    }
    p->entry_count = kept;
    et_map_free(&index);
}

void et_profile_aggregate(struct et_profile *p, enum et_granularity granularity)
{
    if (granularity == ET_GRANULARITY_DEFAULT) {
        return;
    }
    drop_addresses(p, granularity == ET_GRANULARITY_LINE);
    uint32_t *equal = equal_frames(p), *moved = merge_nodes(p, equal);
    merge_entries(p, moved);
    free(equal);
    free(moved);
}
