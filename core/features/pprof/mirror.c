/*
 * See mirror.h. Fields are read in the order in which compact.c writes them: nodes, tag sets and label sets in front of
 * the profiles that refer to them.
 *
 *   ep_mirror_read -> field_read -> module_read, nodes_read, tag_set_read, label_set_read, profile_read, stats_read
 */
#include "core/features/pprof/mirror.h"
#include "core/sample/capture.h"

#include <errno.h>
#include <string.h>

#if EP_MIRROR_NODES < 1024 || EP_MIRROR_NODES > 65504 || EP_MIRROR_NODES % 32 != 0
#error "EP_MIRROR_NODES must be a multiple of 32, 1024..65504"
#endif

#define TAGS_MOST 32u /* of a set */

/* Field numbers of core/proto/compact.proto. */
enum {
    SEGMENT = 1,
    SEQUENCE = 2,
    ORIGIN = 3,
    MODULES = 4,
    NODES = 5,
    PROFILES = 6,
    STATS = 7,
    TAG_SETS = 10,
    LABEL_SETS = 11,
    MORE = 12
};
enum { MODULE_BASE = 1, MODULE_SIZE = 2, MODULE_ADDRESS = 3, MODULE_BUILD_ID = 4, MODULE_PATH = 5 };
enum { NODES_BACK = 1, NODES_FRAME = 2, SET_ID = 1, SET_TAGS = 2, TAG_KEY = 1, TAG_VALUE = 2 };
enum { LABELS_SET = 1, LABELS_SPAN = 2, LABELS_HIGH = 3, LABELS_LOW = 4, LABELS_THREAD = 5 };
enum { KIND = 1, START = 2, DURATION = 3, PERIOD = 4, QUANTUM = 5, NODE = 7, VALUE = 8, COUNT = 9, LABEL_SET = 10 };
enum { STATS_CLOCK_ERROR = 21 };

/* ---- protobuf ---- */

struct reader {
    const uint8_t *at, *end;
};

struct field {
    unsigned number;
    uint64_t value;      /* of a number */
    struct reader bytes; /* else */
};

static bool number_next(struct reader *reader, uint64_t *value)
{
    *value = 0;
    for (unsigned shift = 0; shift < 64 && reader->at < reader->end; shift += 7) {
        uint8_t byte = *reader->at++;
        *value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return true;
    }
    return false;
}

static bool fixed_next(struct reader *reader, uint64_t *value)
{
    if (reader->end - reader->at < 8)
        return false;
    *value = 0;
    for (unsigned i = 0; i < 8; i++)
        *value |= (uint64_t)*reader->at++ << 8 * i;
    return true;
}

/* False at the end, or at an invalid field; then reader->at is in front of the end. */
static bool field_next(struct reader *reader, struct field *field)
{
    struct reader at = *reader;
    uint64_t tag;
    bool good = number_next(&at, &tag) && tag >> 3 <= UINT16_MAX;

    if (!good)
        return false;
    *field = (struct field){.number = (unsigned)(tag >> 3)};
    if ((tag & 7) == 0) {
        good = number_next(&at, &field->value);
    } else if ((tag & 7) == 1) {
        good = fixed_next(&at, &field->value);
    } else {
        good = (tag & 7) == 2 && number_next(&at, &field->value) && field->value <= (uint64_t)(at.end - at.at);
        field->bytes = (struct reader){at.at, at.at + (good ? field->value : 0)};
        at.at = field->bytes.end;
    }
    if (good)
        *reader = at;
    return good;
}

static bool is_read(const struct reader *reader)
{
    return reader->at == reader->end;
}

static size_t size_of(const struct reader *reader)
{
    return (size_t)(reader->end - reader->at);
}

static const char *chars_of(const struct reader *reader)
{
    return reader->at ? (const char *)reader->at : "";
}

/* ---- the dictionary ---- */

