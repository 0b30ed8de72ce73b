/* See compact.h. protobuf-c decodes within a memory budget. */
#include "tools/formats/compact.h"
#include "tools/lib/labels.h"
#include "tools/profile/profile.h"
#include "tools/formats/protobuf_budget.h"

#include <stdlib.h>
#include <string.h>

enum {
    MODULES_MAX = 4096,
    NODES_MAX = 1 << 20,
    PROFILES_MAX = 1024,
    TAGS_MAX = 64,
    LOSSES_MAX = 64,
    BUILD_ID_MAX = 64,
    TEXT_MAX = 4096,
    TAG_SETS_MAX = 4096, /* in a segment */
    TAG_SET_MAX = 8192,  /* bytes, as text */
    TAG_SET_ID_MAX = 65535,
    CONTEXTS_MAX = 65536,
    CRASH_THREADS_MAX = 256,
    TIMELINE_THREADS_MAX = 256,
    TIMELINE_PARTS_MAX = 64,
};

static const size_t DECODE_BUDGET = (size_t)192 << 20;

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

/* ---- decoding ---- */

static bool set_reason(const char **why, const char *text)
{
    *why = text;
    return false;
}

static bool text_fits(const char *text)
{
    return strlen(text) <= TEXT_MAX;
}

static bool origin_ok(const Edgeprof__V1__Origin *origin, const char **why)
{
    if (origin->format != 1) {
        return set_reason(why, "unknown format version");
    }
    if (origin->service[0] == '\0') {
        return set_reason(why, "origin without a service");
    }
    if (origin->n_tags > TAGS_MAX) {
        return set_reason(why, "too many tags");
    }
    for (size_t i = 0; i < origin->n_tags; i++) {
        if (origin->tags[i]->key[0] == '\0' || !text_fits(origin->tags[i]->key) || !text_fits(origin->tags[i]->value)) {
            return set_reason(why, "a tag without a key or too long");
        }
    }
    if (!text_fits(origin->service) || !text_fits(origin->host) || !text_fits(origin->boot_id) ||
        !text_fits(origin->executable) || !text_fits(origin->arch) || !text_fits(origin->agent)) {
        return set_reason(why, "a string of the origin is too long");
    }
    return true;
}

static bool columns_ok(const et_message *message, const char **why)
{
    if (message->nodes && message->nodes->n_back != message->nodes->n_frame) {
        return set_reason(why, "columns of nodes differ in length");
    }
    for (size_t i = 0; i < message->n_profiles; i++) {
        const Edgeprof__V1__Profile *profile = message->profiles[i];
        if (profile->n_node != profile->n_value || (profile->n_count && profile->n_count != profile->n_node) ||
            (profile->n_context && profile->n_context != profile->n_node)) {
            return set_reason(why, "columns of a profile differ in length");
        }
    }
    return true;
}

static bool tag_set_ok(const Edgeprof__V1__TagSet *set, const char **why)
{
    if (set->id == 0 || set->id > TAG_SET_ID_MAX || set->n_tags > TAGS_MAX) {
        return set_reason(why, "a tag set's number is out of range, or it has too many tags");
    }
    for (size_t i = 0; i < set->n_tags; i++) {
        const Edgeprof__V1__Tag *tag = set->tags[i];
        if (tag->key[0] == '\0' || !text_fits(tag->key) || !text_fits(tag->value)) {
            return set_reason(why, "a tag without a key or too long");
        }
        for (size_t k = 0; k < i; k++) {
            if (strcmp(tag->key, set->tags[k]->key) == 0) {
                return set_reason(why, "a tag set has a key twice");
            }
        }
    }
    return true;
}

static bool texts_ok(const et_message *message, const char **why)
{
    for (size_t i = 0; i < message->n_tag_sets; i++) {
        if (!tag_set_ok(message->tag_sets[i], why)) {
            return false;
        }
    }
    for (size_t i = 0; i < message->n_contexts; i++) {
        if (!text_fits(message->contexts[i]->thread)) {
            return set_reason(why, "a thread's name is too long");
        }
    }
    return true;
}

/* In a message of its own, with its origin and all nodes. */
static bool crash_ok(const et_message *message, const char **why)
{
    const Edgeprof__V1__Crash *crash = message->crash;
    bool ok = message->origin && crash->n_threads <= CRASH_THREADS_MAX && text_fits(crash->boot_id) &&
              text_fits(crash->executable);
    for (size_t i = 0; ok && i < crash->n_threads; i++) {
        ok = crash->threads[i]->node <= et_message_node_count(message) && text_fits(crash->threads[i]->name);
    }
    return ok ||
           set_reason(why, "a crash without an origin, with too many threads, or with a stack that does not exist");
}

/* Likewise. */
static bool timeline_ok(const et_message *message, const char **why)
{
    const Edgeprof__V1__Timeline *told = message->timeline;
    size_t count = told->n_after, nodes = et_message_node_count(message);
    bool ok = message->origin && told->incident && told->part < TIMELINE_PARTS_MAX && text_fits(told->name) &&
              told->n_threads <= TIMELINE_THREADS_MAX && told->n_what == count && told->n_node == count &&
              told->n_duration == count && told->time_ns < INT64_MAX / 2 && told->value < INT64_MAX / 2 &&
              told->start < (uint64_t)1 << 42;
    for (size_t i = 0; ok && i < told->n_threads; i++) {
        ok = text_fits(told->threads[i]->name);
    }
    uint64_t tick = told->start;
    for (size_t i = 0; ok && i < count; i++) {
        tick += told->after[i];
        ok = told->node[i] <= nodes && told->what[i] >> 4 < told->n_threads && tick < (uint64_t)1 << 42 &&
             told->duration[i] < (uint64_t)1 << 46;
    }
    return ok ||
           set_reason(why, "a timeline without an origin, with columns of different lengths, or with a sample whose "
                           "thread, stack or time does not exist");
}

