/*
 * Private to the feature: what is kept beside the shared memory, because struct ep is not shared.
 */
#ifndef EP_OUTLIVE_H
#define EP_OUTLIVE_H

#include <edgeprof/outlive.h>

#include "core/sample/profiler.h"

#define EP_OUTLIVE_PATH     384u
#define EP_OUTLIVE_BUILD_ID 64u

enum ep_outlive_state { EP_OUTLIVE_NEW, EP_OUTLIVE_RUNS, EP_OUTLIVE_ENDED };

struct ep_outlive_module {
    uintptr_t start, end, bias;
    uint32_t base;
    uint16_t build_id_size;
    uint8_t data; /* 0 or 1 */
    uint8_t build_id[EP_OUTLIVE_BUILD_ID];
    char path[EP_OUTLIVE_PATH]; /* a longer one is cut */
};

/* Of another version only `layout` may be read. */
struct ep_outlive_head {
    uint64_t layout;
    atomic_uint state; /* enum ep_outlive_state */
    uint32_t memory_size;
    struct ep_identity identity;    /* without arch */
    char strings[EP_STRINGS_BYTES]; /* service, then tags */
    uint32_t level, rate_hz;
    uint64_t started_ns;
    struct ep_own_text own_text;
    /* of the last round of the collect thread */
    uint32_t period_ns; /* 0: there was none */
    uint64_t counter[EP_COUNTERS], lost_count[EP_LOSS_REASONS], lost_ns[EP_LOSS_REASONS];
    atomic_uint modules;
    struct ep_outlive_module module[EP_MAX_MODULES];
};

_Static_assert(sizeof(struct ep_outlive_head) <= EP_OUTLIVE_HEAD, "EP_OUTLIVE_HEAD is too small");

/* A number that differs between layouts of the memory and the head. Context: signal. */
uint64_t ep_outlive_layout(void);

#endif
