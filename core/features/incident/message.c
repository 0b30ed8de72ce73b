/*
 * The message about a part of an incident: a segment of its own, with the modules and nodes of its samples' stacks.
 */
#include "core/features/incident/incident.h"
#include "core/encode/write.h"

#include <compact.pb.h>
#include <string.h>

#define TAG(message, field) edgeprof_v1_##message##_##field##_tag

/* What the writers write. */
static struct {
    const struct ep_incident_part *part;
    unsigned count; /* samples */
    bool more;
    uint64_t segment;
    uint8_t place[EP_PAST_NOBODY + 1]; /* of a thread in the message + 1; 0: it is not in it */
    unsigned threads;
} now;

/* The samples of the message. */
struct cursor {
    struct ep_past_walk walk;
    unsigned left;
};

static struct cursor begin(void)
{
    return (struct cursor){.walk = now.part->from, .left = now.count};
}

static const struct ep_moment *next(struct cursor *cursor, uint64_t *tick)
{
    return cursor->left && cursor->left-- ? ep_past_next(&cursor->walk, tick) : NULL;
}

/* ---- what the message needs ---- */

/* Gives the nodes their numbers, in .entry, and marks the modules. */
static void nodes_number(struct ep_modules *modules)
{
    struct ep_tree *tree = &ep_past.tree;
    unsigned number = 0, count = atomic_load_explicit(&modules->count, memory_order_relaxed);

    for (unsigned i = 0; i < count; i++)
        modules->slot[i].wanted = false;
    for (unsigned id = 1; id < tree->nodes; id++) {
        tree->node[id].entry = 0;
        if (!ep_tree_is_marked(tree, id))
            continue;
        tree->node[id].entry = (uint16_t)++number;
        uint32_t frame = tree->node[id].frame;
        struct ep_module *module = frame < EP_FRAME_FIRST_ADDRESS ? NULL : ep_module_of_linear(modules, frame);
        if (module)
            module->wanted = true;
    }
}

static void needs_find(struct ep *ep)
{
    struct cursor cursor = begin();
    const struct ep_moment *moment;
    uint64_t tick;

    memset(now.place, 0, sizeof now.place);
    now.threads = 0;
    ep_tree_unmark(&ep_past.tree);
    while ((moment = next(&cursor, &tick)) != NULL) {
        (void)ep_tree_mark(&ep_past.tree, moment->node);
        if (!now.place[moment->thread])
            now.place[moment->thread] = (uint8_t)++now.threads;
    }
    nodes_number(&ep->unwinder.modules);
}

/* ---- the dictionary ---- */

static bool write_modules(pb_ostream_t *s, const struct ep_source *source)
{
    const struct ep_modules *modules = &source->ep->unwinder.modules;
    unsigned count = atomic_load_explicit(&modules->count, memory_order_relaxed);

    for (unsigned i = 0; i < count; i++)
        if (modules->slot[i].wanted && !ep_put_module(s, TAG(Message, modules), &modules->slot[i]))
            return false;
    return true;
}

static bool write_back(pb_ostream_t *s, const struct ep_source *source)
{
    const struct ep_tree *tree = &ep_past.tree;

    (void)source;
    for (unsigned id = 1; id < tree->nodes; id++) {
        unsigned parent = tree->node[tree->node[id].parent].entry;
        if (ep_tree_is_marked(tree, id) && !pb_encode_varint(s, parent ? tree->node[id].entry - parent : 0))
            return false;
    }
    return true;
}

static bool write_frame(pb_ostream_t *s, const struct ep_source *source)
{
    const struct ep_tree *tree = &ep_past.tree;
    int64_t before = 0;

    (void)source;
    for (unsigned id = 1; id < tree->nodes; id++) {
        if (!ep_tree_is_marked(tree, id))
            continue;
        if (!pb_encode_svarint(s, tree->node[id].frame - before))
            return false;
        before = tree->node[id].frame;
    }
    return true;
}

static bool write_nodes(pb_ostream_t *s, const struct ep_source *source)
{
    return ep_put_nested(s, TAG(Nodes, back), write_back, source) &&
           ep_put_nested(s, TAG(Nodes, frame), write_frame, source);
}

/* ---- the timeline ---- */

static bool write_thread(pb_ostream_t *s, const struct ep_source *source)
{
    static const struct ep_past_thread nobody;
    const struct ep_past_thread *thread = source->index < ep_past.threads ? &ep_past.thread[source->index] : &nobody;
    size_t size = 0;

    while (size < sizeof thread->name && thread->name[size])
        size++;

    return ep_put_number(s, TAG(TimelineThread, tid), thread->tid) &&
           ep_put_bytes(s, TAG(TimelineThread, name), thread->name, ep_utf8_run(thread->name, size));
}

static bool write_threads(pb_ostream_t *s, const struct ep_source *source)
{
    struct ep_source one = *source;

    for (unsigned place = 1; place <= now.threads; place++) {
        for (one.index = 0; now.place[one.index] != place; one.index++)
            ;
        if (!ep_put_nested(s, TAG(Timeline, threads), write_thread, &one))
            return false;
    }
    return true;
}

static bool write_after(pb_ostream_t *s, const struct ep_source *source)
{
    struct cursor cursor = begin();
    uint64_t tick, before = 0;

    (void)source;
    for (bool first = true; next(&cursor, &tick); first = false, before = tick)
        if (!pb_encode_varint(s, first ? 0 : tick - before))
            return false;
    return true;
}

