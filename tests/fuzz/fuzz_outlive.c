/*
 * Fuzz target for the reader of a dead process's memory: core/features/outlive/adopt.c.
 *
 * The memory is that of a process with samples in its ring, its tree and its outbox. An input is a list of changes to
 * it: place, kind of value, value. A place is relative to one of the parts that the reader looks at, so that short
 * inputs reach all of them. Invariants: the reader reads no byte outside of the two parts and changes none (each is an
 * allocation of its own, and read-only for it); it adopts all modules or nothing; then a node's caller is an earlier
 * node, every entry and label is in its table, the ring holds at most its size, messages in the outbox are inside of
 * it; a round and the stop end; CPU time is bounded.
 */
#include <stdlib.h>
#include <string.h>

#include "core/features/outlive/outlive.h"
#include "port/sim/sim.h"
#include "spend.h"
#include "tests/unit/core_rooms.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SIZE ((size_t)EP_MEMORY_MIN)

enum part { RING, TREE, NODES, ENTRIES, LABELS, OUTBOX, DELIVER, COLLECT, HEAD, MODULES, PARTS };

struct change {
    uint8_t part, how;
    uint16_t at; /* of 2 bytes, and for nodes and entries of one */
    uint8_t value[8];
};

static _Alignas(64) uint8_t memory[SIZE];
static _Alignas(64) uint8_t head[EP_OUTLIVE_HEAD];
static size_t shared_size, place[PARTS]; /* in the shared part, or in the head */

static size_t place_of(const struct ep *ep, const void *at)
{
    return (size_t)((const uint8_t *)at - (const uint8_t *)ep->collect);
}

static void places_find(const struct ep *ep)
{
    place[RING] = place_of(ep, (const void *)ep->ring.words);
    place[TREE] = place_of(ep, &ep->collect->tree);
    place[NODES] = place_of(ep, ep->collect->tree.node);
    place[ENTRIES] = place_of(ep, ep->collect->tree.entry);
    place[LABELS] = place_of(ep, ep->collect->labels.key);
    place[OUTBOX] = place_of(ep, ep->deliver->outbox.memory);
    place[DELIVER] = place_of(ep, ep->deliver);
    place[MODULES] = offsetof(struct ep_outlive_head, modules);
}

static struct ep_config config_of(void *at)
{
    return (struct ep_config){.memory = at,
                              .memory_size = SIZE,
                              .service = "fuzz",
                              .rate_hz = 100,
                              .interval_ms = 1000,
                              .flags = EP_MANUAL | EP_THREAD_LABELS,
                              .endpoint = "http://localhost"};
}

/* The process, which is dead afterwards. */
static void begin(void)
{
    const struct ep_own_text own_text = {0};
    const struct ep_config config = config_of(memory);

    if (shared_size)
        return;
    ep_sim_reset();
    REQUIRE(ep_outlive_begin(&own_text, head) == 0 && ep_start(&config) == 0);
    for (unsigned i = 0; i < 40; i++) {
        const uint16_t stack[] = {(uint16_t)(i % 7), (uint16_t)(i / 7), 3};
        REQUIRE(ep_sim_tick(1 + i % 3, 1, stack, 3));
        if (i % 10 == 4)
            REQUIRE(ep_collect() == 0);
        if (i % 15 == 7)
            ep_sim.uptime_ns += 1000000000u;
    }
    places_find(ep_running());
    shared_size = SIZE - ep_outlive_private(SIZE);
    ep_forked();
}

static void change(uint8_t *shared, uint8_t *left_head, const struct change *what)
{
    const unsigned part = what->part % PARTS;
    uint8_t *base = part >= HEAD ? left_head : shared;
    const size_t size = part >= HEAD ? sizeof head : shared_size;
    const size_t unit = part == NODES ? sizeof(struct ep_node) : part == ENTRIES ? sizeof(struct ep_entry) : 2;
    const size_t at = place[part] + what->at * unit + (what->how >> 4), bytes = (size_t)1 << (what->how & 3);

    if (at <= size - 8)
        memcpy(base + at, what->value, bytes);
}

