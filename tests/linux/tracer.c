/*
 * See tracer.h. Compiled with each model of thread-local storage; TRACER_FILL makes its block too large for room that
 * the dynamic linker keeps for libraries that come later.
 */
#include "tracer.h"

#include <stdatomic.h>
#include <string.h>

struct record {
    uint8_t trace_id[16], span_id[8], valid, flags, size[2];
};

extern _Thread_local void *otel_thread_ctx_v1;
_Thread_local void *otel_thread_ctx_v1;
static _Thread_local struct record records[1];
#ifdef TRACER_FILL
static _Thread_local char fill[TRACER_FILL];
#endif

void tracer_span(uint8_t id, uint8_t valid)
{
    volatile uint8_t *is_valid = &records->valid;

#ifdef TRACER_FILL
    *(volatile char *)&fill[id] = 1;
#endif
    *is_valid = 0;
    atomic_signal_fence(memory_order_seq_cst);
    memset(records->trace_id, id, 16);
    memset(records->span_id, id, 8);
    otel_thread_ctx_v1 = records;
    atomic_signal_fence(memory_order_seq_cst);
    *is_valid = valid;
}

void tracer_none(void)
{
    otel_thread_ctx_v1 = NULL;
}

void tracer_point(void *record)
{
    otel_thread_ctx_v1 = record;
}