/* A copy of the bytes, followed by a 0. NULL: no room. */
static const uint8_t *text_keep(struct ep_mirror *mirror, struct reader bytes)
{
    size_t size = size_of(&bytes);
    uint8_t *to = mirror->text + mirror->text_used;

    if (size >= EP_MIRROR_TEXT - mirror->text_used)
        return NULL;
    memcpy(to, chars_of(&bytes), size);
    to[size] = 0;
    mirror->text_used += (unsigned)size + 1;
    return to;
}

static bool module_read(struct ep_mirror *mirror, struct reader reader)
{
    unsigned count = atomic_load_explicit(&mirror->table.count, memory_order_relaxed);
    unsigned text_used = mirror->text_used;
    struct ep_module module = {.path = ""};
    struct field field;
    uint64_t address = 0, size = 0;

    while (field_next(&reader, &field)) {
        const uint8_t *text = field.number >= MODULE_BUILD_ID ? text_keep(mirror, field.bytes) : NULL;
        if (field.number == MODULE_BASE)
            module.base = (uint32_t)field.value;
        else if (field.number == MODULE_SIZE)
            size = field.value;
        else if (field.number == MODULE_ADDRESS)
            address = field.value;
        else if (field.number == MODULE_BUILD_ID && text)
            module.build_id = text, module.build_id_size = (uint16_t)size_of(&field.bytes);
        else if (field.number == MODULE_PATH && text)
            module.path = (const char *)text;
    }
    module.start = (uintptr_t)address; /* an ELF address: a bias of 0 */
    module.end = (uintptr_t)(address + size);
    if (ep_module_of_linear(&mirror->table, module.base)) { /* known from an earlier segment of the run */
        mirror->text_used = text_used;
        return true;
    }
    if (!is_read(&reader) || count == EP_MAX_MODULES || size > UINT32_MAX)
        return false;
    mirror->table.slot[count] = module;
    atomic_store_explicit(&mirror->table.count, count + 1, memory_order_relaxed);
    return true;
}

/* A segment's first node is [truncated], which each tree has from the beginning. */
static bool node_add(struct ep_mirror *mirror, uint64_t back, uint32_t frame)
{
    struct ep_tree *tree = &mirror->tree;
    unsigned id = mirror->nodes, node = 0;

    if (back >= id || id >= EP_MIRROR_NODES)
        return false;
    unsigned parent = back ? mirror->id[id - back] : 0;
    if (id == 1)
        node = frame == EP_FRAME_TRUNCATED ? tree->truncated : 0;
    else
        node = mirror->merged ? ep_tree_child_of(tree, parent, frame) : ep_tree_append(tree, parent, frame);
    mirror->id[id] = (uint16_t)node;
    mirror->nodes += node != 0;
    return node != 0;
}

static bool nodes_read(struct ep_mirror *mirror, struct reader reader)
{
    struct reader back = {0}, frame = {0};
    struct field field;
    uint64_t up, delta, at = 0;

    while (field_next(&reader, &field)) {
        if (field.number == NODES_BACK)
            back = field.bytes;
        else if (field.number == NODES_FRAME)
            frame = field.bytes;
    }
    while (number_next(&back, &up) && number_next(&frame, &delta)) {
        at += delta >> 1 ^ (0 - (delta & 1));
        if (!node_add(mirror, up, (uint32_t)at))
            return false;
    }
    return is_read(&reader) && is_read(&back) && is_read(&frame);
}

struct pair {
    struct reader key, value;
};

static bool pair_read(struct pair *pair, struct reader reader)
{
    struct field field;

    *pair = (struct pair){0};
    while (field_next(&reader, &field)) {
        if (field.number == TAG_KEY)
            pair->key = field.bytes;
        else if (field.number == TAG_VALUE)
            pair->value = field.bytes;
    }
    return is_read(&reader);
}

