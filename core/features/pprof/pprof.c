/*
 * The pprof encoder: one self-contained perftools.profiles.Profile with addresses, build ids and, if asked for, names.
 *
 * A profile holds one family of kinds, since different families have value types of the same name ("delay" of locks or
 * waits). Each tree entry is a sample, with zeros for the family's other kind. Each node of a used stack is a location;
 * its id is its rank, so ids are 1..n in order. Addresses are ELF addresses and mappings start at 0, which readers take
 * as "already normalized". Special frames are functions by name. Samples may be in the order of a walk through the
 * tree: neighbours then share callers, and a compressor with a small window sees that. A comment says if threads have
 * another clock than the one asked for.
 *
 * String table: "", types, label names, the comment or "", special frames, path and build id of each module; then, if
 * stacks carry labels, tag texts, and span, trace and thread of each written context; then the names of functions.
 */
#include "core/encode/write.h"
#include "core/features/pprof/gzip.h"
#include "core/sample/capture.h"
#include "core/profile/naming.h"

#include <errno.h>
#include <pprof.pb.h>
#include <string.h>

#define TAG(message, field) perftools_profiles_##message##_##field##_tag
#define HEX_MOST            64
#define NAME_MOST           200u
#define BY_ADDRESS          0xffffu

/* Tables of one encoding. */
struct ep_scratch {
    uint32_t labels[4096 / 32];              /* one bit for each context that is written; an entry's has 12 bits */
    unsigned marked;                         /* nodes */
    uint16_t before[(UINT16_MAX + 31) / 32]; /* number of marked nodes before each word of the tree's marks */
};

/* ---- families ---- */

enum {
    TEXT_NONE,
    TEXT_SAMPLES,
    TEXT_COUNT,
    TEXT_CPU,
    TEXT_NANOSECONDS,
    TEXT_CONTENTIONS,
    TEXT_DELAY,
    TEXT_ALLOC_OBJECTS,
    TEXT_ALLOC_SPACE,
    TEXT_INUSE_OBJECTS,
    TEXT_INUSE_SPACE,
    TEXT_BYTES,
    TEXT_SPACE,
    TEXT_EXCEPTION,
    TEXT_PAUSES,
    TEXT_PAUSE,
    TEXT_GOROUTINE,
    TEXT_HEAP_SIZE,
    TEXT_SPAN_ID,
    TEXT_TRACE_ID,
    TEXT_THREAD,
    TEXT_CLOCK,
    TEXT_SPECIAL
};
#define TEXT_PATH(module)     (TEXT_SPECIAL + EP_FRAME_SPECIALS + 2 * (module))
#define TEXT_BUILD_ID(module) (TEXT_PATH(module) + 1)

static const char words[TEXT_CLOCK][16] = {
    "",        "samples",       "count",       "cpu",           "nanoseconds", "contentions",
    "delay",   "alloc_objects", "alloc_space", "inuse_objects", "inuse_space", "bytes",
    "space",   "exception",     "pauses",      "pause",         "goroutine",   "heap_size",
    "span_id", "trace_id",      "thread",
};

/* The names are those of Go profiles where they exist, as Pyroscope and pprof users know them. Types are pairs of
 * text numbers (type, unit). A kind has a count and a value, or a value only. */
struct family {
    char name[12];
    uint16_t kinds;
    uint8_t types; /* number of pairs */
    uint8_t type[8];
    uint8_t period_type[2];
    uint8_t preferred; /* the value type shown first */
};

