/*
 * The collect thread: turns records from the ring into stacks in the tree, and once an interval the tree into a
 * message.
 *
 *   ep_collect_round -> ep_collect_drain -> add_sample -> ep_rates_note, leaf_node, ep_label_find, add_entry
 *                                        -> add_residual
 *                    -> scans for modules and threads; a dump of all stacks on request (thread_dump.c)
 *                    -> answers the pull endpoint (core/features/endpoint/views.c)
 *                    -> ep_collect_finish -> encode_all -> encode_some -> ep_encode_compact, ep_message_put
 *
 * Never blocks. If the outbox has no room the interval goes on, so a lost link costs resolution in time, but no
 * samples.
 */
#include "core/collect/collect.h"
#include "core/sample/capture.h"
#include "core/encode/encode.h"
#include "core/profile/fold.h"

#include <errno.h>
#include <string.h>

#define SCAN_ANNOUNCED_NS 10000000000u /* threads announce their start, so a scan only finds missed ends */
#define SCAN_NS           5000000000u
#define SCAN_SOON_NS      100000000u
#define RESTART_ROOM      512u /* of the outbox, for parts of a dictionary */
/* The C library's frames between a sample's leaf and a function of edgeprof that calls it. */
#define OWN_DEPTH 4u
/* edgeprof's frames between a sample's leaf and a hook. */
#define HOOK_DEPTH 12u

const struct ep_live *ep_live;
const struct ep_history *ep_history;
void (*ep_heap_charge)(struct ep *ep);
_Atomic(const struct ep_pull *) ep_pull;

/* The node under the root for a special frame; the root for frame 0. */
static unsigned root_node(struct ep *ep, unsigned frame)
{
    unsigned node = frame ? ep_tree_child(&ep->tree, 0, frame) : 0;

    return node || !frame ? node : ep->tree.truncated;
}

/* Adds to the tree and offers the value to the pull endpoint, which may take it exclusively. False: no room. */
static __attribute__((noinline)) bool tree_add(struct ep *ep, unsigned node, enum ep_kind kind, unsigned context,
                                               uint32_t count, uint64_t value)
{
    const struct ep_pull *pull = atomic_load(&ep_pull);

    return (pull && pull->add(ep, node, kind, context, count, value)) ||
           ep_tree_add(&ep->tree, node, kind, context, count, value);
}

static void add_special(struct ep *ep, enum ep_special frame, enum ep_kind kind, uint32_t count, uint64_t value)
{
    if (count || value)
        (void)tree_add(ep, root_node(ep, frame), kind, 0, count, value);
}

/* A record, decoded. */
struct sample {
    enum ep_kind kind;
    uint32_t tid, count, token;
    unsigned frame, skip, head; /* head: number of words in front of the stack */
    uint64_t value;
    uintptr_t type;
    struct ep_label_key context;
};

static struct sample sample_of(const struct ep_record *record)
{
    uint32_t info = (uint32_t)record->words[EP_WORD_INFO];
    struct sample sample = {.kind = (enum ep_kind)(info >> EP_INFO_KIND_SHIFT & 0xf),
                            .tid = (uint32_t)record->words[EP_WORD_TID],
                            .count = 1,
                            .frame = info >> EP_INFO_FRAME_SHIFT,
                            .skip = info >> EP_INFO_SKIP_SHIFT & 7,
                            .head = EP_SAMPLE_WORDS,
                            .value = ep_wide_word(&record->words[EP_WORD_VALUE]),
                            .context.tags = info & 0xffff};

    if (record->kind == EP_RECORD_EVENT) {
        sample.head = EP_EVENT_WORDS;
        sample.count = (uint32_t)record->words[EP_WORD_COUNT];
        sample.type = record->words[EP_WORD_TYPE];
        sample.token = (uint32_t)record->words[EP_WORD_TOKEN];
    }
    if (info & EP_INFO_SPAN) {
        const atomic_uintptr_t *span = &record->words[sample.head];
        sample.context.span_id = ep_wide_word(&span[0]);
        sample.context.trace_high = ep_wide_word(&span[EP_WIDE_WORDS]);
        sample.context.trace_low = ep_wide_word(&span[2 * EP_WIDE_WORDS]);
        sample.head += EP_SPAN_WORDS;
    }
    sample.head += ep_history_kinds & 1;
    return sample;
}

