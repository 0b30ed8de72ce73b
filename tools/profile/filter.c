/* See filter.h. A frame is matched once; a node inherits what its callers match, which come before it. */
#include "tools/profile/filter.h"

#include <stdlib.h>

enum { FOCUSED = 1, IGNORED = 2, KNOWN = 4 };

struct filter {
    const struct et_pattern *focus, *ignore;
    unsigned found;
};

static void match_line(void *context, const char *function, const char *file, uint32_t line)
{
    struct filter *filter = context;
    (void)line;
    if (filter->focus && (et_pattern_matches(filter->focus, function) || et_pattern_matches(filter->focus, file))) {
        filter->found |= FOCUSED;
    }
    if (filter->ignore && (et_pattern_matches(filter->ignore, function) || et_pattern_matches(filter->ignore, file))) {
        filter->found |= IGNORED;
    }
}

uint64_t et_profile_filter(struct et_profile *p, const struct et_pattern *focus, const struct et_pattern *ignore)
{
    unsigned char *frames = et_alloc(p->frame_count, 1), *nodes = et_alloc(p->node_count, 1);
    struct filter filter = {.focus = focus, .ignore = ignore};
    uint64_t total = p->total, kept;
    for (size_t i = 1; i < p->node_count; i++) {
        uint32_t frame = p->nodes[i].frame;
        if (!frames[frame]) {
            filter.found = KNOWN;
            et_profile_lines(p, &p->frames[frame], false, match_line, &filter);
            frames[frame] = (unsigned char)filter.found;
        }
        nodes[i] = nodes[p->nodes[i].parent] | frames[frame];
    }
    for (size_t i = 0; i < p->entry_count; i++) {
        struct et_entry *entry = &p->entries[i];
        if ((focus && !(nodes[entry->node] & FOCUSED)) || (nodes[entry->node] & IGNORED)) {
            p->values -= entry->value;
            p->counts -= entry->count;
            entry->value = entry->count = 0;
        }
    }
    et_profile_show(p, p->measure);
    kept = p->total;
    p->total = total;
    free(frames);
    free(nodes);
    return kept;
}
