/* See message.h. */
#include "message.h"

#include <stdlib.h>
#include <string.h>

static void message_origin(struct message *s)
{
    edgeprof__v1__origin__init(&s->origin);
    edgeprof__v1__tag__init(&s->tag);
    s->tag.key = "version";
    s->tag.value = "1";
    s->tags[0] = &s->tag;
    s->origin.format = 1;
    s->origin.service = "svc";
    s->origin.tags = s->tags;
    s->origin.n_tags = 1;
    s->origin.host = "box";
    s->origin.pid = 7;
    s->message.origin = &s->origin;
}

static void message_dictionary(struct message *s)
{
    edgeprof__v1__module__init(&s->module);
    edgeprof__v1__nodes__init(&s->nodes);
    s->module.start = 4096;
    s->module.size = 4096;
    s->module.address = 0x100000;
    s->module.path = "/bin/app";
    s->modules[0] = &s->module;
    s->message.modules = s->modules;
    s->message.n_modules = 1;
    s->back[1] = s->back[2] = 1;
    s->frame[0] = 4096;
    s->frame[1] = s->frame[2] = 16;
    s->nodes.back = s->back;
    s->nodes.frame = s->frame;
    s->nodes.n_back = s->nodes.n_frame = 3;
    s->message.nodes = &s->nodes;
}

static void message_profile(struct message *s)
{
    edgeprof__v1__profile__init(&s->profile);
    s->profile.kind = EDGEPROF__V1__KIND__KIND_CPU;
    s->profile.start_ns = (uint64_t)MESSAGE_SECOND;
    s->profile.duration_ns = (uint64_t)MESSAGE_SECOND;
    s->profile.quantum = 10;
    s->profile.samples = 5;
    s->leaf[0] = 1;
    s->leaf[1] = 2;
    s->value[0] = 2;
    s->value[1] = 3;
    s->profile.node = s->leaf;
    s->profile.value = s->value;
    s->profile.n_node = s->profile.n_value = 2;
    s->profiles[0] = &s->profile;
    s->message.profiles = s->profiles;
    s->message.n_profiles = 1;
}

void message_init(struct message *s, uint64_t segment, uint32_t sequence)
{
    memset(s, 0, sizeof *s);
    edgeprof__v1__message__init(&s->message);
    s->message.segment = segment;
    s->message.sequence = sequence;
    s->message.unix_minus_uptime_ns = (uint64_t)MESSAGE_NOW;
    message_profile(s);
    if (sequence == 0) {
        message_origin(s);
        message_dictionary(s);
    }
}

enum et_outcome message_push(struct et_store *store, const struct message *s)
{
    size_t size = edgeprof__v1__message__get_packed_size(&s->message);
    uint8_t *bytes = et_alloc(size, 1);
    const char *why = "";
    edgeprof__v1__message__pack(&s->message, bytes);
    enum et_outcome outcome = et_ingest_compact(store, bytes, size, MESSAGE_NOW + 100 * MESSAGE_SECOND, &why);
    free(bytes);
    return outcome;
}

enum et_outcome message_push_number(struct et_store *store, uint64_t segment, uint32_t sequence)
{
    struct message s;
    message_init(&s, segment, sequence);
    return message_push(store, &s);
}
