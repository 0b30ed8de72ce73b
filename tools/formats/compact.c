/* See compact.h: segments, and what messages refer to in them. compact_decode.c decodes. */
#include "tools/formats/compact_limits.h"
#include "tools/lib/labels.h"
#include "tools/profile/profile.h"

#include <stdlib.h>
#include <string.h>

/* ---- segment ---- */

void et_segment_init(struct et_segment *segment)
{
    *segment = (struct et_segment){0};
    et_segment_add_node(segment, 0, 0);
    et_segment_add_labels(segment, 0, "", 0);
}

void et_segment_free(struct et_segment *segment)
{
    free(segment->spans);
    free(segment->by_base);
    free(segment->depths);
    free(segment->nodes);
    for (size_t i = 0; i < segment->label_count; i++) {
        free(segment->labels[i].lines);
    }
    free(segment->labels);
    et_map_free(&segment->label_ids);
    *segment = (struct et_segment){0};
}

void et_segment_add_node(struct et_segment *s, uint32_t depth, int64_t name)
{
    s->depths = et_reserve(s->depths, &s->depth_capacity, s->node_count + 1, sizeof *s->depths);
    s->nodes = et_reserve(s->nodes, &s->node_capacity, s->node_count + 1, sizeof *s->nodes);
    s->depths[s->node_count] = depth;
    s->nodes[s->node_count++] = name;
}

/* The number of spans whose base is at most `linear`. */
static size_t count_below(const struct et_segment *s, uint64_t linear)
{
    size_t low = 0, high = s->span_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (s->spans[s->by_base[middle]].base <= linear) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

void et_segment_add_span(struct et_segment *s, const struct et_span *span)
{
    size_t place = count_below(s, span->base);
    s->by_base = et_reserve(s->by_base, &s->by_base_capacity, s->span_count + 1, sizeof *s->by_base);
    memmove(s->by_base + place + 1, s->by_base + place, (s->span_count - place) * sizeof *s->by_base);
    s->by_base[place] = (uint32_t)s->span_count;
    s->spans = et_reserve(s->spans, &s->span_capacity, s->span_count + 1, sizeof *s->spans);
    s->spans[s->span_count++] = *span;
}

void et_segment_add_labels(struct et_segment *s, uint32_t id, const char *lines, int64_t name)
{
    s->labels = et_reserve(s->labels, &s->label_capacity, s->label_count + 1, sizeof *s->labels);
    s->labels[s->label_count++] = (struct et_label_set){.id = id, .lines = et_strdup(lines), .name = name};
    *et_map_at(&s->label_ids, id) = s->label_count;
}

size_t et_segment_labels(const struct et_segment *s, uint32_t id)
{
    const uint64_t *found = et_map_find(&s->label_ids, id);
    return found ? (size_t)*found - 1 : SIZE_MAX;
}

struct et_segment_mark et_segment_mark(const struct et_segment *s)
{
    return (struct et_segment_mark){.spans = s->span_count, .nodes = s->node_count, .labels = s->label_count};
}

/* ---- references ---- */

/* The segment's spans do not overlap, so only the last one that begins before the new one's end can. */
static bool overlaps_span(const struct et_segment *segment, const struct et_span *span)
{
    size_t below = count_below(segment, (uint64_t)span->base + span->size - 1);
    const struct et_span *other = below ? &segment->spans[segment->by_base[below - 1]] : NULL;
    return other && span->base < (uint64_t)other->base + other->size;
}

static bool module_ok(const Edgeprof__V1__Module *module, const char **why)
{
    if (module->start < 256 || module->size == 0 || (uint64_t)module->start + module->size > (uint64_t)UINT32_MAX + 1) {
        return set_reason(why, "a module outside the address space");
    }
    if (module->address > UINT64_MAX - module->size) {
        return set_reason(why, "a module's ELF address is out of range");
    }
    if (module->build_id.len > BUILD_ID_MAX || !text_fits(module->path)) {
        return set_reason(why, "a module's build id or path is too long");
    }
    return true;
}

bool et_message_spans(const et_message *message, struct et_segment *segment, const char **why)
{
    if (segment->span_count + message->n_modules > MODULES_MAX) {
        return set_reason(why, "too many modules");
    }
    for (size_t i = 0; i < message->n_modules; i++) {
        const Edgeprof__V1__Module *module = message->modules[i];
        if (!module_ok(module, why)) {
            return false;
        }
        struct et_span span = {.base = module->start, .size = module->size, .address = module->address};
        if (overlaps_span(segment, &span)) {
            return set_reason(why, "modules overlap");
        }
        et_segment_add_span(segment, &span);
    }
    return true;
}

size_t et_message_node_count(const et_message *message)
{
    return message->nodes ? message->nodes->n_back : 0;
}

static bool locate_address(const struct et_segment *segment, uint64_t linear, struct et_wire_node *node)
{
    node->span = 0;
    node->address = linear;
    if (linear < 256) {
        return true;
    }
    size_t below = count_below(segment, linear);
    if (below == 0) {
        return false;
    }
    const struct et_span *span = &segment->spans[segment->by_base[below - 1]];
    node->span = segment->by_base[below - 1] + 1;
    node->address = linear - span->base + span->address;
    return linear - span->base < span->size;
}

static bool crash_frames_ok(const et_message *message, const struct et_wire_node *nodes, const char **why)
{
    size_t frames = 0;
    for (size_t i = 0; i < message->crash->n_threads; i++) {
        uint32_t leaf = message->crash->threads[i]->node;
        frames += leaf ? nodes[leaf - 1].depth : 0;
    }
    return frames <= ET_CRASH_FRAMES || set_reason(why, "the stacks of a crash have too many frames");
}

bool et_message_nodes(const et_message *message, const struct et_segment *segment, struct et_wire_node *nodes,
                      const char **why)
{
    const Edgeprof__V1__Nodes *columns = message->nodes;
    size_t count = et_message_node_count(message), first = segment->node_count;
    if (first + count > NODES_MAX) {
        return set_reason(why, "too many nodes in one segment");
    }
    uint64_t linear = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t own = (uint32_t)(first + i), back = columns->back[i];
        if (back >= own) {
            return set_reason(why, "a node's parent does not exist");
        }
        nodes[i].parent = back ? own - back : 0;
        uint32_t parent = nodes[i].parent;
        nodes[i].depth = 1 + (parent < first ? segment->depths[parent] : nodes[parent - first].depth);
        linear += (uint64_t)columns->frame[i];
        if (nodes[i].depth > ET_MAX_DEPTH) {
            return set_reason(why, "a stack is too deep");
        }
        if (linear > UINT32_MAX || !locate_address(segment, linear, &nodes[i])) {
            return set_reason(why, "a frame outside every module");
        }
    }
    return !message->crash || crash_frames_ok(message, nodes, why);
}

