/*
 * Private to core/capture: the words of a record, and how a stack becomes one. What is called for each sample is
 * inlined.
 */
#ifndef EP_CAPTURE_STORE_H
#define EP_CAPTURE_STORE_H

#include "core/sample/capture.h"

#include <errno.h>

/* A plain store, which takes an offset everywhere: ep_ring_commit() publishes it. */
static inline void store_word(atomic_uintptr_t *word, uint64_t value)
{
    *(uintptr_t *)(void *)word = (uintptr_t)value;
}

static inline void store_wide(atomic_uintptr_t *word, uint64_t value)
{
    store_word(&word[0], value);
    if (EP_WIDE_WORDS == 2)
        store_word(&word[EP_WIDE_WORDS - 1], value >> 32);
}

static inline void store_span(atomic_uintptr_t *word, const struct ep_work *work)
{
    store_wide(&word[0], work->span_id);
    store_wide(&word[EP_WIDE_WORDS], work->trace_high);
    store_wide(&word[2 * EP_WIDE_WORDS], work->trace_low);
}

static inline void store_event(atomic_uintptr_t *payload, const struct ep_hook_event *event)
{
    store_word(&payload[EP_WORD_COUNT], event->count);
    store_word(&payload[EP_WORD_TYPE], event->type);
    store_word(&payload[EP_WORD_TOKEN], event->token);
}

/* Counts a loss and returns -ENOSPC. Context: signal. */
int ep_record_lost(struct ep *ep, enum ep_kind kind, uint64_t value);

/* Arguments of a record. event: NULL for a CPU sample. info: EP_WORD_INFO without tags and span. */
struct record_args {
    struct ep *ep;
    const struct ep_work *work;
    const struct ep_hook_event *event;
    uint64_t value;
    uint32_t tid, info;
};

/* A record between record_begin() and record_end(). */
struct record {
    atomic_uintptr_t *payload;
    int at;
    unsigned head, words, most; /* words: before the stack */
    uint32_t info;
    bool span, dated, wake;
};

/* Reserves a record and unwinds into it. Returns 0, or -ENOSPC: the loss was counted. Context: signal. */
static inline __attribute__((always_inline)) int record_begin(const struct record_args *args,
                                                              const struct ep_registers *context, struct record *record,
                                                              struct ep_stack *stack)
{
    struct ep *ep = args->ep;

    record->head = args->event ? EP_EVENT_WORDS : EP_SAMPLE_WORDS;
    record->dated = ep_history_kinds & 1;
    record->info = args->info | ep_work_read(ep, args->work, &record->span);
    record->words = record->head + (record->span ? EP_SPAN_WORDS : 0) + record->dated;
    record->most = record->words + EP_MAX_DEPTH;
    record->at = ep_ring_reserve(&ep->ring, record->most, &record->wake);
    if (record->at < 0)
        return ep_record_lost(ep, (enum ep_kind)(record->info >> EP_INFO_KIND_SHIFT & 0xf), args->value);
    record->payload = ep_ring_payload(&ep->ring, record->at);
    stack->pc = record->payload + record->words;
    ep_unwind(&ep->unwinder, context, stack);
    return 0;
}

/* Publishes it, with the stack as it is now. record->wake: the collect thread is to be woken. Context: signal. */
static inline __attribute__((always_inline)) void record_end(const struct record_args *args,
                                                             const struct record *record, const struct ep_stack *stack)
{
    atomic_uintptr_t *payload = record->payload;

    store_word(&payload[EP_WORD_TID], args->tid);
    store_word(&payload[EP_WORD_INFO], record->info | (record->span ? EP_INFO_SPAN : 0));
    store_wide(&payload[EP_WORD_VALUE], args->value);
    if (args->event)
        store_event(payload, args->event);
    if (record->span)
        store_span(payload + record->head, args->work);
    if (record->dated)
        store_word(&payload[record->words - 1], ep_port_uptime_ns() >> EP_TIME_SHIFT);
    const struct ep_record header = {.kind = args->event ? EP_RECORD_EVENT : EP_RECORD_SAMPLE,
                                     .quality = stack->quality,
                                     .end = stack->end,
                                     .count = record->words + stack->depth};
    ep_ring_commit(&args->ep->ring, record->at, record->most, ep_ring_header(&header));
}

/* Context: signal. */
static inline __attribute__((always_inline)) void record_tell(struct ep *ep, bool wake, const struct ep_stack *stack)
{
    if (wake)
        ep_port_wake(&ep->collect_event);
    if (stack->misses)
        (void)atomic_fetch_add_explicit(&ep->rule_misses, stack->misses, memory_order_relaxed);
}

#endif
