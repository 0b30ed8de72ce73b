/*
 * The compact encoder: one edgeprof.v1.Message (core/FORMAT.md) of the tree's new nodes and the measured values.
 *
 * It writes each module, node and tag set once a segment. It does not change the profiler: the collect thread notes
 * what the dictionary contains once the message is in the outbox.
 */
#include "core/encode/write.h"
#include "core/sample/capture.h"
#include "core/sample/feature.h"

#include <compact.pb.h>
#include <errno.h>

#define TAG(message, field) edgeprof_v1_##message##_##field##_tag
#define STATS_EVERY         6

static bool write_tag(pb_ostream_t *s, const struct ep_source *source)
{
    struct ep_tag tag = {0};
    bool error;
    const char *at = source->ep->config.tags;

    for (unsigned i = 0; i <= source->index; i++)
        at = ep_tag_next(at, &tag, &error);
    return ep_put_bytes(s, TAG(Tag, key), tag.key, tag.key_size) &&
           ep_put_bytes(s, TAG(Tag, value), tag.value, tag.value_size);
}

static bool write_tags(pb_ostream_t *s, const struct ep_source *source)
{
    struct ep_source one = *source;
    struct ep_tag tag;
    bool error;

    one.index = 0;
    for (const char *at = source->ep->config.tags; (at = ep_tag_next(at, &tag, &error)) != NULL; one.index++)
        if (!ep_put_nested(s, TAG(Origin, tags), write_tag, &one))
            return false;
    return true;
}

bool ep_write_origin(pb_ostream_t *s, const struct ep_source *source)
{
    const struct ep *ep = source->ep;

    return ep_put_number(s, TAG(Origin, format), 1) && ep_put_text(s, TAG(Origin, service), ep->config.service) &&
           write_tags(s, source) && ep_put_text(s, TAG(Origin, host), ep->identity.host) &&
           ep_put_text(s, TAG(Origin, boot_id), ep->identity.boot_id) &&
           ep_put_number(s, TAG(Origin, pid), ep->identity.pid) &&
           ep_put_text(s, TAG(Origin, executable), ep->identity.executable) &&
           ep_put_text(s, TAG(Origin, arch), ep->identity.arch) &&
           ep_put_text(s, TAG(Origin, agent), "edgeprof/" EP_VERSION) &&
           ep_put_number(s, TAG(Origin, process_start_ns), ep->started_ns);
}

static bool is_chosen(const struct ep_encoding *encoding, unsigned id)
{
    return !encoding->chosen || encoding->chosen[id / 32] >> (id % 32) & 1;
}

/* The id of a node in the message. */
static unsigned number_of(const struct ep_encoding *encoding, unsigned id)
{
    unsigned count = 0;

    if (!encoding->chosen || !id)
        return id;
    for (unsigned i = 0; i < id / 32; i++)
        count += (unsigned)__builtin_popcount(encoding->chosen[i]);
    return count + (unsigned)__builtin_popcount(encoding->chosen[id / 32] & (0xffffffffu >> (31 - id % 32)));
}

/* Marks the modules that the new nodes need. */
static void want_modules(const struct ep_encoding *encoding)
{
    unsigned count = encoding->modules;

    for (unsigned i = 0; i < count; i++)
        encoding->table->slot[i].wanted = false;
    for (unsigned id = encoding->nodes_declared; id < encoding->limit; id++) {
        uint32_t frame = encoding->tree->node[id].frame;
        struct ep_module *module = frame < EP_FRAME_FIRST_ADDRESS || !is_chosen(encoding, id)
                                       ? NULL
                                       : ep_module_of_linear(encoding->table, frame);
        if (module)
            module->wanted = true;
    }
}

static bool write_modules(pb_ostream_t *s, const struct ep_source *source)
{
    for (unsigned i = 0; i < source->encoding->modules; i++) {
        const struct ep_module *module = &source->encoding->table->slot[i];
        if (module->wanted && !module->declared && !ep_put_module(s, TAG(Message, modules), module))
            return false;
    }
    return true;
}

