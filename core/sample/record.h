/*
 * A record: what one sample or event of a thread is in the ring. Layout, writer and reader are here and in record.c.
 *
 *   sample   tid, info, value,                      [span x 3], [time], stack    EP_RECORD_SAMPLE
 *   event    tid, info, value, count, type, token,  [span x 3], [time], stack    EP_RECORD_EVENT
 *   residual tid, value                                                          EP_RECORD_RESIDUAL
 *
 * A value and a span's numbers have 64 bits: one word or two. The span is there if info says so, the time if there is a
 * history (ep_history_kinds). The stack is innermost first. What is called for each sample is inlined.
 */
#ifndef EP_SAMPLE_RECORD_H
#define EP_SAMPLE_RECORD_H

#include "core/profile/labels.h"
#include "core/sample/capture.h"

#include <errno.h>

enum ep_record_kind { EP_RECORD_SAMPLE = 2, EP_RECORD_RESIDUAL = 3, EP_RECORD_EVENT = 4 };

/* Words of a 64-bit number. */
#define EP_WIDE_WORDS (8 / (int)sizeof(uintptr_t))

enum {
    EP_WORD_TID,
    EP_WORD_RESIDUAL, /* EP_RECORD_RESIDUAL: a 64-bit number */
    EP_WORD_INFO = 1, /* tag set (bits 0-15), kind (16-19), flag: a span follows (20), skip (21-23), frame (24-31) */
    EP_WORD_VALUE,    /* a 64-bit number */
    EP_SAMPLE_WORDS = EP_WORD_VALUE + EP_WIDE_WORDS,
    EP_WORD_COUNT = EP_SAMPLE_WORDS, /* events only, from here */
    EP_WORD_TYPE,
    EP_WORD_TOKEN,
    EP_EVENT_WORDS,
    EP_REST_WORDS = EP_WORD_RESIDUAL + EP_WIDE_WORDS,
    EP_SPAN_WORDS = 3 * EP_WIDE_WORDS,
};
#define EP_INFO_KIND_SHIFT  16
#define EP_INFO_SPAN        (1u << 20)
#define EP_INFO_SKIP_SHIFT  21
#define EP_INFO_FRAME_SHIFT 24

/* The time of a record is uptime in units of 2^20 ns, in one word: no division. */
#define EP_TIME_SHIFT 20

/* ---- reading ---- */

/* A record, decoded. */
struct ep_sample {
    enum ep_kind kind;
    uint32_t tid, count, token;
    unsigned frame, end, quality; /* end: the special frame under the root, or EP_FRAME_NONE */
    bool residual;                /* EP_RECORD_RESIDUAL: only tid, end and value are set; kind is CPU */
    uint32_t tick;                /* its time, modulo 2^32; 0: it has none */
    uint64_t value;
    uintptr_t type;
    struct ep_label_key labels;
    const atomic_uintptr_t *stack; /* innermost first; valid until ep_ring_pop() */
    unsigned depth, skip;          /* skip: frames at the leaf that are not shown, at most depth */
};

/* Decodes a record. Every index is checked, so *sample is safe to use whatever the words are. Returns false if no
 * writer makes such a record; *sample is not changed then. Context: collect. */
bool ep_record_read(const struct ep_record *record, struct ep_sample *sample);

/* ---- writing ---- */

/* A plain store, which takes an offset everywhere: ep_ring_commit() publishes it. */
static inline void ep_store_word(atomic_uintptr_t *word, uint64_t value)
{
    *(uintptr_t *)(void *)word = (uintptr_t)value;
}

static inline void ep_store_wide(atomic_uintptr_t *word, uint64_t value)
{
    ep_store_word(&word[0], value);
    if (EP_WIDE_WORDS == 2)
        ep_store_word(&word[EP_WIDE_WORDS - 1], value >> 32);
}

static inline void ep_store_span(atomic_uintptr_t *word, const struct ep_work *work)
{
    ep_store_wide(&word[0], work->span_id);
    ep_store_wide(&word[EP_WIDE_WORDS], work->trace_high);
    ep_store_wide(&word[2 * EP_WIDE_WORDS], work->trace_low);
}