static bool descend(struct ep *ep, unsigned *node, uintptr_t pc)
{
    uint32_t frame = ep_module_linear(&ep->unwinder.modules, pc, &ep->module_hint);

    return ep_tree_step(&ep->tree, node, ep->detail >= EP_DETAIL_ADDRESSES ? ep_function_of(ep, frame) : frame);
}

/* Moves *node along the frames that the record shares with the last one, whose nodes are known. Returns the number of
 * frames. */
static unsigned follow_path(struct ep *ep, const struct ep_record *record, unsigned most, unsigned *node)
{
    struct ep_path *path = &ep->path;
    const atomic_uintptr_t *outermost = &record->words[record->count];
    unsigned depth = 0;

    if (most > path->depth)
        most = path->depth;
    while (depth < most && outermost[-1 - (int)depth] == path->pc[depth])
        depth++;
    if (depth)
        *node = path->node[depth - 1];
    path->depth = depth;
    return depth;
}

static void extend_path(struct ep *ep, unsigned depth, uintptr_t pc, unsigned node)
{
    struct ep_path *path = &ep->path;

    if (depth >= EP_PATH_FRAMES || path->depth != depth)
        return;
    path->pc[depth] = pc;
    path->node[depth] = (uint16_t)node;
    path->depth++;
}

/* The node of the record's frames up to `last`, outermost first. False: no room, a [truncated] node. */
static bool descend_all(struct ep *ep, const struct ep_record *record, unsigned last, unsigned *node)
{
    unsigned frames = record->count - last, depth = 0;
    unsigned modules = atomic_load_explicit(&ep->unwinder.modules.count, memory_order_relaxed);
    bool room = true;

    if (ep->path.end != record->end || ep->path.modules != modules)
        ep->path.depth = 0;
    ep->path.end = record->end;
    ep->path.modules = modules;
    if (ep->path.depth)
        depth = follow_path(ep, record, frames, node);
    if (!depth)
        *node = root_node(ep, record->end);
    for (; room && depth < frames; depth++) {
        uintptr_t pc = record->words[record->count - 1 - depth];
        room = descend(ep, node, pc);
        if (room)
            extend_path(ep, depth, pc, *node);
    }
    return room;
}

static struct ep_own_text own_text;

void ep_own_text_is(const struct ep_own_text *text)
{
    own_text = *text;
}

static bool is_in(const struct ep_module *module, uintptr_t pc)
{
    return pc - module->start < module->end - module->start;
}

/* In programs where edgeprof is a module of its own: the number of its frames at the leaf. They are edgeprof's work if
 * the leaf is, or if the innermost of edgeprof's functions calls the C library for edgeprof alone. Otherwise they
 * called the program's function, as every hook does. */
static unsigned own_in_module(const struct ep_module *own, const struct ep_record *record, unsigned first)
{
    unsigned at = first, most = first + OWN_DEPTH;

    if (most > record->count)
        most = record->count;
    while (at < most && !is_in(own, record->words[at]))
        at++;
    if (at == most ||
        (at > first && record->words[at] - own_text.calls_start >= own_text.calls_end - own_text.calls_start))
        return 0;
    while (at < record->count && is_in(own, record->words[at]))
        at++;
    return at - first;
}

/* In programs that are linked with edgeprof: the number of frames from the leaf to a hook. A hook calls no function of
 * the program. A frame of another module may be below a signal's, so the search ends there. */
static unsigned own_in_hook(const struct ep *ep, const struct ep_record *record, unsigned first)
{
    const struct ep_waits *waits = atomic_load(&ep_waits);
    const struct ep_module *module = waits ? ep_module_find(&ep->unwinder.modules, record->words[first]) : NULL;
    unsigned own = 0;

    for (unsigned i = 0; module && i < HOOK_DEPTH && first + i < record->count; i++) {
        uintptr_t pc = record->words[first + i];
        if (!is_in(module, pc))
            break;
        if (waits->is_hook(ep, pc))
            own = i + 1;
    }
    return own;
}

