/*
 * A receiver of profiles for tests: a transport that decodes every message with its own reader (wire.h), keeps the
 * segments' dictionaries like a server, checks the format's rules, and sums what arrived. Its answers are scripted.
 */
#ifndef RECEIVER_H
#define RECEIVER_H

#include <stdbool.h>
#include <stdint.h>

#include <edgeprof/transport.h>

#define RECEIVER_SPECIALS 32u
#define RECEIVER_DEPTH    600u
#define RECEIVER_SETS     5000u
#define RECEIVER_TEXT     400u

struct receiver_context {
    uint64_t span_id, trace_high, trace_low;
    char tags[RECEIVER_TEXT], thread[RECEIVER_TEXT]; /* tags: "key=value;key=value;" */
};

/* An entry of a profile of any kind. */
struct receiver_stack {
    unsigned kind, node, context;
    uint64_t count, value;
    uint32_t frame[RECEIVER_DEPTH];
    unsigned depth;
    struct receiver_context with;
};

struct receiver {
    /* ---- script ---- */
    const int *answers; /* to the first sends; then 0 */
    unsigned answer_count;
    int always;        /* answer after the script */
    uint64_t retry_ns; /* sent with every error */
    int (*fails)(const char *name);
    void (*on_send)(const struct ep_message *message, const struct ep_deadline *deadline);
    /* Called for each accepted stack: frames leaf first (linear addresses), and weight. */
    void (*on_stack)(const uint32_t *frames, unsigned depth, uint64_t ns);

    void (*on_entry)(const struct receiver_stack *stack);

    /* ---- tallies ---- */
    unsigned opened, closed, sends, accepted, refusals, segments, lasts;
    unsigned dictionaries;                  /* accepted messages without profiles, whose interval goes on */
    uint64_t bytes, samples, ns;            /* accepted */
    uint64_t special_ns[RECEIVER_SPECIALS]; /* weight of stacks with this special frame as leaf or root */
    uint64_t kind_count[EP_KINDS], kind_value[EP_KINDS];
    uint64_t period_ns[EP_KINDS]; /* from the newest profile */
    uint64_t refused_ns;          /* of messages answered -EBADMSG or -EMSGSIZE */
    uint64_t send_at_ns[256];
    uint64_t told[22]; /* newest Stats, by field */
    struct {
        uint64_t number[7]; /* by field */
        unsigned threads;
        char thread[16]; /* the last */
    } loss[EP_LOSS_REASONS];
    unsigned spool_told; /* number of messages with data of the spool */
    uint64_t spool_most; /* the most messages in the spool */
    unsigned modules;    /* in the newest segment */
    const char *broken;  /* the first violated rule of the format */
};

extern struct receiver receiver;
extern const struct ep_transport receiver_transport;

void receiver_reset(void);

/* Simulates a server that lost its disk: it knows no segment. */
void receiver_forget(void);

#endif