static bool write_back(pb_ostream_t *s, const struct ep_source *source)
{
    const struct ep_encoding *encoding = source->encoding;

    for (unsigned id = encoding->nodes_declared; id < encoding->limit; id++) {
        unsigned parent = encoding->tree->node[id].parent;
        if (is_chosen(encoding, id) &&
            !pb_encode_varint(s, parent ? number_of(encoding, id) - number_of(encoding, parent) : 0))
            return false;
    }
    return true;
}

static bool write_frame(pb_ostream_t *s, const struct ep_source *source)
{
    int64_t before = 0;

    for (unsigned id = source->encoding->nodes_declared; id < source->encoding->limit; id++) {
        int64_t frame = source->encoding->tree->node[id].frame;
        if (!is_chosen(source->encoding, id))
            continue;
        if (!pb_encode_svarint(s, frame - before))
            return false;
        before = frame;
    }
    return true;
}

static bool has_new_nodes(const struct ep_source *source)
{
    return source->encoding->nodes_declared < source->encoding->limit;
}

static bool write_nodes(pb_ostream_t *s, const struct ep_source *source)
{
    return !has_new_nodes(source) || (ep_put_nested(s, TAG(Nodes, back), write_back, source) &&
                                      ep_put_nested(s, TAG(Nodes, frame), write_frame, source));
}

/* ---- profiles: source->index is the kind ---- */

/* Position in the entries of one kind, in the order of nodes; entries without a value are skipped. */
struct cursor {
    unsigned node, entry; /* entry: + 1 */
};

/* Marks the nodes that have a value of any kind: few of them, and each column looks at all. */
static void mark_used(struct ep_tree *tree, unsigned limit)
{
    ep_tree_unmark(tree);
    for (unsigned id = 1; id < limit; id++)
        if (ep_tree_has_data(tree, id))
            tree->mark[id / 32] |= 1u << (id % 32);
}

/* The first marked node from `id` on; `limit`: none below it. */
static unsigned next_marked(const struct ep_tree *tree, unsigned id, unsigned limit)
{
    while (id < limit) {
        uint32_t marks = tree->mark[id / 32] >> (id % 32);
        if (marks)
            return id + (unsigned)__builtin_ctz(marks);
        id = (id / 32 + 1) * 32;
    }
    return limit;
}

static const struct ep_entry *next_entry(const struct ep_source *source, struct cursor *at)
{
    const struct ep_tree *tree = source->encoding->tree;

    while (at->node < source->encoding->limit) {
        at->entry = at->entry ? tree->entry[at->entry - 1].next : tree->node[at->node].entry;
        if (!at->entry) {
            at->node = next_marked(tree, at->node + 1, source->encoding->limit);
            continue;
        }
        const struct ep_entry *entry = &tree->entry[at->entry - 1];
        if (entry->kind == source->index && ep_entry_has_data(entry))
            return entry;
    }
    return NULL;
}

/* Another format may have counts of CPU samples as well. */
static bool has_counts(unsigned kind)
{
    if (kind == EP_KIND_CPU && EP_HAS_FEATURE(convert))
        return true;
    return kind != EP_KIND_CPU && kind != EP_KIND_EXCEPTION && kind != EP_KIND_THREAD && kind != EP_KIND_HEAP;
}

static bool has_labels(const struct ep_source *source)
{
    struct cursor at = {1, 0};
    const struct ep_entry *entry;

    while ((entry = next_entry(source, &at)) != NULL)
        if (entry->label)
            return true;
    return false;
}

static uint64_t period_of(const struct ep_source *source, enum ep_kind kind)
{
    const uint64_t *periods = source->encoding->periods;

    if (periods)
        return periods[kind] ? periods[kind] : 1;
    return kind == EP_KIND_CPU ? source->ep->period_applied_ns : ep_hook_period(kind);
}

