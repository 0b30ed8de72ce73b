/*
 * The pprof encoder: one self-contained perftools.profiles.Profile, uncompressed, with addresses and build ids.
 *
 * Two sample types: samples/count and cpu/nanoseconds. Every tree node that a stack passes through is a location, its
 * id the node's rank among them, so that ids are 1..n in order. Addresses are ELF virtual addresses and mappings start
 * at 0, which readers take as "already normalized". Frames that are no addresses are functions by name.
 *
 * String table: "", four words for the types, the special frames' names, then path and build id of each module.
 */
#include "encode.h"

#include <errno.h>
#include <pprof.pb.h>
#include <string.h>

#define TAG(message, field) perftools_profiles_##message##_##field##_tag

enum { TEXT_NONE, TEXT_SAMPLES, TEXT_COUNT, TEXT_CPU, TEXT_NANOSECONDS, TEXT_SPECIAL };
#define TEXT_PATH(module)     (TEXT_SPECIAL + EP_FRAME_SPECIALS + 2 * (module))
#define TEXT_BUILD_ID(module) (TEXT_PATH(module) + 1)

static bool marked(const struct ep_tree *tree, unsigned id)
{
    return tree->mark[id / 32] >> (id % 32) & 1;
}

/* Marks the nodes of all stacks that have something to say. */
static void mark_nodes(struct ep_tree *tree, unsigned limit)
{
    memset(tree->mark, 0, tree->node_capacity / 32 * sizeof tree->mark[0]);
    for (unsigned id = 1; id < limit; id++) {
        unsigned entry = tree->node[id].entry;
        if (!entry || !tree->entry[entry - 1].value)
            continue;
        for (unsigned up = id; up && !marked(tree, up); up = tree->node[up].parent)
            tree->mark[up / 32] |= 1u << (up % 32);
    }
}

/* 1 for the first marked node. */
static unsigned rank(const struct ep_tree *tree, unsigned id)
{
    unsigned count = 0;

    for (unsigned i = 0; i < id / 32; i++)
        count += (unsigned)__builtin_popcount(tree->mark[i]);
    return count + (unsigned)__builtin_popcount(tree->mark[id / 32] & (0xffffffffu >> (31 - id % 32)));
}

static bool write_type_samples(pb_ostream_t *s, const struct ep_source *source)
{
    (void)source;
    return ep_put_number(s, TAG(ValueType, type), TEXT_SAMPLES) && ep_put_number(s, TAG(ValueType, unit), TEXT_COUNT);
}

static bool write_type_cpu(pb_ostream_t *s, const struct ep_source *source)
{
    (void)source;
    return ep_put_number(s, TAG(ValueType, type), TEXT_CPU) && ep_put_number(s, TAG(ValueType, unit), TEXT_NANOSECONDS);
}

static bool write_locations(pb_ostream_t *s, const struct ep_source *source)
{
    const struct ep_tree *tree = &source->ep->tree;

    for (unsigned id = source->index; id; id = tree->node[id].parent)
        if (!pb_encode_varint(s, rank(tree, id)))
            return false;
    return true;
}

static bool write_values(pb_ostream_t *s, const struct ep_source *source)
{
    const struct ep_tree *tree = &source->ep->tree;
    const struct ep_entry *entry = &tree->entry[tree->node[source->index].entry - 1];

    return pb_encode_varint(s, entry->count) && pb_encode_varint(s, entry->value * source->ep->period_ns);
}

static bool write_sample(pb_ostream_t *s, const struct ep_source *source)
{
    return ep_put_nested(s, TAG(Sample, location_id), write_locations, source) &&
           ep_put_nested(s, TAG(Sample, value), write_values, source);
}

static bool write_samples(pb_ostream_t *s, const struct ep_source *source)
{
    const struct ep_tree *tree = &source->ep->tree;
    struct ep_source one = *source;

    for (one.index = 1; one.index < source->encoding->limit; one.index++) {
        unsigned entry = tree->node[one.index].entry;
        if (entry && tree->entry[entry - 1].value && !ep_put_nested(s, TAG(Profile, sample), write_sample, &one))
            return false;
    }
    return true;
}