/* A set's pairs are written from the last added one on. */
static bool tag_set_read(struct ep_mirror *mirror, struct reader reader)
{
    struct pair pair[TAGS_MOST];
    struct field field;
    uint64_t id = 0;
    unsigned count = 0, set = 0;

    while (field_next(&reader, &field)) {
        if (field.number == SET_ID)
            id = field.value;
        else if (field.number == SET_TAGS && count < TAGS_MOST && !pair_read(&pair[count++], field.bytes))
            return false;
    }
    if (!is_read(&reader) || id == 0 || id > EP_TAG_SETS)
        return false;
    while (count--) {
        const struct reader *key = &pair[count].key, *value = &pair[count].value;
        unsigned added = ep_tags_copy(&mirror->tags, set, chars_of(key), (unsigned)size_of(key), chars_of(value),
                                      (unsigned)size_of(value));
        set = added ? added : set;
    }
    mirror->set[id] = (uint16_t)set;
    return true;
}

/* ---- an interval's values ---- */

/* The place of a thread's name + 1; 0: no room. */
static uint16_t thread_find(struct ep_labels *labels, struct reader text)
{
    char name[sizeof labels->name[0].name] = "";
    size_t size = size_of(&text);
    unsigned i = 0;

    memcpy(name, chars_of(&text), size < sizeof name ? size : sizeof name - 1);
    while (i < labels->names && strcmp(labels->name[i].name, name) != 0)
        i++;
    if (i == labels->name_capacity)
        return 0;
    if (i == labels->names)
        memcpy(labels->name[labels->names++].name, name, sizeof name);
    return (uint16_t)(i + 1);
}

static bool label_set_read(struct ep_mirror *mirror, struct reader reader)
{
    struct ep_label_key key = {0};
    struct field field;

    while (field_next(&reader, &field)) {
        if (field.number == LABELS_SET)
            key.tags = field.value <= EP_TAG_SETS ? mirror->set[field.value] : 0;
        else if (field.number == LABELS_SPAN)
            key.span_id = field.value;
        else if (field.number == LABELS_HIGH)
            key.trace_high = field.value;
        else if (field.number == LABELS_LOW)
            key.trace_low = field.value;
        else if (field.number == LABELS_THREAD)
            key.thread = thread_find(&mirror->labels, field.bytes);
    }
    if (!is_read(&reader))
        return false;
    int place = ep_labels_find(&mirror->labels, &key);
    if (mirror->numbered < EP_MIRROR_LABELS)
        mirror->label[++mirror->numbered] = (uint16_t)(place > 0 ? place : 0);
    return true;
}

struct profile {
    uint64_t kind, start_ns, duration_ns, period_ns, quantum;
    struct reader node, value, count, label;
};

static bool head_read(struct profile *profile, struct reader reader)
{
    struct field field;

    *profile = (struct profile){.quantum = 1};
    while (field_next(&reader, &field)) {
        switch (field.number) {
        case KIND:
            profile->kind = field.value;
            break;
        case START:
            profile->start_ns = field.value;
            break;
        case DURATION:
            profile->duration_ns = field.value;
            break;
        case PERIOD:
            profile->period_ns = field.value;
            break;
        case QUANTUM:
            profile->quantum = field.value;
            break;
        case NODE:
            profile->node = field.bytes;
            break;
        case VALUE:
            profile->value = field.bytes;
            break;
        case COUNT:
            profile->count = field.bytes;
            break;
        case LABEL_SET:
            profile->label = field.bytes;
            break;
        default:
            break;
        }
    }
    return is_read(&reader);
}

/* A column that is left out has zeros. */
static bool column_next(struct reader *column, uint64_t *value)
{
    *value = 0;
    return !column->at || number_next(column, value);
}

static void interval_extend(struct ep_mirror *mirror, const struct profile *profile)
{
    uint64_t end_ns = profile->start_ns + profile->duration_ns;

    if (!mirror->end_ns || profile->start_ns < mirror->start_ns)
        mirror->start_ns = profile->start_ns;
    if (end_ns > mirror->end_ns)
        mirror->end_ns = end_ns;
    mirror->period[profile->kind] = profile->period_ns;
}