static const struct family families[] = {
    {"process_cpu",
     EP_KIND_BIT(EP_KIND_CPU),
     2,
     {TEXT_SAMPLES, TEXT_COUNT, TEXT_CPU, TEXT_NANOSECONDS},
     {TEXT_CPU, TEXT_NANOSECONDS},
     TEXT_CPU},
    {"block",
     EP_KIND_BIT(EP_KIND_WAIT),
     2,
     {TEXT_CONTENTIONS, TEXT_COUNT, TEXT_DELAY, TEXT_NANOSECONDS},
     {TEXT_CONTENTIONS, TEXT_COUNT},
     TEXT_DELAY},
    {"mutex",
     EP_KIND_BIT(EP_KIND_LOCK),
     2,
     {TEXT_CONTENTIONS, TEXT_COUNT, TEXT_DELAY, TEXT_NANOSECONDS},
     {TEXT_CONTENTIONS, TEXT_COUNT},
     TEXT_DELAY},
    {"memory",
     EP_KIND_BIT(EP_KIND_ALLOC) | EP_KIND_BIT(EP_KIND_LIVE),
     4,
     {TEXT_ALLOC_OBJECTS, TEXT_COUNT, TEXT_ALLOC_SPACE, TEXT_BYTES, TEXT_INUSE_OBJECTS, TEXT_COUNT, TEXT_INUSE_SPACE,
      TEXT_BYTES},
     {TEXT_SPACE, TEXT_BYTES},
     TEXT_INUSE_SPACE},
    {"exception",
     EP_KIND_BIT(EP_KIND_EXCEPTION),
     1,
     {TEXT_EXCEPTION, TEXT_COUNT},
     {TEXT_CPU, TEXT_NANOSECONDS},
     TEXT_EXCEPTION},
    {"gc",
     EP_KIND_BIT(EP_KIND_GC),
     2,
     {TEXT_PAUSES, TEXT_COUNT, TEXT_PAUSE, TEXT_NANOSECONDS},
     {TEXT_PAUSE, TEXT_NANOSECONDS},
     TEXT_PAUSE},
    {"goroutine",
     EP_KIND_BIT(EP_KIND_THREAD),
     1,
     {TEXT_GOROUTINE, TEXT_COUNT},
     {TEXT_GOROUTINE, TEXT_COUNT},
     TEXT_GOROUTINE},
    {"gc_heap", EP_KIND_BIT(EP_KIND_HEAP), 1, {TEXT_HEAP_SIZE, TEXT_BYTES}, {TEXT_SPACE, TEXT_BYTES}, TEXT_HEAP_SIZE},
};

static const struct family *family_of(uint32_t kinds)
{
    for (unsigned i = 0; i < sizeof families / sizeof families[0]; i++)
        if (kinds & families[i].kinds)
            return &families[i];
    return &families[0]; /* no kinds: an empty CPU profile */
}

uint32_t ep_pprof_together(uint32_t kinds)
{
    return family_of(kinds)->kinds;
}

const char *ep_pprof_family(uint32_t kinds)
{
    return family_of(kinds)->name;
}

/* ---- which nodes, entries and labels are written ---- */

static bool is_included(const struct ep_encoding *encoding, const struct ep_entry *entry)
{
    return (encoding->kinds & EP_KIND_BIT(entry->kind)) && ep_entry_has_data(entry);
}

/* A walk through the samples, node by node, with the entries of each. */
struct walk {
    unsigned node, entry, index; /* entry: the last one + 1; index: number of samples passed */
};

static unsigned node_after(const struct ep_encoding *encoding, unsigned id)
{
    const struct ep_tree *tree = encoding->tree;

    if (!encoding->callers_first)
        return id + 1 < tree->nodes ? id + 1 : 0;
    if (tree->node[id].child)
        return tree->node[id].child;
    while (id && !tree->node[id].sibling)
        id = tree->node[id].parent;
    return id ? tree->node[id].sibling : 0;
}

/* Moves to the next sample of the encoding. False: there is none. */
static bool walk_next(struct walk *at, const struct ep_encoding *encoding)
{
    const struct ep_tree *tree = encoding->tree;

    for (;;) {
        at->entry = at->entry ? tree->entry[at->entry - 1].next : at->node ? tree->node[at->node].entry : 0;
        while (!at->entry) {
            at->node = node_after(encoding, at->node);
            if (!at->node)
                return false;
            at->entry = tree->node[at->node].entry;
        }
        if (!is_included(encoding, &tree->entry[at->entry - 1]))
            continue;
        unsigned index = at->index++;
        if (encoding->samples_end && index >= encoding->samples_end)
            return false;
        if (index >= encoding->samples_begin)
            return true;
    }
}

