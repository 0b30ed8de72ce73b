/*
 * Messages that are a segment of their own and so have all their modules and nodes: crashes and incidents.
 */
#ifndef ET_WHOLE_MESSAGE_H
#define ET_WHOLE_MESSAGE_H

#include "tools/formats/compact.h"
#include "tools/profile/profile.h"

/* The message's nodes, and their frames in a profile: of node i + 1 at [i]. */
struct et_whole {
    struct et_wire_node *nodes;
    uint32_t *frames;
    size_t count;
};

/* Adds the modules and frames to *profile, which it makes if it is NULL. False: malformed, *why says how; nothing is to
 * be freed. */
bool et_whole_read(const et_message *message, struct et_profile **profile, struct et_whole *whole, const char **why);
void et_whole_free(struct et_whole *whole);

/* Appends {"key":"value",...}. */
void et_json_tags(struct et_buf *out, const Edgeprof__V1__Origin *origin);

#endif
