/*
 * Crashes from compact messages: their stacks as frames of one profile, to be symbolized, and groups of what looks like
 * the same fault.
 */
#ifndef ET_CRASH_H
#define ET_CRASH_H

#include "tools/formats/compact.h"
#include "tools/profile/profile.h"

struct et_crash {
    et_message *message; /* with message->crash */
    char *service, *host;
    int64_t at_ns;     /* Unix time of the end, or of the arrival; 0: unknown */
    uint32_t **frames; /* of each thread: indices into the list's profile, leaf first */
    size_t *depths;
    char *reason;         /* "SIGSEGV", "killed or out of memory", the exception's type */
    char fingerprint[17]; /* equal for crashes that look alike */
};

struct et_crashes {
    struct et_crash *items;
    size_t count, capacity;
    size_t frame_count; /* of all stacks */
    struct et_profile *profile;
};

/* Zeroed: empty. */
void et_crashes_free(struct et_crashes *crashes);

/* Adds a message with a crash, which the list then owns. received_ns: when it came; 0: unknown. False: malformed, *why
 * says how, and the message is freed. */
bool et_crashes_add(struct et_crashes *crashes, et_message *message, int64_t received_ns, const char **why);

/* Sets reasons and fingerprints, after the profile has been symbolized, and puts crashes in order: groups by their last
 * crash, the latest first; in a group the latest first. */
void et_crashes_group(struct et_crashes *crashes);

/* Appends the groups as JSON: {"groups":[...]}, see docs/http-api.md. */
void et_crashes_json(const struct et_crashes *crashes, struct et_buf *out);

#endif