static const struct ep_entry *entry_at(const struct ep_encoding *encoding, const struct walk *at)
{
    return &encoding->tree->entry[at->entry - 1];
}

unsigned ep_encode_pprof_sum(const struct ep_encoding *encoding, struct ep_sums *sums)
{
    struct walk at = {0};
    unsigned samples = 0;

    *sums = (struct ep_sums){0};
    for (; walk_next(&at, encoding); samples++) {
        const struct ep_entry *entry = entry_at(encoding, &at);
        sums->count[entry->kind] += entry->count;
        sums->value[entry->kind] += entry->value;
        if (entry->kind == EP_KIND_CPU && ep_is_lost(encoding->tree->node[at.node].frame))
            sums->lost_ns += entry->value;
    }
    return samples;
}

/* Marks what is written: the nodes of all stacks, and the labels of all samples. */
static void mark_all(const struct ep_encoding *encoding, struct ep_scratch *scratch)
{
    struct ep_tree *tree = encoding->tree;
    struct walk at = {0};
    unsigned before = 0;

    ep_tree_unmark(tree);
    memset(scratch->labels, 0, sizeof scratch->labels);
    while (walk_next(&at, encoding)) {
        unsigned context = entry_at(encoding, &at)->context;
        (void)ep_tree_mark(tree, at.node);
        if (context)
            scratch->labels[context / 32] |= 1u << (context % 32);
    }
    for (unsigned i = 0; i < (tree->node_capacity + 31) / 32; i++) {
        scratch->before[i] = (uint16_t)before;
        before += (unsigned)__builtin_popcount(tree->mark[i]);
    }
    scratch->marked = before;
}

/* The number of marked nodes up to and including id. */
static unsigned rank_of(const struct ep_source *source, unsigned id)
{
    uint32_t marks = source->encoding->tree->mark[id / 32] & (0xffffffffu >> (31 - id % 32));

    return source->scratch->before[id / 32] + (unsigned)__builtin_popcount(marks);
}

/* The number of marked labels up to and including that one. */
static unsigned context_rank(const struct ep_source *source, unsigned context)
{
    const uint32_t *mark = source->scratch->labels;
    unsigned count = 0;

    for (unsigned i = 0; i < context / 32; i++)
        count += (unsigned)__builtin_popcount(mark[i]);
    return count + (unsigned)__builtin_popcount(mark[context / 32] & (0xffffffffu >> (31 - context % 32)));
}

static bool is_marked_context(const struct ep_source *source, unsigned context)
{
    return source->scratch->labels[context / 32] >> (context % 32) & 1;
}

/* ---- names ---- */

static const struct ep_module *module_of(const struct ep_encoding *encoding, unsigned id)
{
    uint32_t frame = encoding->tree->node[id].frame;

    return frame < EP_FRAME_FIRST_ADDRESS ? NULL : ep_module_of_linear(encoding->table, frame);
}

static uint64_t address_of(const struct ep_encoding *encoding, const struct ep_module *module, unsigned id)
{
    return encoding->tree->node[id].frame - module->base + (module->start - module->bias);
}

/* Returns the function with that name, and adds it if needed. */
static uint16_t function_of_name(struct ep_named *named, unsigned name)
{
    if (!named->function[name] && named->count < EP_NAMED_MOST) {
        named->name[named->count] = (uint16_t)name;
        named->function[name] = (uint16_t)++named->count;
    }
    return named->function[name];
}