/* CPU time is a multiple of the period, unless the period has changed meanwhile. */
static uint64_t quantum_of(const struct ep_source *source)
{
    struct cursor at = {1, 0};
    const struct ep_entry *entry;
    uint64_t period = period_of(source, EP_KIND_CPU);

    if (source->index != EP_KIND_CPU)
        return 1;
    while ((entry = next_entry(source, &at)) != NULL)
        if (entry->value % period)
            return 1;
    return period;
}

static bool write_node_column(pb_ostream_t *s, const struct ep_source *source)
{
    struct cursor at = {1, 0};
    unsigned before = 0;

    while (next_entry(source, &at)) {
        unsigned number = number_of(source->encoding, at.node);
        if (!pb_encode_varint(s, number - before))
            return false;
        before = number;
    }
    return true;
}

static bool write_value_column(pb_ostream_t *s, const struct ep_source *source)
{
    struct cursor at = {1, 0};
    const struct ep_entry *entry;
    uint64_t quantum = quantum_of(source);

    while ((entry = next_entry(source, &at)) != NULL)
        if (!pb_encode_varint(s, entry->value / quantum))
            return false;
    return true;
}

static bool write_count_column(pb_ostream_t *s, const struct ep_source *source)
{
    struct cursor at = {1, 0};
    const struct ep_entry *entry;

    while ((entry = next_entry(source, &at)) != NULL)
        if (!pb_encode_varint(s, entry->count))
            return false;
    return true;
}

static bool write_label_column(pb_ostream_t *s, const struct ep_source *source)
{
    struct cursor at = {1, 0};
    const struct ep_entry *entry;

    while ((entry = next_entry(source, &at)) != NULL)
        if (!pb_encode_varint(s, entry->label))
            return false;
    return true;
}

static bool write_profile(pb_ostream_t *s, const struct ep_source *source)
{
    const struct ep_encoding *encoding = source->encoding;
    unsigned kind = source->index;

    return ep_put_number(s, TAG(Profile, kind), kind) &&
           ep_put_fixed64(s, TAG(Profile, start_ns), encoding->start_ns) &&
           ep_put_number(s, TAG(Profile, duration_ns), encoding->end_ns - encoding->start_ns) &&
           ep_put_number(s, TAG(Profile, period_ns),
                         source->encoding->periods ? period_of(source, (enum ep_kind)kind)
                                                   : ep_hook_period((enum ep_kind)kind)) &&
           ep_put_number(s, TAG(Profile, quantum), quantum_of(source)) &&
           ep_put_number(s, TAG(Profile, samples), encoding->sums.count[kind]) &&
           ep_put_nested(s, TAG(Profile, node), write_node_column, source) &&
           ep_put_nested(s, TAG(Profile, value), write_value_column, source) &&
           (!has_counts(kind) || ep_put_nested(s, TAG(Profile, count), write_count_column, source)) &&
           (!has_labels(source) || ep_put_nested(s, TAG(Profile, label_set), write_label_column, source));
}

/* A gauge of 0 is sent, a sum of 0 is not. */
static bool write_profiles(pb_ostream_t *s, const struct ep_source *source)
{
    const struct ep_sums *sums = &source->encoding->sums;
    struct ep_source one = *source;

    for (one.index = EP_KIND_CPU; one.index < EP_KINDS; one.index++)
        if (source->encoding->kinds & EP_KIND_BIT(one.index) &&
            (sums->count[one.index] || sums->value[one.index] ||
             (one.index == EP_KIND_LIVE && ep_hook_wants(EP_KIND_LIVE))) &&
            !ep_put_nested(s, TAG(Message, profiles), write_profile, &one))
            return false;
    return true;
}

/* ---- label sets ---- */

static bool write_label_set(pb_ostream_t *s, const struct ep_source *source)
{
    const struct ep_labels *labels = source->encoding->labels;
    const struct ep_label_key *key = &labels->key[source->index];

    return ep_put_number(s, TAG(LabelSet, tag_set), key->tags) &&
           ep_put_fixed64(s, TAG(LabelSet, span_id), key->span_id) &&
           ep_put_fixed64(s, TAG(LabelSet, trace_high), key->trace_high) &&
           ep_put_fixed64(s, TAG(LabelSet, trace_low), key->trace_low) &&
           (!key->thread || ep_put_text(s, TAG(LabelSet, thread), labels->name[key->thread - 1].name));
}