static bool write_what(pb_ostream_t *s, const struct ep_source *source)
{
    struct cursor cursor = begin();
    const struct ep_moment *moment;
    uint64_t tick;

    (void)source;
    while ((moment = next(&cursor, &tick)) != NULL)
        if (!pb_encode_varint(s, moment->kind | (now.place[moment->thread] - 1u) << 4))
            return false;
    return true;
}

static bool write_node(pb_ostream_t *s, const struct ep_source *source)
{
    struct cursor cursor = begin();
    const struct ep_moment *moment;
    uint64_t tick;

    (void)source;
    while ((moment = next(&cursor, &tick)) != NULL)
        if (!pb_encode_varint(s, moment->node ? ep_past.tree.node[moment->node].entry : 0))
            return false;
    return true;
}

static bool write_duration(pb_ostream_t *s, const struct ep_source *source)
{
    struct cursor cursor = begin();
    uint64_t tick, last[EP_MOMENT_TIME] = {0};
    const struct ep_moment *moment;

    (void)source;
    while ((moment = next(&cursor, &tick)) != NULL) {
        uint64_t value = ep_moment_value(moment);
        if (value == 0 && moment->kind != EP_KIND_THREAD)
            value = 1;
        if (!pb_encode_varint(s, value == last[moment->kind] ? 0 : value))
            return false;
        last[moment->kind] = value;
    }
    return true;
}

static bool write_head(pb_ostream_t *s, const struct ep_source *source)
{
    const struct ep_trigger *trigger = now.part->trigger;

    return ep_put_fixed64(s, TAG(Timeline, incident), now.part->id) &&
           ep_put_number(s, TAG(Timeline, part), now.part->number) && ep_put_number(s, TAG(Timeline, more), now.more) &&
           ep_put_number(s, TAG(Timeline, cause), trigger->cause) &&
           ep_put_bytes(s, TAG(Timeline, name), trigger->name, ep_utf8_run(trigger->name, strlen(trigger->name))) &&
           ep_put_number(s, TAG(Timeline, tid), trigger->tid) &&
           ep_put_number(s, TAG(Timeline, time_ns), trigger->time_ns) &&
           ep_put_number(s, TAG(Timeline, value), trigger->value) &&
           ep_put_number(s, TAG(Timeline, limit), trigger->limit) &&
           ep_put_number(s, TAG(Timeline, suppressed), now.part->passed) &&
           ep_put_number(s, TAG(Timeline, missing), now.part->missing) &&
           ep_put_number(s, TAG(Timeline, period_ns), source->ep->period_applied_ns);
}

static bool write_timeline(pb_ostream_t *s, const struct ep_source *source)
{
    struct cursor cursor = begin();
    uint64_t start = 0;

    (void)next(&cursor, &start);
    return write_head(s, source) && write_threads(s, source) && ep_put_number(s, TAG(Timeline, start), start) &&
           ep_put_nested(s, TAG(Timeline, after), write_after, source) &&
           ep_put_nested(s, TAG(Timeline, what), write_what, source) &&
           ep_put_nested(s, TAG(Timeline, node), write_node, source) &&
           ep_put_nested(s, TAG(Timeline, duration), write_duration, source);
}

static bool write_message(pb_ostream_t *s, const struct ep_source *source)
{
    const uint64_t unix_ns = ep_port_unix_ns(), uptime_ns = ep_port_uptime_ns();

    return ep_put_fixed64(s, TAG(Message, segment), now.segment) &&
           ep_put_nested(s, TAG(Message, origin), ep_write_origin, source) && write_modules(s, source) &&
           ep_put_nested(s, TAG(Message, nodes), write_nodes, source) && ep_put_number(s, TAG(Message, last), 1) &&
           ep_put_fixed64(s, TAG(Message, unix_minus_uptime_ns), unix_ns ? unix_ns - uptime_ns : 0) &&
           ep_put_nested(s, TAG(Message, timeline), write_timeline, source);
}

static uint32_t message_try(struct ep *ep, uint8_t *bytes, uint32_t size)
{
    const struct ep_source source = {.ep = ep};
    pb_ostream_t stream = pb_ostream_from_buffer(bytes, size);

    needs_find(ep);
    return write_message(&stream, &source) ? (uint32_t)stream.bytes_written : 0;
}

/* The samples from the part's first one on. */
static unsigned samples_left(const struct ep_incident_part *part)
{
    struct ep_past_walk walk = part->from;
    unsigned count = 0;
    uint64_t tick;

    while (ep_past_next(&walk, &tick))
        count++;
    return count;
}

static void part_advance(struct ep_incident_part *part)
{
    uint64_t tick;

    part->count = now.count;
    part->more = now.more;
    for (unsigned i = 0; i < now.count; i++)
        (void)ep_past_next(&part->from, &tick);
}

uint32_t ep_incident_message(struct ep *ep, struct ep_incident_part *part, bool divide, uint8_t *bytes, uint32_t size,
                             uint64_t *segment)
{
    const unsigned left = samples_left(part);
    uint32_t used = 0;

    now.part = part;
    do
        ep_port_random(&now.segment, sizeof now.segment);
    while (now.segment == 0);
    *segment = now.segment;
    for (now.count = left; !used; now.count /= 2) {
        now.more = now.count < left;
        used = message_try(ep, bytes, size);
        if (used || !divide || now.count < 2)
            break;
    }
    for (unsigned id = 0; id < ep_past.tree.nodes; id++)
        ep_past.tree.node[id].entry = 0;
    if (used)
        part_advance(part);
    return used;
}