/* Asks for the names of all locations. */
static void names_find(const struct ep_encoding *encoding, const struct ep_deadline *deadline)
{
    struct ep_named *named = encoding->names->memory;
    struct ep_place place = {0};
    const struct ep_module *last = NULL;
    unsigned index = 0;

    encoding->names->begin(deadline);
    named->count = 0;
    memset(named->function, 0, sizeof named->function);
    for (unsigned id = 1; id < encoding->tree->nodes && index < EP_NAMED_LOCATIONS; id++) {
        if (!ep_tree_is_marked(encoding->tree, id))
            continue;
        const struct ep_module *module = module_of(encoding, id);
        named->of[index] = 0;
        if (module) {
            place.hint = module == last ? place.hint : 0;
            place.build_id = module->build_id;
            place.build_id_size = module->build_id_size;
            place.path = module->path;
            place.address = address_of(encoding, module, id);
            last = module;
            unsigned name = encoding->names->find(&place);
            named->of[index] = name ? function_of_name(named, name) : 0;
        }
        index++;
    }
}

/* The function of a location besides special frames: 1 and up, BY_ADDRESS, or 0: no function. */
static unsigned function_of(const struct ep_encoding *encoding, unsigned id, unsigned rank)
{
    unsigned function = 0;

    if (!encoding->names || encoding->tree->node[id].frame < EP_FRAME_FIRST_ADDRESS)
        return 0;
    if (rank <= EP_NAMED_LOCATIONS)
        function = encoding->names->memory->of[rank - 1];
    return function ? function : BY_ADDRESS;
}

/* "module+0x1234" */
static void address_name(const struct ep_encoding *encoding, unsigned id, char *text)
{
    const struct ep_module *module = module_of(encoding, id);
    const char *path = module ? module->path : "", *slash = strrchr(path, '/');
    uint64_t address = module ? address_of(encoding, module, id) : 0;
    unsigned size = 0, shift = 60;

    for (path = slash ? slash + 1 : path; *path && size < NAME_MOST; path++)
        text[size++] = *path;
    memcpy(text + size, "+0x", 3);
    size += 3;
    while (shift && !(address >> shift & 15))
        shift -= 4;
    for (;; shift -= 4) {
        text[size++] = "0123456789abcdef"[address >> shift & 15];
        if (!shift)
            break;
    }
    text[size] = 0;
}

/* ---- samples ---- */

/* index: the pair's place among the family's types, or family->types for the period's type. */
static bool write_type(pb_ostream_t *s, const struct ep_source *source)
{
    const struct family *family = family_of(source->encoding->kinds);
    const uint8_t *pair = source->index < family->types ? &family->type[2 * source->index] : family->period_type;

    return ep_put_number(s, TAG(ValueType, type), pair[0]) && ep_put_number(s, TAG(ValueType, unit), pair[1]);
}

static bool write_types(pb_ostream_t *s, const struct ep_source *source)
{
    struct ep_source one = *source;

    for (one.index = 0; one.index < family_of(source->encoding->kinds)->types; one.index++)
        if (!ep_put_nested(s, TAG(Profile, sample_type), write_type, &one))
            return false;
    return true;
}

/* For a sample, index is its entry's place and node its node. */
static bool write_locations(pb_ostream_t *s, const struct ep_source *source)
{
    const struct ep_tree *tree = source->encoding->tree;

    for (unsigned id = source->node; id; id = tree->node[id].parent)
        if (!pb_encode_varint(s, rank_of(source, id)))
            return false;
    return !source->encoding->root_name || pb_encode_varint(s, source->scratch->marked + 1);
}

static bool write_values(pb_ostream_t *s, const struct ep_source *source)
{
    const struct ep_entry *entry = &source->encoding->tree->entry[source->index];
    unsigned types = family_of(source->encoding->kinds)->types, first = entry->kind == EP_KIND_LIVE ? 2 : 0;

    if (types == 1)
        return pb_encode_varint(s, entry->value);
    const uint32_t *high = source->encoding->count_high;
    uint64_t count = entry->count | (uint64_t)(high ? high[source->index] : 0) << 32;
    for (unsigned i = 0; i < types; i++)
        if (!pb_encode_varint(s, i == first ? count : i == first + 1 ? entry->value : 0))
            return false;
    return true;
}