/* ---- labels and profiles ---- */

static bool add_tag_set(const Edgeprof__V1__TagSet *told, struct et_segment *segment, const char **why)
{
    struct et_labels set = {0};
    if (et_segment_labels(segment, told->id) != SIZE_MAX || segment->label_count > TAG_SETS_MAX) {
        return set_reason(why, "a tag set is repeated, or there are too many");
    }
    for (size_t i = 0; i < told->n_tags; i++) {
        et_compact_clean_key(told->tags[i]->key);
        if (!et_label_reserved(told->tags[i]->key)) {
            et_labels_add(&set, told->tags[i]->key, told->tags[i]->value);
        }
    }
    char *lines = et_labels_join(&set);
    bool fits = strlen(lines) <= TAG_SET_MAX;
    if (fits) {
        et_segment_add_labels(segment, told->id, lines, 0);
    }
    free(lines);
    return fits || set_reason(why, "a tag set is too long");
}

bool et_message_labels(const et_message *message, struct et_segment *segment, const char **why)
{
    for (size_t i = 0; i < message->n_tag_sets; i++) {
        if (!add_tag_set(message->tag_sets[i], segment, why)) {
            return false;
        }
    }
    for (size_t i = 0; i < message->n_label_sets; i++) {
        if (et_segment_labels(segment, message->label_sets[i]->tag_set) == SIZE_MAX) {
            return set_reason(why, "a label set refers to a tag set that does not exist");
        }
    }
    return true;
}

/* Several label sets at one node: all but the first have difference 0. */
static bool references_ok(const et_message *message, const Edgeprof__V1__Profile *profile, size_t node_count,
                          const char **why)
{
    uint64_t node = 0;
    for (size_t i = 0; i < profile->n_node; i++) {
        bool again = profile->node[i] == 0 && i > 0 && profile->n_label_set;
        node += profile->node[i];
        if ((profile->node[i] == 0 && !again) || node >= node_count) {
            return set_reason(why, "a profile refers to a node that does not exist");
        }
        if (profile->n_label_set && profile->label_set[i] > message->n_label_sets) {
            return set_reason(why, "a profile refers to a label set that does not exist");
        }
    }
    return true;
}

bool et_message_profile(const et_message *message, size_t number, size_t node_count, const char **why)
{
    const Edgeprof__V1__Profile *profile = message->profiles[number];
    uint64_t sum = 0, count = 0;
    if (profile->quantum == 0 || profile->duration_ns > INT64_MAX / 2 || profile->start_ns > INT64_MAX / 2) {
        return set_reason(why, "a profile's quantum or time is out of range");
    }
    for (size_t i = 0; i < profile->n_node; i++) {
        if (profile->value[i] > INT64_MAX / profile->quantum ||
            (sum += profile->value[i] * profile->quantum) > INT64_MAX) {
            return set_reason(why, "a profile's values are too large");
        }
        if (profile->n_count && (count += profile->count[i]) > INT64_MAX) {
            return set_reason(why, "a profile's counts are too large");
        }
    }
    return references_ok(message, profile, node_count, why);
}

void et_message_label_set(const et_message *message, const struct et_segment *segment, size_t number,
                          struct et_buf *lines)
{
    const Edgeprof__V1__LabelSet *labels = message->label_sets[number - 1];
    struct et_labels set = {0};
    if (labels->thread[0]) {
        et_labels_add(&set, "thread", labels->thread);
    }
    et_labels_add_lines(&set, segment->labels[et_segment_labels(segment, labels->tag_set)].lines);
    char *joined = et_labels_join(&set);
    et_buf_text(lines, joined);
    free(joined);
}
