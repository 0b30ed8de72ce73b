/*
 * The reader of a dead process's memory. Its writer was stopped at any instruction, so nothing in it is trusted.
 *
 *   ep_outlive_adopt -> modules_adopt                       all of them, or nothing is adopted
 *                    -> labels_adopt, tree_adopt            unless the collect thread was changing them
 *                    -> ring_adopt                          records; one that was being written is dropped
 *                    -> outbox_adopt                        messages whose answer did not come
 *
 * Links between nodes are not read but made again from each node's parent, which is always an earlier node. An entry or
 * a label that refers to nothing is dropped. A sample may count twice or never when the process ended between two
 * stores of the collect thread: at most one.
 */
#include "core/collect/collect.h"
#include "core/features/outlive/outlive.h"
#include "core/sample/record.h"

#include <string.h>

#define LABELS_MOST 4096u /* an entry's label has 12 bits */
#define ALL_KINDS   ((EP_KIND_BIT(EP_KINDS) - 1) & ~1u)
/* Of these, only the process itself can finish a record: it knows its own functions and objects. */
#define ITS_OWN                                                                                                        \
    (EP_KIND_BIT(EP_KIND_WAIT) | EP_KIND_BIT(EP_KIND_LOCK) | EP_KIND_BIT(EP_KIND_LIVE) | EP_KIND_BIT(EP_KIND_HEAP))

/* The new profiler, and the dead one's states; both have the same layout. */
struct adoption {
    struct ep *ep;
    const struct ep_outlive_head *head;
    const uint8_t *shared;
    const struct ep_collect *collect;
    const struct ep_deliver *deliver;
    uint16_t label[LABELS_MOST]; /* the dead one's -> the new one's */
};

/* Where the dead one has what the new one has at `place`. */
static const void *old_of(const struct adoption *adoption, const void *place)
{
    return adoption->shared + ((const uint8_t *)place - (const uint8_t *)adoption->ep->collect);
}

/* ---- modules ---- */

static bool is_module(const struct ep_outlive_module *module, uint32_t next_base)
{
    return module->end > module->start && module->base == next_base &&
           module->end - module->start <= UINT32_MAX - next_base && module->build_id_size <= EP_OUTLIVE_BUILD_ID;
}

/* Unwind tables are not there: nothing walks the dead process's stacks. */
static bool modules_adopt(const struct adoption *adoption)
{
    struct ep_modules *modules = &adoption->ep->unwinder.modules;
    const unsigned count = atomic_load(&adoption->head->modules);
    uint32_t next = EP_FRAME_FIRST_ADDRESS;

    if (count > EP_MAX_MODULES)
        return false;
    for (unsigned i = 0; i < count; i++) {
        if (!is_module(&adoption->head->module[i], next))
            return false;
        next += (uint32_t)(adoption->head->module[i].end - adoption->head->module[i].start);
    }
    memset(modules->slot, 0, sizeof modules->slot);
    for (unsigned i = 0; i < count; i++) {
        const struct ep_outlive_module *module = &adoption->head->module[i];
        modules->slot[i] = (struct ep_module){.start = module->start,
                                              .end = module->end,
                                              .bias = module->bias,
                                              .base = module->base,
                                              .data = module->data != 0,
                                              .build_id = module->build_id,
                                              .build_id_size = module->build_id_size,
                                              .path = module->path};
    }
    modules->next_base = next;
    atomic_store(&modules->count, count);
    adoption->ep->collect->module_hint = 0;
    adoption->ep->collect->path.depth = 0;
    return true;
}

/* ---- labels and the tree ---- */

static bool is_declared(const struct ep_collect *collect, unsigned tags)
{
    return tags && tags <= EP_TAG_SETS && collect->tags_declared[tags / 32] >> (tags % 32) & 1;
}