static inline void ep_store_event(atomic_uintptr_t *payload, const struct ep_hook_event *event)
{
    ep_store_word(&payload[EP_WORD_COUNT], event->count);
    ep_store_word(&payload[EP_WORD_TYPE], event->type);
    ep_store_word(&payload[EP_WORD_TOKEN], event->token);
}

/* Arguments of a record. event: NULL for a CPU sample. info: EP_WORD_INFO without tags and span. */
struct ep_record_args {
    struct ep *ep;
    const struct ep_work *work;
    const struct ep_hook_event *event;
    uint64_t value;
    uint32_t tid, info;
};

/* Counts a sample without room, and the value of an event as lost. Returns -ENOSPC. Context: signal. */
int ep_record_lost(struct ep *ep, const struct ep_record_args *args);

/* A record between ep_record_begin() and ep_record_end(). */
struct ep_record_open {
    atomic_uintptr_t *payload;
    int at;
    unsigned head, words, most; /* words: before the stack */
    uint32_t info;
    bool span, dated, wake;
};

/* Reserves a record and unwinds into it. Returns 0, or -ENOSPC: the loss was counted. Context: signal. */
static inline __attribute__((always_inline)) int ep_record_begin(const struct ep_record_args *args,
                                                                 const struct ep_registers *registers,
                                                                 struct ep_record_open *record, struct ep_stack *stack)
{
    struct ep *ep = args->ep;

    record->head = args->event ? EP_EVENT_WORDS : EP_SAMPLE_WORDS;
    record->dated = ep_history_kinds & 1;
    record->info = args->info | ep_work_read(ep, args->work, &record->span);
    record->words = record->head + (record->span ? EP_SPAN_WORDS : 0) + record->dated;
    record->most = record->words + EP_MAX_DEPTH;
    /* A tick can come later, see ep_capture(). An event cannot. */
    record->at = ep_ring_reserve(&ep->ring, record->most, args->event ? 0 : ep_ring_kept(&ep->ring), &record->wake);
    if (record->at < 0)
        return ep_record_lost(ep, args);
    record->payload = ep_ring_payload(&ep->ring, record->at);
    stack->pc = record->payload + record->words;
    ep_unwind(&ep->unwinder, registers, stack);
    return 0;
}

/* Publishes it, with the stack as it is now. record->wake: the collect thread is to be woken. Context: signal. */
static inline __attribute__((always_inline)) void
ep_record_end(const struct ep_record_args *args, const struct ep_record_open *record, const struct ep_stack *stack)
{
    atomic_uintptr_t *payload = record->payload;

    ep_store_word(&payload[EP_WORD_TID], args->tid);
    ep_store_word(&payload[EP_WORD_INFO], record->info | (record->span ? EP_INFO_SPAN : 0));
    ep_store_wide(&payload[EP_WORD_VALUE], args->value);
    if (args->event)
        ep_store_event(payload, args->event);
    if (record->span)
        ep_store_span(payload + record->head, args->work);
    if (record->dated)
        ep_store_word(&payload[record->words - 1], ep_port_uptime_ns() >> EP_TIME_SHIFT);
    const struct ep_record header = {.kind = args->event ? EP_RECORD_EVENT : EP_RECORD_SAMPLE,
                                     .quality = stack->quality,
                                     .end = stack->end,
                                     .count = record->words + stack->depth};
    ep_ring_commit(&args->ep->ring, record->at, record->most, ep_ring_header(&header));
}

/* Context: signal. */
static inline __attribute__((always_inline)) void ep_record_tell(struct ep *ep, bool wake, const struct ep_stack *stack)
{
    if (wake)
        ep_port_wake(&ep->collect_event);
    if (stack->misses)
        (void)atomic_fetch_add_explicit(&ep->rule_misses, stack->misses, memory_order_relaxed);
}

#endif