/* Adds to the tree. A CPU sample without a count stands for one or more periods. */
static void value_add(struct ep_mirror *mirror, const struct profile *profile, uint64_t node, uint64_t value,
                      uint64_t count, uint64_t number)
{
    enum ep_kind kind = (enum ep_kind)profile->kind;
    unsigned label = number <= mirror->numbered ? mirror->label[number] : 0;

    value *= profile->quantum;
    if (!profile->count.at && kind == EP_KIND_CPU && profile->period_ns)
        count = value / profile->period_ns;
    (void)ep_tree_add(&mirror->tree, mirror->id[node], kind, label, (uint32_t)count, value);
    mirror->values = true;
}

static bool profile_read(struct ep_mirror *mirror, struct reader reader)
{
    struct profile profile;
    uint64_t node = 0, step, value, count, label;

    if (!head_read(&profile, reader) || profile.kind == 0)
        return false;
    if (profile.kind >= EP_KINDS)
        return true;
    interval_extend(mirror, &profile);
    while (profile.node.at && number_next(&profile.node, &step)) {
        node += step;
        if (node == 0 || node >= mirror->nodes || !number_next(&profile.value, &value) ||
            !column_next(&profile.count, &count) || !column_next(&profile.label, &label))
            return false;
        value_add(mirror, &profile, node, value, count, label);
    }
    return is_read(&profile.node) && is_read(&profile.value);
}

/* ---- a message ---- */

static bool stats_read(struct ep_mirror *mirror, struct reader reader)
{
    struct field field;

    mirror->clock_error = 0;
    while (field_next(&reader, &field))
        if (field.number == STATS_CLOCK_ERROR)
            mirror->clock_error = field.value;
    return is_read(&reader);
}

static bool field_read(struct ep_mirror *mirror, const struct field *field, bool values)
{
    switch (field->number) {
    case MODULES:
        return module_read(mirror, field->bytes);
    case NODES:
        return nodes_read(mirror, field->bytes);
    case TAG_SETS:
        return tag_set_read(mirror, field->bytes);
    case LABEL_SETS:
        return label_set_read(mirror, field->bytes);
    case PROFILES:
        return !values || profile_read(mirror, field->bytes);
    case STATS:
        return stats_read(mirror, field->bytes);
    case MORE:
        mirror->more = field->value != 0;
        return true;
    default:
        return true;
    }
}

/* Keeps only the nodes of the segment. */
static void nodes_keep(struct ep_mirror *mirror)
{
    ep_tree_unmark(&mirror->tree);
    for (unsigned id = 1; id < mirror->nodes; id++)
        (void)ep_tree_mark(&mirror->tree, mirror->id[id]);
    ep_tree_keep(&mirror->tree);
    for (unsigned id = 1; id < mirror->nodes; id++)
        mirror->id[id] = mirror->tree.node[mirror->id[id]].entry;
    mirror->merged = false;
}

void ep_mirror_next(struct ep_mirror *mirror)
{
    if (mirror->merged)
        nodes_keep(mirror);
    ep_tree_clear_entries(&mirror->tree);
    mirror->labels.count = 1;
    mirror->labels.names = 0;
    mirror->start_ns = mirror->end_ns = 0;
    mirror->values = false;
}

/* Modules and tags of a run stay valid: their addresses and texts do not change. */
static void segment_clear(struct ep_mirror *mirror)
{
    mirror->segment = 0;
    mirror->nodes = 1;
    memset(mirror->set, 0, sizeof mirror->set);
}