/* CPU time of edgeprof in the program's thread: puts [edgeprof] in place of its frames at the leaf. */
static void mark_own(const struct ep *ep, const struct ep_record *record, struct sample *sample)
{
    const struct ep_module *own = own_text.inside ? ep_module_find(&ep->unwinder.modules, own_text.inside) : NULL;

    if (sample->head >= record->count)
        return;
    sample->skip = own ? own_in_module(own, record, sample->head) : own_in_hook(ep, record, sample->head);
    if (sample->skip)
        sample->frame = EP_FRAME_EDGEPROF;
}

/* Such samples are in no profile, so no loss of the profile either. */
static bool is_of_history(enum ep_kind kind)
{
    return atomic_load_explicit(&ep_history_alone, memory_order_relaxed) & EP_KIND_BIT(kind);
}

/* The node of the record's leaf; creates its path from the root. */
static unsigned leaf_node(struct ep *ep, const struct ep_record *record, const struct sample *sample)
{
    unsigned node, first = sample->head + sample->skip;
    unsigned last = record->count - first > ep->depth_limit ? record->count - ep->depth_limit : first;
    bool room = descend_all(ep, record, last, &node);

    if (room && last > first) {
        ep_tree_truncate(&ep->tree, &node);
        room = false;
    }
    if (room && sample->frame)
        room = ep_tree_descend(&ep->tree, &node, sample->frame);
    if (room && sample->type)
        room =
            ep_tree_descend(&ep->tree, &node, ep_module_linear(&ep->unwinder.modules, sample->type, &ep->module_hint));
    if (!room && !is_of_history(sample->kind))
        ep_lose(ep, EP_LOSS_TREE_FULL, 1, sample->kind == EP_KIND_CPU ? sample->value : 0);
    return node;
}

static void add_entry(struct ep *ep, unsigned node, enum ep_kind kind, unsigned context, uint32_t count, uint64_t value)
{
    /* CPU time counts even if the kind is off by now: it is charged to its thread. */
    if (!((ep->kinds | EP_KIND_BIT(EP_KIND_THREAD) | EP_KIND_BIT(EP_KIND_CPU)) & EP_KIND_BIT(kind)))
        return;
    if (!tree_add(ep, node, kind, context, count, value))
        ep_lose(ep, EP_LOSS_ENTRIES_FULL, 1, kind == EP_KIND_CPU ? value : 0);
    ep_count_kind(ep, kind, count, value);
}

/* Adds the stack of a running thread to a dump of all threads. */
static void add_snapshot(struct ep *ep, unsigned node, const struct sample *sample)
{
    const struct ep_snapshot *snapshot = atomic_load(&ep->snapshot);
    struct ep_label_key context = sample->context;

    if (!snapshot || !snapshot->wants(ep, sample->tid))
        return;
    context.thread = ep_label_thread(ep, sample->tid);
    add_entry(ep, node, EP_KIND_THREAD, ep_label_find(ep, &context), 1, 1);
}

/* CPU time counts even if the kind is off by now: it is charged to its thread. An object may be followed. */
static bool is_wanted(const struct ep *ep, const struct sample *sample)
{
    const uint32_t kinds = ep->kinds | ep_history_kinds;

    return kinds & EP_KIND_BIT(sample->kind) || sample->kind == EP_KIND_CPU || sample->kind == EP_KIND_THREAD ||
           (sample->kind == EP_KIND_WAIT && kinds & EP_KIND_BIT(EP_KIND_LOCK)) ||
           (sample->kind == EP_KIND_ALLOC && sample->token);
}