/* Tags that the receiver knows keep their number; the names of others are gone. */
static void labels_adopt(struct adoption *adoption)
{
    const struct ep_labels *old = &adoption->collect->labels;
    struct ep_labels *labels = &adoption->ep->collect->labels;
    const struct ep_thread_name *names = old_of(adoption, labels->name);
    const struct ep_label_key *keys = old_of(adoption, labels->key);
    unsigned count = old->count < labels->capacity ? old->count : labels->capacity;

    memset(adoption->label, 0, sizeof adoption->label);
    labels->names = old->names < labels->name_capacity ? old->names : labels->name_capacity;
    for (unsigned i = 0; i < labels->names; i++) {
        labels->name[i] = names[i];
        labels->name[i].name[sizeof labels->name[i].name - 1] = 0;
    }
    for (unsigned i = 1; i < count && i < LABELS_MOST; i++) {
        struct ep_label_key key = keys[i];
        key.next = key.first = 0;
        key.thread = key.thread <= labels->names ? key.thread : 0;
        key.tags = is_declared(adoption->collect, key.tags) ? key.tags : 0;
        const int found = ep_labels_find(labels, &key);
        adoption->label[i] = (uint16_t)(found < 0 ? 0 : found);
    }
}

static bool nodes_adopt(const struct adoption *adoption)
{
    const struct ep_tree *old = &adoption->collect->tree;
    struct ep_tree *tree = &adoption->ep->collect->tree;
    const struct ep_node *nodes = old_of(adoption, tree->node);

    if (old->nodes < 2 || old->nodes > tree->node_capacity || old->truncated == 0 || old->truncated >= old->nodes ||
        nodes[old->truncated].parent != 0)
        return false;
    for (unsigned id = 1; id < old->nodes; id++)
        if (nodes[id].parent >= id)
            return false;
    tree->node[0].child = tree->node[0].entry = 0;
    tree->nodes = 1;
    for (unsigned id = 1; id < old->nodes; id++)
        (void)ep_tree_append(tree, nodes[id].parent, nodes[id].frame); /* gets the same number */
    tree->truncated = old->truncated;
    tree->full = *(const uint8_t *)&old->full != 0; /* any value */
    ep_tree_clear_entries(tree);
    return true;
}

static void entries_adopt(const struct adoption *adoption)
{
    const struct ep_tree *old = &adoption->collect->tree;
    struct ep_tree *tree = &adoption->ep->collect->tree;
    const struct ep_node *nodes = old_of(adoption, tree->node);
    const struct ep_entry *entries = old_of(adoption, tree->entry);
    unsigned left = old->entries < tree->entry_capacity ? old->entries : tree->entry_capacity;
    const unsigned count = left;

    for (unsigned id = 1; id < tree->nodes; id++)
        for (unsigned i = nodes[id].entry; i && i <= count && left; i = entries[i - 1].next, left--) {
            const struct ep_entry *entry = &entries[i - 1];
            if (entry->kind >= EP_KIND_CPU && entry->kind < EP_KINDS && ep_entry_has_data(entry))
                (void)ep_tree_add(tree, id, (enum ep_kind)entry->kind, adoption->label[entry->label], entry->count,
                                  entry->value);
        }
}

/* The segment goes on: what of the dictionary the receiver has. */
static void segment_adopt(const struct adoption *adoption)
{
    const struct ep_collect *old = adoption->collect;
    struct ep_collect *collect = adoption->ep->collect;

    if (!old->segment || old->nodes_declared == 0 || old->nodes_declared > collect->tree.nodes)
        return;
    collect->segment = old->segment;
    collect->sequence = old->sequence;
    collect->nodes_declared = old->nodes_declared;
    memcpy(collect->tags_declared, old->tags_declared, sizeof collect->tags_declared);
    for (unsigned id = 1; id < collect->nodes_declared; id++) {
        const uint32_t frame = collect->tree.node[id].frame;
        struct ep_module *module =
            frame < EP_FRAME_FIRST_ADDRESS ? NULL : ep_module_of_linear(&adoption->ep->unwinder.modules, frame);
        if (module)
            module->declared = true;
    }
}

/* False: the collect thread was changing it. The interval is in the outbox then, or lost. */
static bool tree_adopt(struct adoption *adoption)
{
    const unsigned restart = atomic_load(&adoption->deliver->restart.state);

    if (atomic_load(&adoption->collect->unsettled) || restart != EP_RESTART_NONE)
        return false;
    labels_adopt(adoption);
    if (!nodes_adopt(adoption)) {
        ep_labels_clear(adoption->ep);
        return false;
    }
    entries_adopt(adoption);
    segment_adopt(adoption);
    return true;
}

