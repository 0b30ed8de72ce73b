/*
 * Private to core/capture: the words of a record.
 */
#ifndef EP_CAPTURE_STORE_H
#define EP_CAPTURE_STORE_H

#include "core/capture/capture.h"

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

#endif