static void add_sample(struct ep *ep, const struct ep_record *record)
{
    struct sample sample = sample_of(record);
    bool in = sample.frame != EP_FRAME_BY_CALLER ||
              atomic_load(&ep_waits)->classify(ep, record, sample.head + sample.skip, &sample.frame);

    ep->frames += record->count - sample.head;
    ep_rates_note(ep, sample.kind, sample.value);
    if ((sample.kind == EP_KIND_WAIT && !in) || !is_wanted(ep, &sample))
        return;
    ep_make_room(ep);
    if (sample.kind == EP_KIND_CPU)
        mark_own(ep, record, &sample);
    if (ep->config.flags & EP_THREAD_LABELS || sample.kind == EP_KIND_THREAD)
        sample.context.thread = ep_label_thread(ep, sample.tid);
    unsigned node = leaf_node(ep, record, &sample);
    if (ep_history && ep_history->add(ep, record, node))
        return;
    unsigned context = ep_label_find(ep, &sample.context);
    add_entry(ep, node, sample.kind, context, sample.count, sample.value);
    if (sample.kind == EP_KIND_WAIT && sample.frame == EP_FRAME_WAIT + EP_WAIT_LOCK)
        add_entry(ep, node, EP_KIND_LOCK, context, sample.token, sample.value);
    if (sample.kind == EP_KIND_ALLOC && ep_live) {
        const struct ep_live_stack stack = {node, sample.context.tags, sample.count, sample.value};
        ep_live->bind(ep, sample.token, &stack);
    }
    ep_count(ep, EP_COUNT_EXACT + (record->quality > EP_STACK_CUT ? EP_STACK_CUT : record->quality), 1);
    if (sample.kind == EP_KIND_CPU) {
        ep_count(ep, EP_COUNT_SAMPLES, 1);
        ep_count(ep, EP_COUNT_WEIGHT_NS, sample.value);
        add_snapshot(ep, node, &sample);
    }
}

void ep_collect_special(struct ep *ep, enum ep_special frame, enum ep_kind kind, uint32_t tid, uint64_t value)
{
    const struct ep_label_key context = {.thread = ep_label_thread(ep, tid)};

    add_entry(ep, root_node(ep, frame), kind, ep_label_find(ep, &context), 1, value);
}

/* CPU time is charged in whole periods. The residual CPU time of threads is kept as a balance, which may be negative.
 * Whole periods of it go to [thread exit], so totals are right although a thread does not end with a sample. */
static void add_residual(struct ep *ep, const struct ep_record *record)
{
    uint64_t period = ep->period_applied_ns, value = ep_wide_word(&record->words[1]);

    if (record->end != EP_FRAME_NONE) {
        ep_make_room(ep);
        ep_collect_special(ep, record->end, EP_KIND_CPU, (uint32_t)record->words[0], value);
        ep_count(ep, EP_COUNT_THREAD_EXIT_NS, value);
        return;
    }
    ep->rest_balance_ns += (int64_t)value;
    if (ep->rest_balance_ns < (int64_t)period || !(ep->kinds & EP_KIND_BIT(EP_KIND_CPU)))
        return;
    uint64_t ns = (uint64_t)ep->rest_balance_ns / period * period;
    ep->rest_balance_ns -= (int64_t)ns;
    add_special(ep, EP_FRAME_THREAD_EXIT, EP_KIND_CPU, 0, ns);
    ep_count(ep, EP_COUNT_THREAD_EXIT_NS, ns);
}

void ep_collect_drain(struct ep *ep)
{
    struct ep_record record;
    uint64_t start_ns = ep_port_thread_cpu_ns();
    unsigned i = 0;

    atomic_store_explicit(&ep->rates.unseen, 0, memory_order_relaxed);
    /* Bounded, so that handlers cannot keep this thread here for ever. */
    for (; i <= ep->ring.mask && ep_ring_peek(&ep->ring, &record); i++) {
        if (record.kind == EP_RECORD_REST)
            add_residual(ep, &record);
        else
            add_sample(ep, &record);
        ep_ring_pop(&ep->ring, &record);
    }
    ep_governor_drained(ep, i);
    ep->governor.drain_ns += ep_port_thread_cpu_ns() - start_ns;
}

/* Counts rule hits: frames without a miss. A miss may be counted before its record is read. */
static void count_rules(struct ep *ep, unsigned misses)
{
    ep_count(ep, EP_COUNT_RULE_MISSES, misses);
    ep->misses += misses;
    if (ep->frames < ep->misses)
        return;
    ep_count(ep, EP_COUNT_RULE_HITS, ep->frames - ep->misses);
    ep->frames = ep->misses = 0;
}

/* Takes what other threads have added up. Usually nothing, and then a plain look is enough. */
static uint64_t take_wide(_Atomic uint64_t *sum)
{
    return atomic_load_explicit(sum, memory_order_relaxed) ? atomic_exchange(sum, 0) : 0;
}

