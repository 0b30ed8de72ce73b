/*
 * Decodes and checks messages of the compact format (core/proto/compact.proto, core/FORMAT.md).
 *
 * et_message_decode() checks all that does not depend on earlier messages. The other functions check references into
 * the segment, given its earlier messages. After both checks every number of the message is safe to use. The callers
 * (ingest_compact.c, cat.c) interpret the message.
 */
#ifndef ET_COMPACT_H
#define ET_COMPACT_H

#include "compact.pb-c.h"
#include "tools/lib/util.h"

/* Largest accepted message, in bytes. */
#define ET_MESSAGE_LIMIT (4u << 20)

/* Most frames of all stacks of a crash. Its stacks may share nodes, so a few bytes could otherwise name millions of
 * frames; a device's record has
 * room for 3,500. */
#define ET_CRASH_FRAMES 8192u

typedef Edgeprof__V1__Message et_message;

/* A module of a segment: [base, base + size) in the segment's address space starts at `address` in the ELF file. */
struct et_span {
    uint32_t base, size;
    uint64_t address;
    int64_t module; /* id given by the segment's owner */
};

/* A node as encoded. */
struct et_wire_node {
    uint32_t parent; /* node of the segment; 0: root */
    uint32_t span;   /* index + 1 into the segment's modules; 0: a special frame */
    uint64_t address;
    uint32_t depth;
};

/* A set of labels: "key=value" lines, sorted, one a key, '\n' after each. */
struct et_label_set {
    uint32_t id; /* in the segment */
    char *lines;
    int64_t name; /* id given by the segment's owner */
};

/* The contents of a segment's earlier messages. Node 0 is the root. Label set 0 is the first and empty. */
struct et_segment {
    struct et_span *spans;
    size_t span_count, span_capacity;
    uint32_t *by_base; /* indices of the spans, sorted by base */
    size_t by_base_capacity;
    uint32_t *depths; /* of each node */
    int64_t *nodes;   /* ids given by the segment's owner */
    size_t node_count, depth_capacity, node_capacity;
    struct et_label_set *labels; /* in the order of arrival */
    size_t label_count, label_capacity;
    struct et_map label_ids; /* id -> index + 1 */
};

/* Initializes a segment without messages. */
void et_segment_init(struct et_segment *segment);
void et_segment_free(struct et_segment *segment);
void et_segment_add_node(struct et_segment *segment, uint32_t depth, int64_t name);
void et_segment_add_span(struct et_segment *segment, const struct et_span *span);
void et_segment_add_labels(struct et_segment *segment, uint32_t id, const char *lines, int64_t name);
/* Index of a label set; SIZE_MAX: unknown. */
size_t et_segment_labels(const struct et_segment *segment, uint32_t id);

/* Sizes of a segment before a message adds to it. */
struct et_segment_mark {
    size_t spans, nodes, labels;
};
struct et_segment_mark et_segment_mark(const struct et_segment *segment);

/* Decodes a message and does the checks that need no segment; cleans strings (et_clean). NULL: malformed, *why says
 * how. et_message_free() the result. */
et_message *et_message_decode(const void *bytes, size_t size, const char **why);
void et_message_free(et_message *message);

/* Checks the message's modules and adds them to the segment, with module id 0. False: malformed. */
bool et_message_spans(const et_message *message, struct et_segment *segment, const char **why);

/* Decodes the message's nodes against the segment into nodes[message->nodes->n_back]. False: malformed, or the stacks
 * of its crash have more than ET_CRASH_FRAMES frames. */
bool et_message_nodes(const et_message *message, const struct et_segment *segment, struct et_wire_node *nodes,
                      const char **why);

/* Number of nodes in the message. */
size_t et_message_node_count(const et_message *message);

/* Checks the message's label sets and adds them to the segment, with id 0 for the owner. False: malformed. */
bool et_message_labels(const et_message *message, struct et_segment *segment, const char **why);

/* Checks a profile's references, and that its sums fit 63 bits. node_count: including the message's own nodes. The
 * label_set column refers to the message's label sets, and each of them to a tag set of the segment. */
bool et_message_profile(const et_message *message, size_t profile, size_t node_count, const char **why);

/* Appends the labels of a label set of the message (from 1) to *lines, including the thread's name. */
void et_message_label_set(const et_message *message, const struct et_segment *segment, size_t number,
                          struct et_buf *lines);

#endif