static unsigned text_of_tags(const struct ep_encoding *encoding)
{
    return TEXT_PATH(encoding->modules);
}

static bool put_label(pb_ostream_t *s, uint64_t key, uint64_t text)
{
    pb_ostream_t sizing = PB_OSTREAM_SIZING;

    if (!text)
        return true;
    for (pb_ostream_t *to = &sizing;; to = s) {
        if (to == s &&
            (!pb_encode_tag(s, PB_WT_STRING, TAG(Sample, label)) || !pb_encode_varint(s, sizing.bytes_written)))
            return false;
        if (!ep_put_number(to, TAG(Label, key), key) || !ep_put_number(to, TAG(Label, str), text))
            return false;
        if (to == s)
            return true;
    }
}

/* "": no thread label, or the thread's name could not be read. */
static const char *thread_name(const struct ep_labels *labels, const struct ep_label_key *key)
{
    return key->thread ? labels->name[key->thread - 1].name : "";
}

static bool write_labels(pb_ostream_t *s, const struct ep_source *source)
{
    const struct ep_tags *known = source->encoding->tags;
    unsigned context = source->encoding->tree->entry[source->index].context;
    const struct ep_label_key *key = &source->encoding->labels->key[context];
    unsigned tags = text_of_tags(source->encoding), texts = tags + EP_TAG_STRINGS;
    struct ep_tag_pair pair;

    if (!context)
        return true;
    texts += 3 * (context_rank(source, context) - 1);
    for (unsigned set = key->tags; ep_tags_pair(known, set, &pair); set = pair.parent)
        if (*pair.value && !ep_tags_hidden(known, key->tags, set) &&
            !put_label(s, tags + ep_tags_string(known, pair.key), tags + ep_tags_string(known, pair.value)))
            return false;
    return put_label(s, TEXT_SPAN_ID, key->span_id ? texts : 0) &&
           put_label(s, TEXT_TRACE_ID, key->trace_high | key->trace_low ? texts + 1 : 0) &&
           put_label(s, TEXT_THREAD, *thread_name(source->encoding->labels, key) ? texts + 2 : 0);
}

static bool write_sample(pb_ostream_t *s, const struct ep_source *source)
{
    return ep_put_nested(s, TAG(Sample, location_id), write_locations, source) &&
           ep_put_nested(s, TAG(Sample, value), write_values, source) && write_labels(s, source);
}

static bool write_samples(pb_ostream_t *s, const struct ep_source *source)
{
    struct ep_source one = *source;
    struct walk at = {0};

    while (walk_next(&at, source->encoding)) {
        one.node = at.node;
        one.index = at.entry - 1;
        if (!ep_put_nested(s, TAG(Profile, sample), write_sample, &one))
            return false;
    }
    return true;
}

/* ---- tables ---- */

static bool write_mapping(pb_ostream_t *s, const struct ep_source *source)
{
    const struct ep_module *module = &source->encoding->table->slot[source->index];

    return ep_put_number(s, TAG(Mapping, id), source->index + 1) &&
           ep_put_number(s, TAG(Mapping, filename), TEXT_PATH(source->index)) &&
           (!module->build_id_size || ep_put_number(s, TAG(Mapping, build_id), TEXT_BUILD_ID(source->index)));
}

/* index: the function's id */
static bool write_line(pb_ostream_t *s, const struct ep_source *source)
{
    return ep_put_number(s, TAG(Line, function_id), source->index);
}

static unsigned functions_named(const struct ep_encoding *encoding)
{
    return encoding->names ? encoding->names->memory->count : 0;
}

/* index: the id of the location's function, 0: it has none */
static bool write_location(pb_ostream_t *s, const struct ep_source *source)
{
    const struct ep_encoding *encoding = source->encoding;
    const struct ep_module *module = module_of(encoding, source->node);

    return ep_put_number(s, TAG(Location, id), rank_of(source, source->node)) &&
           (!module || (ep_put_number(s, TAG(Location, mapping_id), (uint64_t)(module - encoding->table->slot) + 1) &&
                        ep_put_number(s, TAG(Location, address), address_of(encoding, module, source->node)))) &&
           (!source->index || ep_put_nested(s, TAG(Location, line), write_line, source));
}