static unsigned take(atomic_uint *sum)
{
    return atomic_load_explicit(sum, memory_order_relaxed) ? atomic_exchange(sum, 0) : 0;
}

/* Adds losses of other threads to the counters and to special frames, so that totals are right. */
static void collect_losses(struct ep *ep)
{
    static const uint8_t shown[EP_SHOWN] = {EP_FRAME_LOST_REFUSED, EP_FRAME_LOST_SEGMENT, EP_FRAME_LOST_SPOOL};

    for (unsigned kind = EP_KIND_CPU; kind < EP_KINDS; kind++) {
        uint64_t value = take_wide(&ep->lost_value[kind]);
        if (!value)
            continue;
        if (!is_of_history((enum ep_kind)kind))
            add_special(ep, EP_FRAME_LOST_RING, (enum ep_kind)kind, 0, value);
        ep_rates_note(ep, (enum ep_kind)kind, value);
        if (kind == EP_KIND_ALLOC && ep_live)
            ep_live->miss(value);
        ep_lose(ep, EP_LOSS_RING_FULL, 0, kind == EP_KIND_CPU ? value : 0);
    }
    unsigned lost = take(&ep->lost_samples);
    ep->governor.events += lost;
    ep_lose(ep, EP_LOSS_RING_FULL, lost, 0);
    for (unsigned i = 0; i < EP_SHOWN; i++)
        add_special(ep, (enum ep_special)shown[i], EP_KIND_CPU, 0, take_wide(&ep->lost_shown_ns[i]));
    for (unsigned reason = 0; reason < EP_LOSS_REASONS; reason++) {
        unsigned count = take(&ep->refused[reason]);
        if (count)
            ep_lose(ep, (enum ep_loss)reason, count, 0);
    }
    count_rules(ep, take(&ep->rule_misses));
}

bool ep_collect_abandon(struct ep *ep)
{
    struct ep_record record;
    uint64_t count = take(&ep->lost_samples), ns = take_wide(&ep->lost_value[EP_KIND_CPU]);

    for (; ep_ring_peek(&ep->ring, &record); ep_ring_pop(&ep->ring, &record)) {
        const enum ep_kind kind = (enum ep_kind)(record.words[EP_WORD_INFO] >> EP_INFO_KIND_SHIFT & 0xf);
        if (record.kind == EP_RECORD_REST || is_of_history(kind))
            continue;
        count++;
        ns += kind == EP_KIND_CPU ? ep_wide_word(&record.words[EP_WORD_VALUE]) : 0;
    }
    ep_lose(ep, EP_LOSS_STOPPED, count, ns);
    return count != 0;
}

void ep_segment_rename(struct ep *ep)
{
    unsigned count = atomic_load_explicit(&ep->unwinder.modules.count, memory_order_relaxed);

    for (unsigned i = 0; i < count; i++)
        ep->unwinder.modules.slot[i].declared = false;
    do
        ep_port_random(&ep->segment, sizeof ep->segment);
    while (ep->segment == 0);
    ep->sequence = 0;
}

void ep_segment_begin(struct ep *ep)
{
    ep_segment_rename(ep);
    ep->nodes_declared = 1;
    memset(ep->tags_declared, 0, sizeof ep->tags_declared);
}

static void modules_note(struct ep *ep)
{
    unsigned count = atomic_load_explicit(&ep->unwinder.modules.count, memory_order_relaxed);

    for (unsigned i = 0; i < count; i++)
        ep->unwinder.modules.slot[i].declared |= ep->unwinder.modules.slot[i].wanted;
}

const struct ep_box_header *ep_message_put(struct ep *ep, const struct ep_encoding *encoding, uint32_t size, bool hold)
{
    uint64_t unix_ns = encoding->unix_minus_uptime_ns;
    struct ep_box_header header = {
        .size = size,
        .sequence = ep->sequence++,
        .segment = ep->segment,
        .cpu_ns = encoding->sums.value[EP_KIND_CPU],
        .lost_ns = encoding->sums.lost_ns,
        .samples = ep_sums_samples(&encoding->sums),
        .end_ns = encoding->end_ns,
        .start_unix_ns = unix_ns ? encoding->start_ns + unix_ns : 0,
        .end_unix_ns = unix_ns ? encoding->end_ns + unix_ns : 0,
    };

    modules_note(ep);
    ep_count(ep, EP_COUNT_MESSAGES, 1);
    ep_count(ep, EP_COUNT_MESSAGE_BYTES, size);
    const struct ep_box_header *put = ep_outbox_put(&ep->outbox, &header, hold);
    ep_port_wake(&ep->deliver_event);
    return put;
}

