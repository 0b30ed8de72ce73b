/*
 * The pprof encoder: one self-contained perftools.profiles.Profile with addresses, build ids and, if asked for, names.
 *
 * A profile holds one family of kinds, since different families have value types of the same name ("delay" of locks or
 * waits). Each tree entry is a sample, with zeros for the family's other kind. Each node of a used stack is a location;
 * its id is its rank, so ids are 1..n in order. Addresses are ELF addresses and mappings start at 0, which readers take
 * as "already normalized". Special frames are functions by name. Samples may be in the order of a walk through the
 * tree: neighbours then share callers, and a compressor with a small window sees that. Comments say if threads have
 * another clock than the one asked for, and which kind "delay" is, which the types do not show.
 *
 * String table: "", types, label names, the comments or "", special frames, path and build id of each module; then, if
 * stacks carry labels, tag texts, and span, trace and thread of each written label set; then the names of functions.
 */
#include "core/features/pprof/gzip.h"
#include "core/features/pprof/parts.h"

#include <errno.h>
#include <pprof.pb.h>
#include <string.h>

#define TAG(message, field) perftools_profiles_##message##_##field##_tag
#define HEX_MOST            64

/* ---- samples ---- */

/* index: the pair's place among the family's types, or family->types for the period's type. */
static bool write_type(pb_ostream_t *s, const struct ep_source *source)
{
    const struct ep_pprof_family *family = ep_pprof_family_of(source->encoding->kinds);
    const uint8_t *pair = source->index < family->types ? &family->type[2 * source->index] : family->period_type;

    return ep_put_number(s, TAG(ValueType, type), pair[0]) && ep_put_number(s, TAG(ValueType, unit), pair[1]);
}

static bool write_types(pb_ostream_t *s, const struct ep_source *source)
{
    struct ep_source one = *source;

    for (one.index = 0; one.index < ep_pprof_family_of(source->encoding->kinds)->types; one.index++)
        if (!ep_put_nested(s, TAG(Profile, sample_type), write_type, &one))
            return false;
    return true;
}

/* For a sample, index is its entry's place and node its node. */
static bool write_locations(pb_ostream_t *s, const struct ep_source *source)
{
    const struct ep_tree *tree = source->encoding->tree;

    for (unsigned id = source->node; id; id = tree->node[id].parent)
        if (!pb_encode_varint(s, ep_pprof_rank(source, id)))
            return false;
    return !source->encoding->root_name || pb_encode_varint(s, source->scratch->marked + 1);
}

static bool write_values(pb_ostream_t *s, const struct ep_source *source)
{
    const struct ep_entry *entry = &source->encoding->tree->entry[source->index];
    unsigned types = ep_pprof_family_of(source->encoding->kinds)->types, first = entry->kind == EP_KIND_LIVE ? 2 : 0;

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
    return EP_TEXT_PATH(encoding->modules);
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
    unsigned label = source->encoding->tree->entry[source->index].label;
    const struct ep_label_key *key = &source->encoding->labels->key[label];
    unsigned tags = text_of_tags(source->encoding), texts = tags + EP_TAG_STRINGS;
    struct ep_tag_pair pair;

    if (!label)
        return true;
    texts += 3 * (ep_pprof_label_rank(source, label) - 1);
    for (unsigned set = key->tags; ep_tags_pair(known, set, &pair); set = pair.parent)
        if (*pair.value && !ep_tags_hidden(known, key->tags, set) &&
            !put_label(s, tags + ep_tags_string(known, pair.key), tags + ep_tags_string(known, pair.value)))
            return false;
    return put_label(s, EP_TEXT_SPAN_ID, key->span_id ? texts : 0) &&
           put_label(s, EP_TEXT_TRACE_ID, key->trace_high | key->trace_low ? texts + 1 : 0) &&
           put_label(s, EP_TEXT_THREAD, *thread_name(source->encoding->labels, key) ? texts + 2 : 0);
}

static bool write_sample(pb_ostream_t *s, const struct ep_source *source)
{
    return ep_put_nested(s, TAG(Sample, location_id), write_locations, source) &&
           ep_put_nested(s, TAG(Sample, value), write_values, source) && write_labels(s, source);
}

