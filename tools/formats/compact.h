/*
 * The compact format (core/proto/compact.proto, core/FORMAT.md) from the receiving side: bytes to a checked message.
 *
 * Checked here is all that needs no memory of earlier messages, and, given what a segment has told before, the
 * references into it. After that every number in the message can be used as it stands. What is done with it is
 * somebody else's business (ingest_compact.c, cat.c).
 */
#ifndef ET_COMPACT_H
#define ET_COMPACT_H

#include "compact.pb-c.h"
#include "tools/lib/util.h"

/* Largest message that is taken. */
#define ET_MESSAGE_LIMIT (4u << 20)

typedef Edgeprof__V1__Message et_message;

/* A module of a segment: [base, base + size) of the segment's address space is `address` in the ELF file. */
struct et_span {
    uint32_t base, size;
    uint64_t address;
    int64_t module; /* whatever the owner of the segment calls it */
};

/* A node as the wire describes it. */
struct et_wire_node {
    uint32_t parent; /* node of the segment, 0: root */
    uint32_t span;   /* index + 1 into the segment's modules; 0: a special frame */
    uint64_t address;
    uint32_t depth;
};

/* A set of labels: "key=value" lines, sorted, one a key, '\n' after each. */
struct et_label_set {
    uint32_t id; /* in the segment */
    char *lines;
    int64_t name; /* whatever the owner of the segment calls it */
};

/* What a segment's earlier messages have said. Node 0 is the root. Label set 0 is none and first. */
struct et_segment {
    struct et_span *spans;
    size_t span_count, span_capacity;
    uint32_t *depths; /* of each node */
    int64_t *nodes;   /* whatever the owner of the segment calls them */
    size_t node_count, depth_capacity, node_capacity;
    struct et_label_set *labels; /* in the order in which they were told */
    size_t label_count, label_capacity;
    struct et_map label_ids; /* id -> index + 1 */
};

/* A segment before its first message. */
void et_segment_init(struct et_segment *segment);
void et_segment_free(struct et_segment *segment);
void et_segment_add_node(struct et_segment *segment, uint32_t depth, int64_t name);
void et_segment_add_span(struct et_segment *segment, const struct et_span *span);
void et_segment_add_labels(struct et_segment *segment, uint32_t id, const char *lines, int64_t name);
/* Index of a label set, SIZE_MAX: never heard of. */
size_t et_segment_labels(const struct et_segment *segment, uint32_t id);

/* How much a segment has, before a message adds to it. */
struct et_segment_mark {
    size_t spans, nodes, labels;
};
struct et_segment_mark et_segment_mark(const struct et_segment *segment);

/* Decodes and checks what can be checked alone; strings are clean (et_clean). NULL: malformed, *why says in what way.
 * et_message_free() it. */
et_message *et_message_decode(const void *bytes, size_t size, const char **why);
void et_message_free(et_message *message);

/* Adds the message's modules to the segment, after checking them. module names stay 0. false: malformed. */
bool et_message_spans(const et_message *message, struct et_segment *segment, const char **why);

/* Decodes the message's nodes against the segment into nodes[message->nodes->n_back]. false: malformed. */
bool et_message_nodes(const et_message *message, const struct et_segment *segment, struct et_wire_node *nodes,
                      const char **why);

/* Number of nodes that the message brings. */
size_t et_message_node_count(const et_message *message);

/* Adds the message's label sets to the segment, after checking them; their names stay 0. false: malformed. */
bool et_message_labels(const et_message *message, struct et_segment *segment, const char **why);

/* Checks a profile's references and that its sums fit 63 bits. node_count: with the message's own nodes; the context
 * column refers to the message's contexts, of which each refers to a label set of the segment. */
bool et_message_profile(const et_message *message, size_t profile, size_t node_count, const char **why);

/* Labels of one of the message's contexts (from 1), with its thread's name as one of them; appended to *lines. */
void et_message_context(const et_message *message, const struct et_segment *segment, size_t context,
                        struct et_buf *lines);

#endif