/* The first node with something to encode. A message of the nodes before it would be empty. */
static unsigned first_pending(const struct ep *ep)
{
    const struct ep_tree *tree = &ep->tree;
    unsigned id = 1, end = ep->nodes_declared < tree->nodes ? ep->nodes_declared : tree->nodes - 1;

    while (id < end && !ep_tree_has_data(tree, id))
        id++;
    return id;
}

/* Encodes one message: the whole tree, or as many nodes as fit into an empty outbox or the largest message. Returns the
 * first node not encoded, or 0 if there is no room now. */
static unsigned encode_some(struct ep *ep, struct ep_encoding *encoding, bool last)
{
    bool was_empty = ep_outbox_empty(&ep->outbox);
    unsigned low = first_pending(ep);

    encoding->segment = ep->segment;
    encoding->sequence = ep->sequence;
    encoding->nodes_declared = ep->nodes_declared;
    encoding->size = ep_outbox_room(&ep->outbox, &encoding->data);
    if (!was_empty)
        encoding->size -= encoding->size < RESTART_ROOM ? encoding->size : RESTART_ROOM;
    if (encoding->size >= ep->message_bytes) {
        encoding->size = ep->message_bytes;
        was_empty = true; /* an empty outbox would have no more room */
    }
    for (encoding->limit = ep->tree.nodes; encoding->limit > low; encoding->limit = low + (encoding->limit - low) / 2) {
        bool whole = encoding->limit == ep->tree.nodes;
        encoding->more = ep->interval_open || !whole;
        encoding->last = last && whole;
        ep_tree_sum(&ep->tree, encoding->limit, &encoding->sums);
        int32_t size = ep_encode_compact(ep, encoding);
        if (size > 0) {
            (void)ep_message_put(ep, encoding, (uint32_t)size, false);
            return encoding->limit;
        }
        if (!was_empty)
            return 0;
    }
    encoding->limit = ep->tree.nodes;
    ep_tree_sum(&ep->tree, encoding->limit, &encoding->sums);
    ep_lose(ep, EP_LOSS_TOO_LARGE, ep_sums_samples(&encoding->sums),
            encoding->sums.value[EP_KIND_CPU] - encoding->sums.lost_ns);
    ep->tree.full = true; /* its dictionary cannot be sent either: the segment ends here */
    return ep->tree.nodes;
}

/* Notes what the segment's dictionary contains now. */
static void note_declared(struct ep *ep, unsigned reached)
{
    if (ep->nodes_declared < reached)
        ep->nodes_declared = reached;
    for (unsigned i = 1; i < ep->labels.count; i++) {
        unsigned set = ep->labels.key[i].tags;
        ep->tags_declared[set / 32] |= 1u << (set % 32);
    }
}

/* Removes the stacks that were not sampled lately. */
static void nodes_clear(struct ep *ep)
{
    struct ep_tree *tree = &ep->tree;

    if (ep_live) {
        ep_live->clear_tree(ep);
        return;
    }
    ep_tree_unmark(tree);
    if (ep_tree_mark_used(tree) > tree->node_capacity / 2) {
        ep_tree_clear(tree);
        return;
    }
    ep_tree_keep(tree);
    ep_tree_clear_entries(tree);
}

/* Empties the tree for the next profile. */
static void tree_empty(struct ep *ep, uint64_t now)
{
    if (ep->tree.full) {
        nodes_clear(ep);
        ep_segment_begin(ep);
    } else {
        ep_tree_clear_entries(&ep->tree);
    }
    ep->path.depth = 0;
    ep_labels_clear(ep);
    ep->interval_start_ns = now > ep->interval_start_ns ? now : ep->interval_start_ns + 1; /* no two have one start */
    ep->detail = EP_DETAIL_ALL;
    ep->depth_limit = EP_MAX_DEPTH;
}