static bool write_root(pb_ostream_t *s, const struct ep_source *source)
{
    return ep_put_number(s, TAG(Location, id), source->scratch->marked + 1) &&
           ep_put_nested(s, TAG(Location, line), write_line, source);
}

/* Function ids: the special frames' numbers; then those with names, and those named by address in the order of their
 * locations; or the root's. */
static bool write_all_locations(pb_ostream_t *s, const struct ep_source *source)
{
    const struct ep_encoding *encoding = source->encoding;
    struct ep_source one = *source;
    unsigned rank = 0, by_address = EP_FRAME_SPECIALS + functions_named(encoding);

    for (one.node = 1; one.node < encoding->tree->nodes; one.node++) {
        if (!ep_tree_is_marked(encoding->tree, one.node))
            continue;
        uint32_t frame = encoding->tree->node[one.node].frame;
        unsigned function = function_of(encoding, one.node, ++rank);
        one.index = frame < EP_FRAME_FIRST_ADDRESS ? frame
                    : function == BY_ADDRESS       ? by_address++
                    : function                     ? EP_FRAME_SPECIALS + function - 1
                                                   : 0;
        if (!ep_put_nested(s, TAG(Profile, location), write_location, &one))
            return false;
    }
    one.index = EP_FRAME_SPECIALS;
    return !encoding->root_name || ep_put_nested(s, TAG(Profile, location), write_root, &one);
}

/* index: the function's id; node: the text of its name */
static bool write_function(pb_ostream_t *s, const struct ep_source *source)
{
    return ep_put_number(s, TAG(Function, id), source->index) && ep_put_number(s, TAG(Function, name), source->node) &&
           ep_put_number(s, TAG(Function, system_name), source->node);
}

/* The number of functions that are named by address. */
static unsigned functions_by_address(const struct ep_encoding *encoding)
{
    unsigned count = 0, rank = 0;

    for (unsigned id = 1; id < encoding->tree->nodes; id++)
        if (ep_tree_is_marked(encoding->tree, id))
            count += function_of(encoding, id, ++rank) == BY_ADDRESS;
    return count;
}

static unsigned text_of_names(const struct ep_source *source)
{
    const struct ep_encoding *encoding = source->encoding;

    if (encoding->labels->count == 1)
        return text_of_tags(encoding);
    return text_of_tags(encoding) + EP_TAG_STRINGS + 3 * context_rank(source, encoding->labels->count - 1);
}

static bool write_tables(pb_ostream_t *s, const struct ep_source *source)
{
    const struct ep_encoding *encoding = source->encoding;
    struct ep_source one = *source;
    unsigned end =
        EP_FRAME_SPECIALS + functions_named(encoding) + functions_by_address(encoding) + (encoding->root_name ? 1 : 0);

    for (one.index = 0; one.index < encoding->modules; one.index++)
        if (!ep_put_nested(s, TAG(Profile, mapping), write_mapping, &one))
            return false;
    if (!write_all_locations(s, source))
        return false;
    for (one.index = 1; one.index < end; one.index++) {
        one.node = one.index < EP_FRAME_SPECIALS ? TEXT_SPECIAL + one.index
                                                 : text_of_names(source) + one.index - EP_FRAME_SPECIALS;
        if (!ep_put_nested(s, TAG(Profile, function), write_function, &one))
            return false;
    }
    return true;
}

static bool put_hex(pb_ostream_t *s, const uint8_t *bytes, unsigned size)
{
    char text[2 * HEX_MOST + 1];

    for (unsigned i = 0; i < size; i++) {
        text[2 * i] = "0123456789abcdef"[bytes[i] >> 4];
        text[2 * i + 1] = "0123456789abcdef"[bytes[i] & 15];
    }
    text[2 * size] = 0;
    return ep_put_element(s, TAG(Profile, string_table), text);
}

