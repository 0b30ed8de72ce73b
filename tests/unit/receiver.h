/*
 * A receiver of profiles for tests: a transport that decodes every message with a reader of its own (wire.h), keeps the
 * dictionaries of the segments as a server would, checks the format's rules and adds up what arrived. What it answers
 * is scripted.
 */
#ifndef RECEIVER_H
#define RECEIVER_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/transport.h"

#define RECEIVER_SPECIALS 32u
#define RECEIVER_DEPTH    600u
#define RECEIVER_SETS     5000u
#define RECEIVER_TEXT     400u

struct receiver_context {
    uint64_t span_id, trace_high, trace_low;
    char tags[RECEIVER_TEXT], thread[RECEIVER_TEXT]; /* tags: "key=value;key=value;" */
};

/* One entry of a profile of any kind. */
struct receiver_stack {
    unsigned kind, node, context;
    uint64_t count, value;
    uint32_t frame[RECEIVER_DEPTH];
    unsigned depth;
    struct receiver_context with;
};

struct receiver {
    /* ---- script ---- */
    const int *answers; /* of the first sends; then 0 */
    unsigned answer_count;
    int always;        /* answered when the script is over */
    uint64_t retry_ns; /* told with every answer that is an error */
    int (*fails)(const char *name);
    void (*on_send)(const struct ep_message *message, const struct ep_deadline *deadline);
    /* Each accepted stack: frames leaf first (linear addresses), its weight. */
    void (*on_stack)(const uint32_t *frames, unsigned depth, uint64_t ns);

    void (*on_entry)(const struct receiver_stack *stack);

    /* ---- tallies ---- */
    unsigned opened, closed, sends, accepted, refusals, segments, lasts;
    uint64_t bytes, samples, ns;            /* accepted */
    uint64_t special_ns[RECEIVER_SPECIALS]; /* of these: stacks whose leaf or root is that special frame */
    uint64_t kind_count[EP_KINDS], kind_value[EP_KINDS];
    uint64_t period_ns[EP_KINDS]; /* that the newest profile tells */
    uint64_t refused_ns;          /* of messages that were answered -EBADMSG or -EMSGSIZE */
    uint64_t send_at_ns[256];
    uint64_t told[17]; /* Stats' numbers, by field: the newest ones */
    struct {
        uint64_t number[7]; /* by field */
        unsigned threads;
        char thread[16]; /* the last */
    } loss[EP_LOSS_REASONS];
    unsigned spool_told; /* how often something of the spool was told */
    uint64_t spool_most; /* messages there at most, as told */
    unsigned modules;    /* declared in the newest segment */
    const char *broken;  /* the first rule of the format that was broken */
};

extern struct receiver receiver;
extern const struct ep_transport receiver_transport;

void receiver_reset(void);

/* A server that lost its disk: knows no segment any more. */
void receiver_forget(void);

#endif