void ep_collect_discard(struct ep *ep)
{
    ep->tree.full |= ep_tree_nodes_are_low(&ep->tree);
    tree_empty(ep, ep_port_uptime_ns());
}

/* Encodes the whole tree. False: no room now. */
static bool encode_all(struct ep *ep, struct ep_encoding *encoding, bool last)
{
    for (unsigned reached = 0; reached < ep->tree.nodes;) {
        reached = encode_some(ep, encoding, last);
        if (reached == 0)
            return false;
        ep_tree_zero_entries(&ep->tree, reached, EP_KINDS_ALL);
        note_declared(ep, reached);
    }
    return true;
}

static bool finish(struct ep *ep, bool last)
{
    uint64_t now = ep_port_uptime_ns(), unix_ns = ep_port_unix_ns();
    struct ep_sums sums;
    struct ep_encoding encoding = {.tree = &ep->tree,
                                   .labels = &ep->labels,
                                   .table = &ep->unwinder.modules,
                                   .modules = atomic_load_explicit(&ep->unwinder.modules.count, memory_order_relaxed),
                                   .tags = &ep->tags,
                                   .tags_declared = ep->tags_declared,
                                   .kinds = EP_KINDS_ALL,
                                   .start_ns = ep->interval_start_ns,
                                   .end_ns = now > ep->interval_start_ns ? now : ep->interval_start_ns,
                                   .unix_minus_uptime_ns = unix_ns > now ? unix_ns - now : 0};

    if (!ep->transport)
        return true;
    ep_restart_round(ep);
    if (atomic_exchange(&ep->stale_segment, 0) == ep->segment)
        ep_segment_begin(ep);
    ep_tree_sum(&ep->tree, ep->tree.nodes, &sums);
    if (!sums.kinds && !(last && ep->sequence > 0) && !(ep->interval_promised && !ep->interval_open)) {
        ep->interval_start_ns = now > ep->interval_start_ns ? now : ep->interval_start_ns;
        return true;
    }
    if (!encode_all(ep, &encoding, last || ep->tree.full)) {
        if (!atomic_exchange(&ep->encode_pending, true))
            ep_count(ep, EP_COUNT_INTERVALS_MERGED, 1);
        return false;
    }
    tree_empty(ep, now);
    ep->interval_promised = ep->interval_open;
    atomic_store(&ep->encode_pending, false);
    return true;
}

bool ep_collect_held(const struct ep *ep)
{
    return ep->snapshot_next_ns && ep->snapshot_for & EP_SNAPSHOT_PUSH;
}

void ep_collect_early(struct ep *ep)
{
    ep->tree.full |= ep_tree_nodes_are_low(&ep->tree);
    ep->interval_open = ep->config.encoder != NULL;
    if (finish(ep, false))
        ep_count(ep, EP_COUNT_EARLY, 1);
    ep->interval_open = false;
}

bool ep_collect_finish(struct ep *ep, bool last)
{
    if (ep->transport && ep_live)
        ep_live->charge(ep);
    if (ep->transport && ep_heap_charge)
        ep_heap_charge(ep);
    bool done = finish(ep, last);
    if (done)
        ep->interval_due_ns = ep->interval_start_ns + ep->interval_ns;
    return done;
}

/* Threads rarely start alone: after the start, and after a scan that found more of them, the next one comes soon, then
 * ever later. Not at once: edgeprof's own threads may not be marked yet. */
static void scan(struct ep *ep, uint64_t now)
{
    uint64_t longest = ep_port_threads_announced() ? SCAN_ANNOUNCED_NS : SCAN_NS;
    bool first = ep->scan_pause_ns == 0;
    int threads = first ? -EAGAIN : ep_port_threads_scan();
    uint64_t clock_error;

    (void)ep_port_clock(&clock_error);
    atomic_store_explicit(&ep->counter[EP_COUNT_CLOCK_ERROR], clock_error, memory_order_relaxed);
    bool more = threads > (int)atomic_load_explicit(&ep->counter[EP_COUNT_THREADS], memory_order_relaxed);

    if (threads >= 0)
        atomic_store_explicit(&ep->counter[EP_COUNT_THREADS], (uint64_t)threads, memory_order_relaxed);
    ep->scan_pause_ns = more || first ? SCAN_SOON_NS : 2 * ep->scan_pause_ns;
    if (ep->scan_pause_ns > longest)
        ep->scan_pause_ns = longest;
    ep->next_scan_ns = now + ep->scan_pause_ns;
}

