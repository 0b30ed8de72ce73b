/*
 * Incidents from compact messages: single samples of a program around a moment, with their stacks, to be symbolized.
 * Written as JSON or as a profile for the Firefox Profiler.
 */
#ifndef ET_INCIDENT_H
#define ET_INCIDENT_H

#include "tools/formats/compact.h"
#include "tools/profile/profile.h"

/* Times are uptime in ns of the device. */
struct et_incident_sample {
    int64_t start_ns,
        end_ns;            /* CPU: as if the time that it stands for had just passed; a stack of a dump: one moment */
    uint32_t thread, kind; /* index; enum Kind of the format */
    uint32_t node;         /* of the profile; 0: no stack */
};

struct et_incident {
    et_message *head; /* its first part; NULL: none was added */
    int64_t received_ns;
    struct et_profile *profile;
    struct et_incident_sample *samples; /* in the order of their ends */
    size_t count, capacity;
    struct et_incident_thread {
        uint32_t tid;
        char *name;
    } * threads;
    size_t thread_count, thread_capacity;
    uint32_t parts; /* received */
    bool complete;
};

void et_incident_free(struct et_incident *incident);

/* Adds a part, which the incident then owns; parts come in their order. False: malformed, *why says how, and the
 * message is freed. */
bool et_incident_add(struct et_incident *incident, et_message *message, int64_t received_ns, const char **why);

/* "span", "heartbeat" ...; "unknown". */
const char *et_incident_cause(int cause);

/* Appends what a list shows, of a first part: {"id":...}. received_ns: when it came; 0: unknown. */
void et_incident_summary(const et_message *message, int64_t received_ns, struct et_buf *out);

/* Appends all of it, after the profile has been symbolized; see docs/http-api.md. */
void et_incident_json(const struct et_incident *incident, struct et_buf *out);

/* The same as a profile for the Firefox Profiler, in its processed format (firefox.c). */
void et_incident_firefox(const struct et_incident *incident, struct et_buf *out);

/* Calls of the profile's nodes with one entry a function: an inlined function is the callee of its caller. */
struct et_calls {
    struct et_strings names;
    struct et_call {
        uint32_t caller; /* index + 1; 0: none */
        uint32_t function, file, line;
    } * items;
    size_t count, capacity;
    uint32_t *of_node; /* index + 1 of the innermost call; of node 0: 0 */
};
void et_calls_make(const struct et_profile *profile, struct et_calls *calls);
void et_calls_free(struct et_calls *calls);

#endif