static bool message_ok(const et_message *message, const char **why)
{
    if (message->segment == 0) {
        return set_reason(why, "no segment");
    }
    if ((message->sequence == 0) != (message->origin != NULL)) {
        return set_reason(why, "sequence 0, and only it, must have an origin");
    }
    if (message->unix_minus_uptime_ns > INT64_MAX / 2) {
        return set_reason(why, "the clock is out of range");
    }
    if (message->origin && !origin_ok(message->origin, why)) {
        return false;
    }
    if (message->n_modules > MODULES_MAX || message->n_profiles > PROFILES_MAX) {
        return set_reason(why, "too many modules or profiles");
    }
    if (message->stats && message->stats->n_losses > LOSSES_MAX) {
        return set_reason(why, "too many losses");
    }
    if (message->n_tag_sets > TAG_SETS_MAX || message->n_contexts > CONTEXTS_MAX) {
        return set_reason(why, "too many tag sets or contexts");
    }
    return columns_ok(message, why) && texts_ok(message, why) && (!message->crash || crash_ok(message, why)) &&
           (!message->timeline || timeline_ok(message, why));
}

/* Texts are shown on terminals and pages. Cleaning never makes a text longer. */
static void clean_text(char *text)
{
    char *sound = et_clean(text, strlen(text));
    size_t size = strlen(sound);
    if (size) {
        memcpy(text, sound, size + 1);
    }
    free(sound);
}

/* As it is stored. */
static void clean_key(char *key)
{
    clean_text(key);
    et_label_escape(key);
}

static bool has_later(const Edgeprof__V1__Origin *origin, size_t tag)
{
    for (size_t i = tag + 1; i < origin->n_tags; i++) {
        if (strcmp(origin->tags[i]->key, origin->tags[tag]->key) == 0) {
            return true;
        }
    }
    return false;
}

/* Removes tags with reserved keys: they would stand beside the origin's service, or for a server's own labels. Of a key
 * the last tag counts, for every reader. Keys are compared as they are stored. */
static void clean_tags(Edgeprof__V1__Origin *origin)
{
    ProtobufCAllocator allocator = et_budget_allocator(NULL);
    size_t kept = 0;
    for (size_t i = 0; i < origin->n_tags; i++) {
        clean_key(origin->tags[i]->key);
        clean_text(origin->tags[i]->value);
    }
    for (size_t i = 0; i < origin->n_tags; i++) {
        Edgeprof__V1__Tag *tag = origin->tags[i];
        if (et_label_reserved(tag->key) || has_later(origin, i)) {
            edgeprof__v1__tag__free_unpacked(tag, &allocator);
        } else {
            origin->tags[kept++] = tag;
        }
    }
    origin->n_tags = kept;
}

static void clean_texts(et_message *message)
{
    Edgeprof__V1__Origin *origin = message->origin;
    if (origin) {
        clean_tags(origin);
        char *texts[] = {origin->service,    origin->host, origin->boot_id,
                         origin->executable, origin->arch, origin->agent};
        for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
            clean_text(texts[i]);
        }
    }
    for (size_t i = 0; i < message->n_modules; i++) {
        clean_text(message->modules[i]->path);
    }
}

et_message *et_message_decode(const void *bytes, size_t size, const char **why)
{
    size_t left = DECODE_BUDGET;
    ProtobufCAllocator allocator = et_budget_allocator(&left);
    et_message *message = size ? edgeprof__v1__message__unpack(&allocator, size, bytes) : NULL;
    if (!message) {
        set_reason(why, "not a compact message");
        return NULL;
    }
    if (!message_ok(message, why)) {
        et_message_free(message);
        return NULL;
    }
    clean_texts(message);
    return message;
}

void et_message_free(et_message *message)
{
    ProtobufCAllocator allocator = et_budget_allocator(NULL);
    edgeprof__v1__message__free_unpacked(message, &allocator);
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
        clean_key(told->tags[i]->key);
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
    for (size_t i = 0; i < message->n_contexts; i++) {
        if (et_segment_labels(segment, message->contexts[i]->tag_set) == SIZE_MAX) {
            return set_reason(why, "a context refers to a tag set that does not exist");
        }
    }
    return true;
}

/* Several contexts at one node: all but the first have difference 0. */
static bool references_ok(const et_message *message, const Edgeprof__V1__Profile *profile, size_t node_count,
                          const char **why)
{
    uint64_t node = 0;
    for (size_t i = 0; i < profile->n_node; i++) {
        bool again = profile->node[i] == 0 && i > 0 && profile->n_context;
        node += profile->node[i];
        if ((profile->node[i] == 0 && !again) || node >= node_count) {
            return set_reason(why, "a profile refers to a node that does not exist");
        }
        if (profile->n_context && profile->context[i] > message->n_contexts) {
            return set_reason(why, "a profile refers to a context that does not exist");
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

void et_message_context(const et_message *message, const struct et_segment *segment, size_t number,
                        struct et_buf *lines)
{
    const Edgeprof__V1__Context *context = message->contexts[number - 1];
    struct et_labels set = {0};
    if (context->thread[0]) {
        et_labels_add(&set, "thread", context->thread);
    }
    et_labels_add_lines(&set, segment->labels[et_segment_labels(segment, context->tag_set)].lines);
    char *joined = et_labels_join(&set);
    et_buf_text(lines, joined);
    free(joined);
}