static bool write_label_sets(pb_ostream_t *s, const struct ep_source *source)
{
    struct ep_source one = *source;

    for (one.index = 1; one.index < source->encoding->labels->count; one.index++)
        if (!ep_put_nested(s, TAG(Message, label_sets), write_label_set, &one))
            return false;
    return true;
}

static bool write_pair(pb_ostream_t *s, const struct ep_source *source)
{
    struct ep_tag_pair pair;

    return !ep_tags_pair(source->encoding->tags, source->index, &pair) ||
           (ep_put_text(s, TAG(Tag, key), pair.key) && ep_put_text(s, TAG(Tag, value), pair.value));
}

static bool write_tag_set(pb_ostream_t *s, const struct ep_source *source)
{
    struct ep_source one = *source;
    struct ep_tag_pair pair;

    if (!ep_put_number(s, TAG(TagSet, id), source->index))
        return false;
    for (; ep_tags_pair(source->encoding->tags, one.index, &pair); one.index = pair.parent)
        if (!ep_tags_hidden(source->encoding->tags, source->index, one.index) &&
            !ep_put_nested(s, TAG(TagSet, tags), write_pair, &one))
            return false;
    return true;
}

/* Tag sets that this message's label sets need and the segment does not have yet; each once. */
static bool write_tag_sets(pb_ostream_t *s, const struct ep_source *source)
{
    const struct ep_encoding *encoding = source->encoding;
    const struct ep_labels *labels = encoding->labels;
    const uint32_t *declared = encoding->tags_declared, *again = encoding->tags_again;
    struct ep_source one = *source;

    for (one.index = encoding->tags_begin; one.index < encoding->tags_end; one.index++)
        if (again[one.index / 32] >> (one.index % 32) & 1 &&
            !ep_put_nested(s, TAG(Message, tag_sets), write_tag_set, &one))
            return false;
    for (unsigned i = 1; i < labels->count; i++) {
        one.index = labels->key[i].tags;
        bool known = !one.index || (declared && declared[one.index / 32] >> (one.index % 32) & 1);
        for (unsigned j = 1; j < i && !known; j++)
            known = labels->key[j].tags == one.index;
        if (!known && !ep_put_nested(s, TAG(Message, tag_sets), write_tag_set, &one))
            return false;
    }
    return true;
}

static bool write_unsampled(pb_ostream_t *s, struct ep *ep, unsigned index)
{
    struct ep_unsampled unsampled;

    ep_unsampled_read(ep, index, &unsampled);
    for (unsigned i = 0; i < 3; i++)
        if (!ep_put_text(s, TAG(Loss, threads), unsampled.name[i]))
            return false;
    return ep_put_number(s, TAG(Loss, error), (uint64_t)-unsampled.error) &&
           ep_put_number(s, TAG(Loss, limit), unsampled.limit);
}

static bool write_loss(pb_ostream_t *s, const struct ep_source *source)
{
    struct ep *ep = source->ep;
    unsigned index = ep_unsampled_index(source->index);

    return ep_put_number(s, TAG(Loss, reason), source->index) &&
           ep_put_number(s, TAG(Loss, count), atomic_load(&ep->lost_count[source->index])) &&
           ep_put_number(s, TAG(Loss, weight_ns), atomic_load(&ep->lost_ns[source->index])) &&
           (index == EP_UNSAMPLED || write_unsampled(s, ep, index));
}