void ep_collect_round(struct ep *ep)
{
    uint64_t now = ep_port_uptime_ns();
    uint64_t generation = ep_port_modules_generation();

    ep_port_stacks_find();
    ep->unwinder.modules.refused = 0;
    if (generation != ep->unwinder.modules.generation && ep_port_modules_scan(!(ep->config.flags & EP_NO_PIN)) == 0) {
        ep->unwinder.modules.generation = generation;
        atomic_store_explicit(&ep->cut_seen, false, memory_order_relaxed);
    }
    ep_level_apply(ep);
    const struct ep_waits *waits = atomic_load(&ep_waits);
    if (waits && (now >= ep->interval_due_ns || atomic_load(&ep->flush) || atomic_load(&ep->stopping)))
        waits->charge(ep);
    ep_collect_drain(ep);
    const struct ep_snapshot *snapshot = atomic_load(&ep->snapshot);
    if (snapshot)
        snapshot->round(ep);
    ep_restart_round(ep);
    collect_losses(ep);
    ep_rates_round(ep);
    const struct ep_pull *pull = atomic_load(&ep_pull);
    if (pull)
        pull->round(ep);
    if (ep_history)
        ep_history->round(ep, now);
    bool scanned = now >= ep->next_scan_ns && !atomic_load(&ep->stopping);
    if (scanned)
        scan(ep, now);
    bool ended = !ep_collect_held(ep) &&
                 (now >= ep->interval_due_ns || atomic_exchange(&ep->flush, false) || atomic_load(&ep->encode_pending));
    if (ended || scanned || atomic_load(&ep->stopping))
        ep_unsampled_look(ep);
    if (ended) {
        atomic_store_explicit(&ep->cut_seen, false, memory_order_relaxed);
        (void)ep_collect_finish(ep, false);
    }
    ep_govern(ep, ended);
    atomic_store_explicit(&ep->counter[EP_COUNT_TREE_NODES], ep->tree.nodes, memory_order_relaxed);
}

static uint64_t until_next(const struct ep *ep)
{
    uint64_t now = ep_port_uptime_ns();
    uint64_t next = ep->interval_due_ns;

    if (next <= now) /* waiting for room in the outbox: the deliver thread wakes this one */
        next = now + ep->interval_ns;
    if (ep->next_scan_ns < next)
        next = ep->next_scan_ns;
    if (ep->snapshot_next_ns && ep->snapshot_next_ns < next)
        next = ep->snapshot_next_ns;
    if (ep_history && *ep_history->next_ns < next)
        next = *ep_history->next_ns;
    return next > now ? next - now : 1;
}

void ep_collect_thread(void)
{
    struct ep *ep = ep_running();
    unsigned seen = atomic_load(&ep->collect_event.value);

    while (!atomic_load(&ep->stopping)) {
        ep_collect_round(ep);
        atomic_store_explicit(&ep->counter[EP_COUNT_COLLECT_CPU_NS], ep_port_thread_cpu_ns(), memory_order_relaxed);
        ep_port_wait(&ep->collect_event, seen, until_next(ep));
        ep_count(ep, EP_COUNT_WAKEUPS, 1);
        seen = atomic_load(&ep->collect_event.value);
    }
    ep_collect_round(ep);
    while (!ep_collect_finish(ep, true) && ep_port_uptime_ns() < atomic_load(&ep->stop_deadline_ns)) {
        ep_port_wait(&ep->collect_event, seen, 10000000);
        seen = atomic_load(&ep->collect_event.value);
    }
    atomic_store(&ep->collected, true);
    ep_port_wake(&ep->deliver_event);
    while ((!ep_outbox_empty(&ep->outbox) || atomic_load(&ep->restart.state)) &&
           ep_port_uptime_ns() < atomic_load(&ep->stop_deadline_ns)) {
        ep_port_wait(&ep->collect_event, seen, 10000000);
        seen = atomic_load(&ep->collect_event.value);
        ep_restart_round(ep);
    }
}