static void sound_tree(const struct ep *ep)
{
    const struct ep_tree *tree = &ep->collect->tree;

    REQUIRE(tree->nodes >= 2 && tree->nodes <= tree->node_capacity && tree->entries <= tree->entry_capacity);
    REQUIRE(tree->truncated && tree->truncated < tree->nodes);
    REQUIRE(ep->collect->nodes_declared >= 1 && ep->collect->nodes_declared <= tree->nodes);
    for (unsigned id = 1; id < tree->nodes; id++) {
        const struct ep_node *node = &tree->node[id];
        REQUIRE(node->parent < id && node->child < tree->nodes && node->sibling < tree->nodes);
        REQUIRE(!node->child || node->child > id);
        REQUIRE(!node->sibling || node->sibling < id);
        for (unsigned i = node->entry, n = 0; i; i = tree->entry[i - 1].next) {
            REQUIRE(i <= tree->entries && ++n <= tree->entries);
            REQUIRE(tree->entry[i - 1].kind >= EP_KIND_CPU && tree->entry[i - 1].kind < EP_KINDS);
            REQUIRE(tree->entry[i - 1].label < ep->collect->labels.count);
        }
    }
}

static void sound_labels(const struct ep *ep)
{
    const struct ep_labels *labels = &ep->collect->labels;

    REQUIRE(labels->count >= 1 && labels->count <= labels->capacity && labels->names <= labels->name_capacity);
    for (unsigned i = 1; i < labels->count; i++)
        REQUIRE(labels->key[i].thread <= labels->names && labels->key[i].tags <= EP_TAG_SETS);
    for (unsigned i = 0; i < labels->names; i++)
        REQUIRE(memchr(labels->name[i].name, 0, sizeof labels->name[i].name));
}

static void sound(struct ep *ep)
{
    const struct ep_box_header *message = ep_outbox_peek(&ep->deliver->outbox);
    const uint8_t *first = ep->deliver->outbox.memory;
    unsigned messages = 0;

    sound_tree(ep);
    sound_labels(ep);
    REQUIRE(ep_ring_used(&ep->ring) <= ep->ring.mask + 1);
    for (; message; message = ep_outbox_after(&ep->deliver->outbox, message)) {
        const uint8_t *at = (const uint8_t *)(message + 1);
        REQUIRE(at > first && message->size <= (size_t)(first + ep->deliver->outbox.size - at));
        REQUIRE(++messages <= ep->deliver->outbox.size / sizeof *message);
    }
}

static void adopt(const uint8_t *left_head, const uint8_t *shared)
{
    uint8_t *own = malloc(SIZE);
    struct ep_config config = config_of(own);

    config.kinds = EP_KIND_BIT(EP_KIND_THREAD);
    ep_sim_reset();
    REQUIRE(own && ep_start(&config) == 0);
    struct ep *ep = ep_running();
    const unsigned modules = atomic_load(&ep->unwinder.modules.count);
    const int error = ep_outlive_adopt(left_head, shared);
    REQUIRE(error == 0 || error == -EBADMSG);
    sound(ep);
    if (error)
        REQUIRE(atomic_load(&ep->unwinder.modules.count) == modules && ep_ring_used(&ep->ring) == 0);
    REQUIRE(ep_collect() == 0);
    (void)ep_stop(0);
    free(own);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ep_outlived outlived;

    begin();
    uint8_t *shared = malloc(shared_size), *left_head = malloc(sizeof head), *before = malloc(shared_size);
    REQUIRE(shared && left_head && before);
    memcpy(shared, memory + SIZE - shared_size, shared_size);
    memcpy(left_head, head, sizeof head);
    long long began = fuzz_cpu_ns();
    for (size_t at = 0; at + sizeof(struct change) <= size; at += sizeof(struct change)) {
        struct change what;
        memcpy(&what, data + at, sizeof what);
        change(shared, left_head, &what);
    }
    memcpy(before, shared, shared_size);
    const int error = ep_outlive_check(left_head, &outlived);
    REQUIRE(error == 0 || error == -EBADMSG || error == -ESRCH);
    if (error == 0) {
        REQUIRE(memchr(outlived.service, 0, EP_STRINGS_BYTES) && memchr(outlived.tags, 0, EP_STRINGS_BYTES));
        if (outlived.memory_size == SIZE) /* else its reader refuses it by the file's size */
            adopt(left_head, shared);
        REQUIRE(memcmp(before, shared, shared_size) == 0);
    }
    free(shared);
    free(left_head);
    free(before);
    fuzz_spent(began, size);
    return 0;
}