static void interval_adopt(const struct adoption *adoption)
{
    const struct ep_collect *old = adoption->collect;
    struct ep_collect *collect = adoption->ep->collect;
    const uint32_t stretch = old->governor.stretch;

    if (old->interval_start_ns && old->interval_start_ns < collect->interval_start_ns)
        collect->interval_start_ns = old->interval_start_ns;
    collect->kinds = (old->kinds | EP_KIND_BIT(EP_KIND_CPU)) & ALL_KINDS & ~ITS_OWN;
    if (stretch >= EP_STRETCH_NONE && stretch <= EP_STRETCH_MOST)
        collect->governor.stretch = stretch;
    if (adoption->head->period_ns)
        atomic_store(&adoption->ep->period_ns, adoption->head->period_ns);
    collect->residual_balance_ns = old->residual_balance_ns;
}

/* ---- the ring ---- */

/* The words of the record there, with its header. 0: none is complete there, or its end is behind the ring's. */
static unsigned record_at(const struct ep_ring *ring, unsigned at)
{
    const uintptr_t header = atomic_load(&ring->words[at & ring->mask]);
    const unsigned kind = (unsigned)(header & 0xf), words = ((unsigned)(header >> 16) & 0xffff) + 1;

    if (kind < EP_RING_PAD || kind > EP_RECORD_EVENT || header >> 16 > 0xffff || words > ring->mask + 1)
        return 0;
    return (at & ring->mask) + words <= ring->mask + 1 ? words : 0;
}

/* A thread that died while it unwound has reserved the largest record of its kind. Makes a pad of it, if a record
 * follows. False: nothing follows, or its size is unknown. */
static bool pad_unfinished(struct ep_ring *ring, unsigned at, unsigned left)
{
    static const unsigned reserved[] = {EP_SAMPLE_WORDS + EP_MAX_DEPTH, EP_SAMPLE_WORDS + EP_SPAN_WORDS + EP_MAX_DEPTH,
                                        EP_EVENT_WORDS + EP_MAX_DEPTH, EP_EVENT_WORDS + EP_SPAN_WORDS + EP_MAX_DEPTH,
                                        EP_REST_WORDS};

    for (unsigned i = 0; i < sizeof reserved / sizeof *reserved; i++) {
        const unsigned count = reserved[i];
        const struct ep_record pad = {.kind = EP_RING_PAD, .count = count};
        if (count + 1 >= left || (at & ring->mask) + count + 1 > ring->mask + 1 || !record_at(ring, at + count + 1))
            continue;
        atomic_store(&ring->words[at & ring->mask], ep_ring_header(&pad));
        return true;
    }
    return false;
}

static void ring_adopt(const struct adoption *adoption)
{
    struct ep_ring *ring = &adoption->ep->ring;
    const unsigned size = ring->mask + 1, tail = atomic_load(&adoption->collect->ring_tail);
    unsigned used = 0, unfinished = 0;

    memcpy((void *)ring->words, old_of(adoption, ring->words), size * sizeof ring->words[0]);
    while (used < size) {
        const unsigned words = record_at(ring, tail + used);
        if (words && words <= size - used)
            used += words;
        else if (!words && pad_unfinished(ring, tail + used, size - used))
            unfinished++;
        else
            break;
    }
    atomic_store(&ring->tail, tail);
    atomic_store(&ring->head, tail + used);
    ep_lose(adoption->ep, EP_LOSS_DAMAGED, unfinished, 0);
}

/* ---- the outbox ---- */

/* Copies one message. Returns the offset behind it, or UINT32_MAX: it is damaged, or there is no room. */
static uint32_t message_adopt(struct ep_outbox *box, const uint8_t *old, uint32_t at)
{
    struct ep_box_header header;
    uint8_t *data;

    memcpy(&header, old + at, sizeof header);
    const uint32_t most = box->size - at - (uint32_t)sizeof header;
    if (header.size == 0 || header.size > most || ep_outbox_room(box, &data) < header.size)
        return UINT32_MAX;
    memcpy(data, old + at + sizeof header, header.size);
    (void)ep_outbox_put(box, &header, false);
    const uint32_t next = at + (uint32_t)sizeof header + ((header.size + 7u) & ~7u);
    return next == box->size ? 0 : next;
}

