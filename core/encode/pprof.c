/*
 * The pprof encoder: one self-contained perftools.profiles.Profile, uncompressed, with addresses and build ids.
 *
 * A message holds one family of kinds, since different families have value types of the same name ("delay" of locks or
 * waits). Each tree entry is a sample, with zeros for the family's other kind. Each node of a used stack is a location;
 * its id is its rank, so ids are 1..n in order. Addresses are ELF addresses and mappings start at 0, which readers take
 * as "already normalized". Special frames are functions by name.
 *
 * String table: "", types, label names, special frames, path and build id of each module; then, if stacks carry
 * contexts, tag texts, and span, trace and thread of each written context (not of all: messages would fill the outbox).
 */
#include "core/encode/write.h"
#include "core/capture/capture.h"

#include <errno.h>
#include <pprof.pb.h>
#include <string.h>

#define TAG(message, field) perftools_profiles_##message##_##field##_tag
#define HEX_MOST            64

/* Servers accept 16,000 samples a profile, of at least 9 bytes each, and a few megabytes. */
#define MESSAGE_MOST (128u << 10)

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
    TEXT_SPECIAL
};
#define TEXT_PATH(module)     (TEXT_SPECIAL + EP_FRAME_SPECIALS + 2 * (module))
#define TEXT_BUILD_ID(module) (TEXT_PATH(module) + 1)