/* Ids are written as big-endian numbers. */
static bool put_id(pb_ostream_t *s, uint64_t high, uint64_t low, unsigned size)
{
    uint8_t bytes[16];

    for (unsigned i = 0; i < 8; i++) {
        bytes[i] = (uint8_t)(high >> (56 - 8 * i));
        bytes[8 + i] = (uint8_t)(low >> (56 - 8 * i));
    }
    return put_hex(s, bytes + sizeof bytes - size, size);
}

static const char *tag_text(const struct ep_source *source, unsigned place)
{
    const uint32_t *known = source->encoding->tag_strings;

    return !known || known[place / 32] >> (place % 32) & 1 ? ep_tags_text(source->encoding->tags, place) : "";
}

static bool write_context_strings(pb_ostream_t *s, const struct ep_source *source)
{
    const struct ep_labels *labels = source->encoding->labels;

    if (labels->count == 1)
        return true;
    for (unsigned i = 0; i < EP_TAG_STRINGS; i++)
        if (!ep_put_element(s, TAG(Profile, string_table), tag_text(source, i)))
            return false;
    for (unsigned i = 1; i < labels->count; i++) {
        const struct ep_label_key *key = &labels->key[i];
        if (!is_marked_context(source, i))
            continue;
        if (!put_id(s, 0, key->span_id, 8) || !put_id(s, key->trace_high, key->trace_low, 16) ||
            !ep_put_element(s, TAG(Profile, string_table), thread_name(labels, key)))
            return false;
    }
    return true;
}

static bool write_names(pb_ostream_t *s, const struct ep_source *source)
{
    const struct ep_encoding *encoding = source->encoding;
    char text[NAME_MOST + 3 + 16 + 1];
    unsigned rank = 0;

    if (encoding->root_name && !ep_put_element(s, TAG(Profile, string_table), encoding->root_name))
        return false;
    for (unsigned i = 0; i < functions_named(encoding); i++)
        if (!ep_put_element(s, TAG(Profile, string_table), encoding->names->text(encoding->names->memory->name[i])))
            return false;
    for (unsigned id = 1; id < encoding->tree->nodes; id++) {
        if (!ep_tree_is_marked(encoding->tree, id) || function_of(encoding, id, ++rank) != BY_ADDRESS)
            continue;
        address_name(encoding, id, text);
        if (!ep_put_element(s, TAG(Profile, string_table), text))
            return false;
    }
    return true;
}

static bool put_clock(pb_ostream_t *s, uint64_t error)
{
    char text[64] = "edgeprof clock: not perf in every thread, errno ";
    size_t size = strlen(text);

    for (unsigned unit = 100; unit; unit /= 10)
        if (error >= unit)
            text[size++] = (char)('0' + error / unit % 10);
    return ep_put_element(s, TAG(Profile, string_table), error ? text : "");
}

static bool write_strings(pb_ostream_t *s, const struct ep_source *source)
{
    const struct ep_modules *modules = source->encoding->table;
    const uint32_t tag = TAG(Profile, string_table);

    for (unsigned i = 0; i < TEXT_CLOCK; i++)
        if (!ep_put_element(s, tag, words[i]))
            return false;
    if (!put_clock(s, source->encoding->clock_error))
        return false;
    for (unsigned i = 0; i < EP_FRAME_SPECIALS; i++)
        if (!ep_put_element(s, tag, ep_special_name(i)))
            return false;
    for (unsigned i = 0; i < source->encoding->modules; i++)
        if (!ep_put_element(s, tag, modules->slot[i].path) ||
            !put_hex(s, modules->slot[i].build_id, modules->slot[i].build_id_size))
            return false;
    return write_context_strings(s, source) && write_names(s, source);
}

/* The period of the family's first kind. */
static uint64_t family_period(const struct family *family)
{
    unsigned kind = EP_KIND_CPU;

    while (!(family->kinds & EP_KIND_BIT(kind)))
        kind++;
    return ep_hook_period((enum ep_kind)kind);
}