void ep_mirror_clear(struct ep_mirror *mirror)
{
    segment_clear(mirror);
    memset(&mirror->tags, 0, sizeof mirror->tags);
    mirror->text_used = 0;
    atomic_store_explicit(&mirror->table.count, 0, memory_order_relaxed);
    mirror->more = mirror->merged = false;
    mirror->labels.key = mirror->key;
    mirror->labels.capacity = EP_MIRROR_LABELS;
    mirror->labels.name = mirror->name;
    mirror->labels.name_capacity = EP_THREADS;
    mirror->tree.node = mirror->node;
    mirror->tree.node_capacity = EP_MIRROR_NODES;
    mirror->tree.entry = mirror->entry;
    mirror->tree.entry_capacity = EP_MIRROR_ENTRIES;
    mirror->tree.mark = mirror->mark;
    ep_tree_clear(&mirror->tree);
    ep_mirror_next(mirror);
}

/* ---- what a message is ---- */

struct head {
    uint64_t segment, sequence;
    unsigned nodes, entries;
    uint32_t origin;
};

static unsigned numbers_in(struct reader column)
{
    unsigned count = 0;

    for (; column.at < column.end; column.at++)
        count += *column.at < 0x80;
    return count;
}

/* FNV-1a (Fowler, Noll, Vo). */
static uint32_t hash_of(struct reader bytes)
{
    uint32_t hash = 2166136261u;

    for (; bytes.at < bytes.end; bytes.at++)
        hash = (hash ^ *bytes.at) * 16777619u;
    return hash;
}

/* The number of elements in a column of a nested message. */
static unsigned column_in(struct reader reader, unsigned column)
{
    struct field field;

    while (field_next(&reader, &field))
        if (field.number == column)
            return numbers_in(field.bytes);
    return 0;
}

static bool head_of(struct reader reader, struct head *head)
{
    struct field field;

    *head = (struct head){0};
    while (field_next(&reader, &field)) {
        switch (field.number) {
        case SEGMENT:
            head->segment = field.value;
            break;
        case SEQUENCE:
            head->sequence = field.value;
            break;
        case ORIGIN:
            head->origin = hash_of(field.bytes);
            break;
        case NODES:
            head->nodes += column_in(field.bytes, NODES_BACK);
            break;
        case PROFILES:
            head->entries += column_in(field.bytes, NODE);
            break;
        default:
            break;
        }
    }
    return is_read(&reader) && head->segment != 0 && head->sequence <= UINT32_MAX;
}

/* Entries and nodes that trees reserve for [truncated] and lost weight. */
#define RESERVED 64u

static bool fits(const struct ep_mirror *mirror, const struct head *head)
{
    return mirror->tree.nodes + head->nodes + RESERVED <= EP_MIRROR_NODES &&
           mirror->tree.entries + head->entries + RESERVED <= EP_MIRROR_ENTRIES;
}

/* Makes the mirror ready for the message. Returns 0, or an error as ep_mirror_read(). */
static int message_begin(struct ep_mirror *mirror, const struct head *head)
{
    bool first = head->sequence == 0;
    bool goes_on = mirror->more && mirror->origin == head->origin;

    if (!first && (mirror->segment != head->segment || head->sequence != (uint64_t)mirror->sequence + 1))
        return -ESTALE;
    if (mirror->values && (!fits(mirror, head) || (first && !goes_on)))
        return -ENOSPC;
    if (first && mirror->values) {
        segment_clear(mirror);
        mirror->merged = true;
    } else if (first) {
        ep_mirror_clear(mirror);
    }
    if (first && mirror->origin != head->origin)
        mirror->sent_ns = 0;
    if (first)
        mirror->origin = head->origin;
    mirror->segment = head->segment;
    mirror->sequence = (uint32_t)head->sequence;
    mirror->numbered = 0;
    mirror->more = false;
    return 0;
}

int ep_mirror_read(struct ep_mirror *mirror, const uint8_t *bytes, size_t size, bool values)
{
    struct reader reader = {bytes, bytes + size};
    struct field field;
    struct head head;
    bool good = head_of(reader, &head);
    int error = good ? message_begin(mirror, &head) : 0;

    if (error)
        return error;
    while (good && field_next(&reader, &field))
        good = field_read(mirror, &field, values);
    if (good)
        return 0;
    ep_mirror_clear(mirror);
    return -EBADMSG;
}