static const char words[TEXT_SPECIAL][16] = {
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

static uint32_t pprof_together(uint32_t kinds)
{
    return family_of(kinds)->kinds;
}

static const char *pprof_family(uint32_t kinds)
{
    return family_of(kinds)->name;
}

/* ---- which nodes, entries and contexts are written ---- */

static bool is_included(const struct ep_encoding *encoding, const struct ep_entry *entry)
{
    return (encoding->kinds & EP_KIND_BIT(entry->kind)) && ep_entry_has_data(entry);
}

/* Marks the nodes of all stacks with data. */
static void mark_nodes(struct ep_tree *tree, const struct ep_encoding *encoding)
{
    ep_tree_unmark(tree);
    for (unsigned id = 1; id < encoding->limit; id++) {
        bool any = false;
        for (unsigned i = tree->node[id].entry; i && !any; i = tree->entry[i - 1].next)
            any = is_included(encoding, &tree->entry[i - 1]);
        if (any)
            (void)ep_tree_mark(tree, id);
    }
}

/* The number of marked ids up to and including id. */
static unsigned rank(const uint32_t *mark, unsigned id)
{
    unsigned count = 0;

    for (unsigned i = 0; i < id / 32; i++)
        count += (unsigned)__builtin_popcount(mark[i]);
    return count + (unsigned)__builtin_popcount(mark[id / 32] & (0xffffffffu >> (31 - id % 32)));
}

#define CONTEXT_MARKS (4096u / 32) /* an entry's context has 12 bits */

/* Marks the contexts of all written entries; bit 0 is unused. */
static void mark_contexts(uint32_t *mark, const struct ep_encoding *encoding)
{
    const struct ep_tree *tree = encoding->tree;

    memset(mark, 0, CONTEXT_MARKS * sizeof mark[0]);
    for (unsigned id = 1; id < encoding->limit; id++)
        for (unsigned i = tree->node[id].entry; i; i = tree->entry[i - 1].next)
            if (is_included(encoding, &tree->entry[i - 1]) && tree->entry[i - 1].context)
                mark[tree->entry[i - 1].context / 32] |= 1u << (tree->entry[i - 1].context % 32);
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
        if (!pb_encode_varint(s, rank(tree->mark, id)))
            return false;
    return true;
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
static const char *thread_name(const struct ep_contexts *contexts, const struct ep_context_key *key)
{
    return key->thread ? contexts->name[key->thread - 1].name : "";
}

static bool write_labels(pb_ostream_t *s, const struct ep_source *source)
{
    const struct ep *ep = source->ep;
    unsigned context = source->encoding->tree->entry[source->index].context;
    const struct ep_context_key *key = &source->encoding->contexts->key[context];
    unsigned tags = text_of_tags(source->encoding), texts = tags + EP_TAG_STRINGS;
    struct ep_tag_pair pair;

    if (!context)
        return true;
    texts += 3 * (rank(source->contexts, context) - 1);
    for (unsigned set = key->tags; ep_tags_pair(&ep->tags, set, &pair); set = pair.parent)
        if (*pair.value && !ep_tags_hidden(&ep->tags, key->tags, set) &&
            !put_label(s, tags + ep_tags_string(&ep->tags, pair.key), tags + ep_tags_string(&ep->tags, pair.value)))
            return false;
    return put_label(s, TEXT_SPAN_ID, key->span_id ? texts : 0) &&
           put_label(s, TEXT_TRACE_ID, key->trace_high | key->trace_low ? texts + 1 : 0) &&
           put_label(s, TEXT_THREAD, *thread_name(source->encoding->contexts, key) ? texts + 2 : 0);
}

static bool write_sample(pb_ostream_t *s, const struct ep_source *source)
{
    return ep_put_nested(s, TAG(Sample, location_id), write_locations, source) &&
           ep_put_nested(s, TAG(Sample, value), write_values, source) && write_labels(s, source);
}

static bool write_samples(pb_ostream_t *s, const struct ep_source *source)
{
    const struct ep_tree *tree = source->encoding->tree;
    struct ep_source one = *source;

    for (one.node = 1; one.node < source->encoding->limit; one.node++)
        for (unsigned i = tree->node[one.node].entry; i; i = tree->entry[i - 1].next) {
            one.index = i - 1;
            if (is_included(source->encoding, &tree->entry[i - 1]) &&
                !ep_put_nested(s, TAG(Profile, sample), write_sample, &one))
                return false;
        }
    return true;
}

/* ---- tables ---- */

static bool write_mapping(pb_ostream_t *s, const struct ep_source *source)
{
    const struct ep_module *module = &source->ep->unwinder.modules.slot[source->index];

    return ep_put_number(s, TAG(Mapping, id), source->index + 1) &&
           ep_put_number(s, TAG(Mapping, filename), TEXT_PATH(source->index)) &&
           (!module->build_id_size || ep_put_number(s, TAG(Mapping, build_id), TEXT_BUILD_ID(source->index)));
}

static bool write_line(pb_ostream_t *s, const struct ep_source *source)
{
    return ep_put_number(s, TAG(Line, function_id), source->encoding->tree->node[source->index].frame);
}

static bool write_location(pb_ostream_t *s, const struct ep_source *source)
{
    struct ep_modules *modules = &source->ep->unwinder.modules;
    uint32_t frame = source->encoding->tree->node[source->index].frame;

    if (!ep_put_number(s, TAG(Location, id), rank(source->encoding->tree->mark, source->index)))
        return false;
    if (frame < EP_FRAME_FIRST_ADDRESS)
        return ep_put_nested(s, TAG(Location, line), write_line, source);
    const struct ep_module *module = ep_module_of_linear(modules, frame);
    return module && ep_put_number(s, TAG(Location, mapping_id), (uint64_t)(module - modules->slot) + 1) &&
           ep_put_number(s, TAG(Location, address), frame - module->base + (module->start - module->bias));
}

static bool write_function(pb_ostream_t *s, const struct ep_source *source)
{
    return ep_put_number(s, TAG(Function, id), source->index) &&
           ep_put_number(s, TAG(Function, name), TEXT_SPECIAL + source->index) &&
           ep_put_number(s, TAG(Function, system_name), TEXT_SPECIAL + source->index);
}

static bool write_tables(pb_ostream_t *s, const struct ep_source *source)
{
    struct ep_source one = *source;

    for (one.index = 0; one.index < source->encoding->modules; one.index++)
        if (!ep_put_nested(s, TAG(Profile, mapping), write_mapping, &one))
            return false;
    for (one.index = 1; one.index < source->encoding->limit; one.index++)
        if (ep_tree_is_marked(source->encoding->tree, one.index) &&
            !ep_put_nested(s, TAG(Profile, location), write_location, &one))
            return false;
    for (one.index = 1; one.index < EP_FRAME_SPECIALS; one.index++)
        if (!ep_put_nested(s, TAG(Profile, function), write_function, &one))
            return false;
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

    return !known || known[place / 32] >> (place % 32) & 1 ? ep_tags_text(&source->ep->tags, place) : "";
}

static bool write_context_strings(pb_ostream_t *s, const struct ep_source *source)
{
    const struct ep_contexts *contexts = source->encoding->contexts;

    if (contexts->count == 1)
        return true;
    for (unsigned i = 0; i < EP_TAG_STRINGS; i++)
        if (!ep_put_element(s, TAG(Profile, string_table), tag_text(source, i)))
            return false;
    for (unsigned i = 1; i < contexts->count; i++) {
        const struct ep_context_key *key = &contexts->key[i];
        if (!(source->contexts[i / 32] >> (i % 32) & 1))
            continue;
        if (!put_id(s, 0, key->span_id, 8) || !put_id(s, key->trace_high, key->trace_low, 16) ||
            !ep_put_element(s, TAG(Profile, string_table), thread_name(contexts, key)))
            return false;
    }
    return true;
}

static bool write_strings(pb_ostream_t *s, const struct ep_source *source)
{
    const struct ep_modules *modules = &source->ep->unwinder.modules;
    const uint32_t tag = TAG(Profile, string_table);

    for (unsigned i = 0; i < TEXT_SPECIAL; i++)
        if (!ep_put_element(s, tag, words[i]))
            return false;
    for (unsigned i = 0; i < EP_FRAME_SPECIALS; i++)
        if (!ep_put_element(s, tag, ep_special_name(i)))
            return false;
    for (unsigned i = 0; i < source->encoding->modules; i++)
        if (!ep_put_element(s, tag, modules->slot[i].path) ||
            !put_hex(s, modules->slot[i].build_id, modules->slot[i].build_id_size))
            return false;
    return write_context_strings(s, source);
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
    struct ep_source period = {.ep = source->ep, .encoding = encoding, .index = family->types};

    return write_types(s, source) && write_samples(s, source) && write_tables(s, source) && write_strings(s, source) &&
           ep_put_number(s, TAG(Profile, time_nanos), unix_ns ? encoding->start_ns + unix_ns : 0) &&
           ep_put_number(s, TAG(Profile, duration_nanos), encoding->end_ns - encoding->start_ns) &&
           ep_put_nested(s, TAG(Profile, period_type), write_type, &period) &&
           ep_put_number(s, TAG(Profile, period), encoding->period ? encoding->period : family_period(family)) &&
           ep_put_number(s, TAG(Profile, default_sample_type), preferred_type(family, encoding->kinds));
}

static int32_t pprof_encode(struct ep *ep, const struct ep_encoding *encoding)
{
    uint32_t contexts[CONTEXT_MARKS];
    struct ep_source source = {.ep = ep, .encoding = encoding, .contexts = contexts};
    pb_ostream_t stream =
        pb_ostream_from_buffer(encoding->data, encoding->size < MESSAGE_MOST ? encoding->size : MESSAGE_MOST);

    mark_nodes(encoding->tree, encoding);
    mark_contexts(contexts, encoding);
    return write_profile(&stream, &source) ? (int32_t)stream.bytes_written : -ENOSPC;
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

uint64_t ep_encode_pprof_size(struct ep *ep, const struct ep_encoding *encoding)
{
    uint32_t contexts[CONTEXT_MARKS];
    struct ep_source source = {.ep = ep, .encoding = encoding, .contexts = contexts};
    pb_ostream_t sizing = PB_OSTREAM_SIZING;

    mark_nodes(encoding->tree, encoding);
    mark_contexts(contexts, encoding);
    (void)write_profile(&sizing, &source);
    return sizing.bytes_written;
}

uint32_t ep_encode_pprof_piece(struct ep *ep, const struct ep_encoding *encoding, uint64_t from)
{
    uint32_t contexts[CONTEXT_MARKS];
    struct ep_source source = {.ep = ep, .encoding = encoding, .contexts = contexts};
    struct piece piece = {.skip = from, .to = encoding->data, .room = encoding->size};
    pb_ostream_t stream = {.callback = piece_write, .state = &piece, .max_size = SIZE_MAX};

    mark_nodes(encoding->tree, encoding);
    mark_contexts(contexts, encoding);
    (void)write_profile(&stream, &source);
    return (uint32_t)(encoding->size - piece.room);
}

const struct ep_encoder ep_encoder_pprof = {
    .format = EP_FORMAT_PPROF, .encode = pprof_encode, .together = pprof_together, .family = pprof_family};