static bool write_stats(pb_ostream_t *s, const struct ep_source *source)
{
    static const uint8_t counters[] = {
        [TAG(Stats, samples)] = EP_COUNT_SAMPLES,
        [TAG(Stats, exact)] = EP_COUNT_EXACT,
        [TAG(Stats, gap)] = EP_COUNT_GAP,
        [TAG(Stats, cut)] = EP_COUNT_CUT,
        [TAG(Stats, rule_hits)] = EP_COUNT_RULE_HITS,
        [TAG(Stats, rule_misses)] = EP_COUNT_RULE_MISSES,
        [TAG(Stats, threads)] = EP_COUNT_THREADS,
        [TAG(Stats, stretches)] = EP_COUNT_STRETCHES,
        [TAG(Stats, cost_ppm)] = EP_COUNT_COST_PPM,
        [TAG(Stats, spool_messages)] = EP_COUNT_SPOOL_MESSAGES,
        [TAG(Stats, spool_bytes)] = EP_COUNT_SPOOL_BYTES,
        [TAG(Stats, spool_error)] = EP_COUNT_SPOOL_ERROR,
        [TAG(Stats, unsampled_ns)] = EP_COUNT_UNSAMPLED_NS,
        [TAG(Stats, weight_ns)] = EP_COUNT_WEIGHT_NS,
        [TAG(Stats, thread_exit_ns)] = EP_COUNT_THREAD_EXIT_NS,
        [TAG(Stats, intervals_early)] = EP_COUNT_EARLY,
        [TAG(Stats, degraded_labels)] = EP_COUNT_DEGRADED + EP_DETAIL_LABELS - 1,
        [TAG(Stats, degraded_addresses)] = EP_COUNT_DEGRADED + EP_DETAIL_ADDRESSES - 1,
        [TAG(Stats, degraded_frames)] = EP_COUNT_DEGRADED + EP_DETAIL_FRAMES - 1,
        [TAG(Stats, clock_error)] = EP_COUNT_CLOCK_ERROR,
        [TAG(Stats, collect_ns)] = EP_COUNT_COLLECT_CPU_NS,
        [TAG(Stats, deliver_ns)] = EP_COUNT_DELIVER_CPU_NS,
    };
    struct ep *ep = source->ep;
    struct ep_source one = *source;

    for (one.index = 0; one.index < EP_LOSS_REASONS; one.index++)
        if ((atomic_load(&ep->lost_count[one.index]) || atomic_load(&ep->lost_ns[one.index])) &&
            !ep_put_nested(s, TAG(Stats, losses), write_loss, &one))
            return false;
    for (unsigned tag = TAG(Stats, samples); tag <= TAG(Stats, deliver_ns); tag++)
        if (!ep_put_number(s, tag, atomic_load(&ep->counter[counters[tag]])))
            return false;
    return true;
}

static bool write_message(pb_ostream_t *s, const struct ep_source *source)
{
    const struct ep_encoding *encoding = source->encoding;
    bool stats = encoding->last || encoding->sequence % STATS_EVERY == 0;

    return ep_put_fixed64(s, TAG(Message, segment), encoding->segment) &&
           ep_put_number(s, TAG(Message, sequence), encoding->sequence) &&
           (encoding->sequence > 0 || ep_put_nested(s, TAG(Message, origin), ep_write_origin, source)) &&
           write_modules(s, source) &&
           (!has_new_nodes(source) || ep_put_nested(s, TAG(Message, nodes), write_nodes, source)) &&
           write_tag_sets(s, source) && write_label_sets(s, source) && write_profiles(s, source) &&
           (!stats || ep_put_nested(s, TAG(Message, stats), write_stats, source)) &&
           ep_put_number(s, TAG(Message, last), encoding->last) &&
           ep_put_fixed64(s, TAG(Message, unix_minus_uptime_ns), encoding->unix_minus_uptime_ns) &&
           ep_put_number(s, TAG(Message, more), encoding->more);
}

int32_t ep_encode_compact(struct ep *ep, const struct ep_encoding *encoding)
{
    struct ep_source source = {.ep = ep, .encoding = encoding};
    pb_ostream_t stream = pb_ostream_from_buffer(encoding->data, encoding->size);

    want_modules(encoding);
    mark_used(encoding->tree, encoding->limit);
    return write_message(&stream, &source) ? (int32_t)stream.bytes_written : -ENOSPC;
}
