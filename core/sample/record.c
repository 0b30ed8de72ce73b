/*
 * The reader of records: see record.h. A writer is a signal handler or a hook of the same process, so a wrong record
 * means a defect; a wrong index must still never be read.
 */
#include "core/sample/record.h"

static uint64_t wide(const atomic_uintptr_t *word)
{
    return EP_WIDE_WORDS == 1 ? word[0] : (uint64_t)word[0] | (uint64_t)word[EP_WIDE_WORDS - 1] << 32;
}

static bool read_rest(const struct ep_record *record, struct ep_sample *sample)
{
    if (record->count != EP_REST_WORDS)
        return false;
    *sample = (struct ep_sample){.kind = EP_KIND_CPU,
                                 .residual = true,
                                 .tid = (uint32_t)record->words[EP_WORD_TID],
                                 .end = record->end,
                                 .value = wide(&record->words[EP_WORD_RESIDUAL])};
    return true;
}

static void read_span(const atomic_uintptr_t *span, struct ep_label_key *labels)
{
    labels->span_id = wide(&span[0]);
    labels->trace_high = wide(&span[EP_WIDE_WORDS]);
    labels->trace_low = wide(&span[2 * EP_WIDE_WORDS]);
}

/* The words in front of the stack. */
static unsigned head_words(const struct ep_record *record, uint32_t info)
{
    return (record->kind == EP_RECORD_EVENT ? (unsigned)EP_EVENT_WORDS : (unsigned)EP_SAMPLE_WORDS) +
           (info & EP_INFO_SPAN ? (unsigned)EP_SPAN_WORDS : 0) + (ep_history_kinds & 1);
}

static bool is_right(const struct ep_record *record, uint32_t info)
{
    const unsigned kind = info >> EP_INFO_KIND_SHIFT & 0xf, head = head_words(record, info);

    return kind > 0 && kind < EP_KINDS && (info & 0xffff) <= EP_TAG_SETS && record->count >= head &&
           record->count - head <= EP_MAX_DEPTH;
}

bool ep_record_read(const struct ep_record *record, struct ep_sample *sample)
{
    if (record->end >= EP_FRAME_SPECIALS)
        return false;
    if (record->kind == EP_RECORD_RESIDUAL)
        return read_rest(record, sample);
    if ((record->kind != EP_RECORD_SAMPLE && record->kind != EP_RECORD_EVENT) || record->count < EP_SAMPLE_WORDS)
        return false;
    const uint32_t info = (uint32_t)record->words[EP_WORD_INFO];
    if (!is_right(record, info))
        return false;
    const unsigned head = head_words(record, info), skip = info >> EP_INFO_SKIP_SHIFT & 7;
    const unsigned depth = record->count - head;
    *sample = (struct ep_sample){.kind = (enum ep_kind)(info >> EP_INFO_KIND_SHIFT & 0xf),
                                 .tid = (uint32_t)record->words[EP_WORD_TID],
                                 .count = 1,
                                 .frame = info >> EP_INFO_FRAME_SHIFT,
                                 .end = record->end,
                                 .quality = record->quality > EP_STACK_CUT ? EP_STACK_CUT : record->quality,
                                 .tick = ep_history_kinds & 1 ? (uint32_t)record->words[head - 1] : 0,
                                 .value = wide(&record->words[EP_WORD_VALUE]),
                                 .labels.tags = info & 0xffff,
                                 .stack = &record->words[head],
                                 .depth = depth,
                                 .skip = skip < depth ? skip : depth};
    if (record->kind == EP_RECORD_EVENT) {
        sample->count = (uint32_t)record->words[EP_WORD_COUNT];
        sample->type = record->words[EP_WORD_TYPE];
        sample->token = (uint32_t)record->words[EP_WORD_TOKEN];
    }
    if (info & EP_INFO_SPAN)
        read_span(&record->words[record->kind == EP_RECORD_EVENT ? EP_EVENT_WORDS : EP_SAMPLE_WORDS], &sample->labels);
    return true;
}