static void outbox_adopt(const struct adoption *adoption)
{
    struct ep_outbox *box = &adoption->ep->deliver->outbox;
    const uint8_t *old = old_of(adoption, box->memory);
    const uint64_t ends = atomic_load(&adoption->deliver->outbox.ends);
    const uint32_t head = (uint32_t)ends;
    uint32_t tail = (uint32_t)(ends >> 32), size = 0;
    bool jumped = false;

    while (tail != head && tail < box->size && tail % 8 == 0) {
        const bool fits = box->size - tail >= sizeof(struct ep_box_header);
        if (fits)
            memcpy(&size, old + tail + offsetof(struct ep_box_header, size), sizeof size);
        if (!fits || size == 0) {
            if (jumped)
                return;
            jumped = true;
            tail = 0;
            continue;
        }
        tail = message_adopt(box, old, tail);
    }
}

/* ---- all ---- */

static void strings_end(struct ep_outlive_head *head)
{
    head->strings[sizeof head->strings - 1] = head->strings[sizeof head->strings - 2] = 0;
    head->identity.host[sizeof head->identity.host - 1] = 0;
    head->identity.boot_id[sizeof head->identity.boot_id - 1] = 0;
    head->identity.executable[sizeof head->identity.executable - 1] = 0;
    for (unsigned i = 0; i < EP_MAX_MODULES; i++)
        head->module[i].path[EP_OUTLIVE_PATH - 1] = 0;
}

int ep_outlive_check(void *at, struct ep_outlived *outlived)
{
    struct ep_outlive_head *head = at;
    const unsigned state = atomic_load(&head->state);

    if (state == EP_OUTLIVE_ENDED || state == EP_OUTLIVE_NEW)
        return -ESRCH;
    if (state != EP_OUTLIVE_RUNS || head->layout != ep_outlive_layout() || head->memory_size < EP_MEMORY_MIN)
        return -EBADMSG;
    strings_end(head);
    const size_t service = strlen(head->strings) + 1; /* at most all but the last byte */
    *outlived = (struct ep_outlived){.service = head->strings,
                                     .tags = head->strings + service,
                                     .level = head->level <= EP_LEVEL_HIGH ? (enum ep_level)head->level : EP_LEVEL_LOW,
                                     .rate_hz = head->rate_hz,
                                     .memory_size = head->memory_size};
    return 0;
}

bool ep_outlive_fits(const struct ep_outlived *outlived, size_t size)
{
    const size_t shared = outlived->memory_size - ep_outlive_private(outlived->memory_size);

    return outlived->memory_size > ep_outlive_private(outlived->memory_size) &&
           ((shared + 4095) & ~(size_t)4095) + EP_OUTLIVE_HEAD == size;
}

static void origin_adopt(struct ep *ep, const struct ep_outlive_head *head)
{
    const char *arch = ep->identity.arch;

    ep->identity = head->identity;
    ep->identity.arch = arch;
    ep->started_ns = head->started_ns;
    for (unsigned i = 0; i < EP_COUNTERS; i++)
        atomic_store(&ep->counter[i], head->counter[i]);
    for (unsigned i = 0; i < EP_LOSS_REASONS; i++) {
        atomic_store(&ep->lost_count[i], head->lost_count[i]);
        atomic_store(&ep->lost_ns[i], head->lost_ns[i]);
    }
}

int ep_outlive_adopt(const void *at, const void *shared)
{
    static struct adoption *adoption; /* from the first call on */
    const struct ep_outlive_head *head = at;
    struct ep *ep = ep_running();

    if (!adoption && !(adoption = ep_port_memory(sizeof *adoption)))
        return -ENOMEM;
    adoption->ep = ep;
    adoption->head = head;
    adoption->shared = shared;
    adoption->collect = old_of(adoption, ep->collect);
    adoption->deliver = old_of(adoption, ep->deliver);
    if (!modules_adopt(adoption))
        return -EBADMSG;
    ep_own_text_is(&head->own_text);
    origin_adopt(ep, head);
    (void)tree_adopt(adoption);
    interval_adopt(adoption);
    ring_adopt(adoption);
    outbox_adopt(adoption);
    return 0;
}