static bool write_samples(pb_ostream_t *s, const struct ep_source *source)
{
    struct ep_source one = *source;
    struct ep_pprof_walk at = {0};

    while (ep_pprof_next(&at, source->encoding)) {
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
           ep_put_number(s, TAG(Mapping, filename), EP_TEXT_PATH(source->index)) &&
           (!module->build_id_size || ep_put_number(s, TAG(Mapping, build_id), EP_TEXT_BUILD_ID(source->index)));
}

/* index: the function's id */
static bool write_line(pb_ostream_t *s, const struct ep_source *source)
{
    return ep_put_number(s, TAG(Line, function_id), source->index);
}

static unsigned functions_named(const struct ep_encoding *encoding)
{
    return encoding->names ? encoding->names->memory()->count : 0;
}

/* index: the id of the location's function, 0: it has none */
static bool write_location(pb_ostream_t *s, const struct ep_source *source)
{
    const struct ep_encoding *encoding = source->encoding;
    const struct ep_module *module = ep_pprof_module(encoding, source->node);

    return ep_put_number(s, TAG(Location, id), ep_pprof_rank(source, source->node)) &&
           (!module || (ep_put_number(s, TAG(Location, mapping_id), (uint64_t)(module - encoding->table->slot) + 1) &&
                        ep_put_number(s, TAG(Location, address), ep_pprof_address(encoding, module, source->node)))) &&
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
        unsigned function = ep_pprof_function(encoding, one.node, ++rank);
        one.index = frame < EP_FRAME_FIRST_ADDRESS    ? frame
                    : function == EP_PPROF_BY_ADDRESS ? by_address++
                    : function                        ? EP_FRAME_SPECIALS + function - 1
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
            count += ep_pprof_function(encoding, id, ++rank) == EP_PPROF_BY_ADDRESS;
    return count;
}

static unsigned text_of_names(const struct ep_source *source)
{
    const struct ep_encoding *encoding = source->encoding;

    if (encoding->labels->count == 1)
        return text_of_tags(encoding);
    return text_of_tags(encoding) + EP_TAG_STRINGS + 3 * ep_pprof_label_rank(source, encoding->labels->count - 1);
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
        one.node = one.index < EP_FRAME_SPECIALS ? EP_TEXT_SPECIAL + one.index
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

static bool write_label_strings(pb_ostream_t *s, const struct ep_source *source)
{
    const struct ep_labels *labels = source->encoding->labels;

    if (labels->count == 1)
        return true;
    for (unsigned i = 0; i < EP_TAG_STRINGS; i++)
        if (!ep_put_element(s, TAG(Profile, string_table), tag_text(source, i)))
            return false;
    for (unsigned i = 1; i < labels->count; i++) {
        const struct ep_label_key *key = &labels->key[i];
        if (!ep_pprof_has_label(source, i))
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
    char text[EP_PPROF_NAME_MOST + 3 + 16 + 1];
    unsigned rank = 0;

    if (encoding->root_name && !ep_put_element(s, TAG(Profile, string_table), encoding->root_name))
        return false;
    for (unsigned i = 0; i < functions_named(encoding); i++)
        if (!ep_put_element(s, TAG(Profile, string_table), encoding->names->text(encoding->names->memory()->name[i])))
            return false;
    for (unsigned id = 1; id < encoding->tree->nodes; id++) {
        if (!ep_tree_is_marked(encoding->tree, id) || ep_pprof_function(encoding, id, ++rank) != EP_PPROF_BY_ADDRESS)
            continue;
        ep_pprof_address_name(encoding, id, text);
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

    for (unsigned i = 0; i < EP_TEXT_CLOCK; i++)
        if (!ep_put_element(s, tag, ep_pprof_words[i]))
            return false;
    const char *kind = ep_pprof_family_of(source->encoding->kinds)->kind;
    if (!put_clock(s, source->encoding->clock_error) || !ep_put_element(s, tag, kind ? kind : ""))
        return false;
    for (unsigned i = 0; i < EP_FRAME_SPECIALS; i++)
        if (!ep_put_element(s, tag, ep_special_name(i)))
            return false;
    for (unsigned i = 0; i < source->encoding->modules; i++)
        if (!ep_put_element(s, tag, modules->slot[i].path) ||
            !put_hex(s, modules->slot[i].build_id, modules->slot[i].build_id_size))
            return false;
    return write_label_strings(s, source) && write_names(s, source);
}

/* The period of the family's first kind. */
static uint64_t family_period(const struct ep_pprof_family *family)
{
    unsigned kind = EP_KIND_CPU;

    while (!(family->kinds & EP_KIND_BIT(kind)))
        kind++;
    return ep_hook_period((enum ep_kind)kind);
}

/* If EP_KIND_LIVE is not included, allocated space is shown first. */
static uint64_t preferred_type(const struct ep_pprof_family *family, uint32_t kinds)
{
    return kinds == EP_KIND_BIT(EP_KIND_ALLOC) ? EP_TEXT_ALLOC_SPACE : family->preferred;
}

static bool write_profile(pb_ostream_t *s, const struct ep_source *source)
{
    const struct ep_encoding *encoding = source->encoding;
    const struct ep_pprof_family *family = ep_pprof_family_of(encoding->kinds);
    uint64_t unix_ns = encoding->unix_minus_uptime_ns;
    struct ep_source period = {.encoding = encoding, .index = family->types};

    return write_types(s, source) && write_samples(s, source) && write_tables(s, source) && write_strings(s, source) &&
           ep_put_number(s, TAG(Profile, time_nanos), unix_ns ? encoding->start_ns + unix_ns : 0) &&
           ep_put_number(s, TAG(Profile, duration_nanos), encoding->end_ns - encoding->start_ns) &&
           ep_put_nested(s, TAG(Profile, period_type), write_type, &period) &&
           ep_put_number(s, TAG(Profile, period), encoding->period ? encoding->period : family_period(family)) &&
           ep_put_number(s, TAG(Profile, comment), encoding->clock_error ? EP_TEXT_CLOCK : 0) &&
           ep_put_number(s, TAG(Profile, comment), family->kind ? EP_TEXT_KIND : 0) &&
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

    ep_pprof_mark(encoding, &scratch);
    (void)write_profile(&sizing, &source);
    return sizing.bytes_written;
}

uint32_t ep_encode_pprof_piece(const struct ep_encoding *encoding, uint64_t from)
{
    struct ep_scratch scratch;
    struct ep_source source = {.encoding = encoding, .scratch = &scratch};
    struct piece piece = {.skip = from, .to = encoding->data, .room = encoding->size};
    pb_ostream_t stream = {.callback = piece_write, .state = &piece, .max_size = SIZE_MAX};

    ep_pprof_mark(encoding, &scratch);
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

    ep_pprof_mark(encoding, &scratch);
    if (encoding->names)
        ep_pprof_names_find(encoding, deadline);
    ep_gzip_begin(gzip, encoding->data, encoding->size);
    return write_profile(&stream, &source) ? (uint32_t)ep_gzip_end(gzip) : 0;
}
