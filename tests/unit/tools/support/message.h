/* Compact messages for tests, made with the generated packer, so that each test states only what matters to it. */
#ifndef MESSAGE_H
#define MESSAGE_H

#include "tools/serve/ingest/ingest.h"

#define MESSAGE_SECOND 1000000000ll
#define MESSAGE_NOW    (1700000000 * MESSAGE_SECOND)

/* A message with module [4096, 8192), a chain of three nodes in it and one profile of 50 ns. Tests modify it. */
struct message {
    Edgeprof__V1__Message message;
    Edgeprof__V1__Origin origin;
    Edgeprof__V1__Tag tag, *tags[1];
    Edgeprof__V1__Module module, *modules[1];
    Edgeprof__V1__Nodes nodes;
    Edgeprof__V1__Profile profile, *profiles[1];
    Edgeprof__V1__Stats stats;
    uint32_t back[3], leaf[2];
    int64_t frame[3];
    uint64_t value[2];
};

/* Sequence 0 has origin and dictionary. s must not be moved. */
void message_init(struct message *s, uint64_t segment, uint32_t sequence);

enum et_outcome message_push(struct et_store *store, const struct message *s);
enum et_outcome message_push_number(struct et_store *store, uint64_t segment, uint32_t sequence);

#endif