static bool write_mapping(pb_ostream_t *s, const struct ep_source *source)
{
    const struct ep_module *module = &source->ep->modules.slot[source->index];

    return ep_put_number(s, TAG(Mapping, id), source->index + 1) &&
           ep_put_number(s, TAG(Mapping, filename), TEXT_PATH(source->index)) &&
           (!module->build_id_size || ep_put_number(s, TAG(Mapping, build_id), TEXT_BUILD_ID(source->index)));
}

static bool write_line(pb_ostream_t *s, const struct ep_source *source)
{
    return ep_put_number(s, TAG(Line, function_id), source->ep->tree.node[source->index].frame);
}

static bool write_location(pb_ostream_t *s, const struct ep_source *source)
{
    struct ep_modules *modules = &source->ep->modules;
    uint32_t frame = source->ep->tree.node[source->index].frame;

    if (!ep_put_number(s, TAG(Location, id), rank(&source->ep->tree, source->index)))
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
    const struct ep *ep = source->ep;
    struct ep_source one = *source;
    unsigned modules = atomic_load_explicit(&ep->modules.count, memory_order_relaxed);

    for (one.index = 0; one.index < modules; one.index++)
        if (!ep_put_nested(s, TAG(Profile, mapping), write_mapping, &one))
            return false;
    for (one.index = 1; one.index < source->encoding->limit; one.index++)
        if (marked(&ep->tree, one.index) && !ep_put_nested(s, TAG(Profile, location), write_location, &one))
            return false;
    for (one.index = 1; one.index < EP_FRAME_SPECIALS; one.index++)
        if (!ep_put_nested(s, TAG(Profile, function), write_function, &one))
            return false;
    return true;
}

static bool put_hex(pb_ostream_t *s, uint32_t tag, const uint8_t *bytes, unsigned size)
{
    char text[2 * 64 + 1];

    for (unsigned i = 0; i < size; i++) {
        text[2 * i] = "0123456789abcdef"[bytes[i] >> 4];
        text[2 * i + 1] = "0123456789abcdef"[bytes[i] & 15];
    }
    text[2 * size] = 0;
    return ep_put_element(s, tag, text);
}

static bool write_strings(pb_ostream_t *s, const struct ep_source *source)
{
    static const char words[][16] = {"", "samples", "count", "cpu", "nanoseconds"};
    const struct ep_modules *modules = &source->ep->modules;
    unsigned count = atomic_load_explicit(&modules->count, memory_order_relaxed);
    const uint32_t tag = TAG(Profile, string_table);

    for (unsigned i = 0; i < TEXT_SPECIAL; i++)
        if (!ep_put_element(s, tag, words[i]))
            return false;
    for (unsigned i = 0; i < EP_FRAME_SPECIALS; i++)
        if (!ep_put_element(s, tag, ep_special_name(i)))
            return false;
    for (unsigned i = 0; i < count; i++)
        if (!ep_put_element(s, tag, modules->slot[i].path) ||
            !put_hex(s, tag, modules->slot[i].build_id, modules->slot[i].build_id_size))
            return false;
    return true;
}

static bool write_profile(pb_ostream_t *s, const struct ep_source *source)
{
    const struct ep_encoding *encoding = source->encoding;
    uint64_t unix_ns = encoding->unix_minus_uptime_ns;

    return ep_put_nested(s, TAG(Profile, sample_type), write_type_samples, source) &&
           ep_put_nested(s, TAG(Profile, sample_type), write_type_cpu, source) && write_samples(s, source) &&
           write_tables(s, source) && write_strings(s, source) &&
           ep_put_number(s, TAG(Profile, time_nanos), unix_ns ? encoding->start_ns + unix_ns : 0) &&
           ep_put_number(s, TAG(Profile, duration_nanos), encoding->end_ns - encoding->start_ns) &&
           ep_put_nested(s, TAG(Profile, period_type), write_type_cpu, source) &&
           ep_put_number(s, TAG(Profile, period), source->ep->period_ns) &&
           ep_put_number(s, TAG(Profile, default_sample_type), TEXT_CPU);
}

int32_t ep_encode_pprof(struct ep *ep, const struct ep_encoding *encoding)
{
    struct ep_source source = {.ep = ep, .encoding = encoding};
    pb_ostream_t stream = pb_ostream_from_buffer(encoding->data, encoding->size);

    mark_nodes(&ep->tree, encoding->limit);
    return write_profile(&stream, &source) ? (int32_t)stream.bytes_written : -ENOSPC;
}