/* If EP_KIND_LIVE is not included, allocated space is shown first. */
static uint64_t preferred_type(const struct family *family, uint32_t kinds)
{
    return kinds == EP_KIND_BIT(EP_KIND_ALLOC) ? TEXT_ALLOC_SPACE : family->preferred;
}

static bool write_profile(pb_ostream_t *s, const struct ep_source *source)
{
    const struct ep_encoding *encoding = source->encoding;
    const struct family *family = family_of(encoding->kinds);
    uint64_t unix_ns = encoding->unix_minus_uptime_ns;
    struct ep_source period = {.encoding = encoding, .index = family->types};

    return write_types(s, source) && write_samples(s, source) && write_tables(s, source) && write_strings(s, source) &&
           ep_put_number(s, TAG(Profile, time_nanos), unix_ns ? encoding->start_ns + unix_ns : 0) &&
           ep_put_number(s, TAG(Profile, duration_nanos), encoding->end_ns - encoding->start_ns) &&
           ep_put_nested(s, TAG(Profile, period_type), write_type, &period) &&
           ep_put_number(s, TAG(Profile, period), encoding->period ? encoding->period : family_period(family)) &&
           ep_put_number(s, TAG(Profile, comment), encoding->clock_error ? TEXT_CLOCK : 0) &&
           ep_put_number(s, TAG(Profile, default_sample_type), preferred_type(family, encoding->kinds));
}

/* Writes one piece of the message and discards the rest. */
struct piece {
    uint64_t skip;
    uint8_t *to;
    size_t room;
};

/* False if the piece is full, which ends the encoding. */
static bool piece_write(pb_ostream_t *s, const pb_byte_t *bytes, size_t count)
{
    struct piece *piece = s->state;
    size_t skip = piece->skip < count ? (size_t)piece->skip : count, keep = count - skip;

    piece->skip -= skip;
    if (keep > piece->room)
        keep = piece->room;
    memcpy(piece->to, bytes + skip, keep);
    piece->to += keep;
    piece->room -= keep;
    return skip + keep == count;
}

uint64_t ep_encode_pprof_size(const struct ep_encoding *encoding)
{
    struct ep_scratch scratch;
    struct ep_source source = {.encoding = encoding, .scratch = &scratch};
    pb_ostream_t sizing = PB_OSTREAM_SIZING;

    mark_all(encoding, &scratch);
    (void)write_profile(&sizing, &source);
    return sizing.bytes_written;
}

uint32_t ep_encode_pprof_piece(const struct ep_encoding *encoding, uint64_t from)
{
    struct ep_scratch scratch;
    struct ep_source source = {.encoding = encoding, .scratch = &scratch};
    struct piece piece = {.skip = from, .to = encoding->data, .room = encoding->size};
    pb_ostream_t stream = {.callback = piece_write, .state = &piece, .max_size = SIZE_MAX};

    mark_all(encoding, &scratch);
    (void)write_profile(&stream, &source);
    return (uint32_t)(encoding->size - piece.room);
}

static bool gzip_write(pb_ostream_t *s, const pb_byte_t *bytes, size_t count)
{
    return ep_gzip_write(s->state, bytes, count);
}

uint32_t ep_encode_pprof_gzip(const struct ep_encoding *encoding, struct ep_gzip *gzip,
                              const struct ep_deadline *deadline)
{
    struct ep_scratch scratch;
    struct ep_source source = {.encoding = encoding, .scratch = &scratch};
    pb_ostream_t stream = {.callback = gzip_write, .state = gzip, .max_size = SIZE_MAX};

    mark_all(encoding, &scratch);
    if (encoding->names)
        names_find(encoding, deadline);
    ep_gzip_begin(gzip, encoding->data, encoding->size);
    return write_profile(&stream, &source) ? (uint32_t)ep_gzip_end(gzip) : 0;
}
