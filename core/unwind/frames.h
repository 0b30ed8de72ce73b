/*
 * Frames that are no addresses. Their numbers are part of the format (core/proto/compact.proto).
 */
#ifndef EP_UNWIND_FRAMES_H
#define EP_UNWIND_FRAMES_H

#include <stdbool.h>
#include <stdint.h>

/* Frames that are no addresses; numbers are part of the format (core/proto/compact.proto). */
enum ep_special {
    EP_FRAME_NONE = 0,
    EP_FRAME_TRUNCATED = 1,
    EP_FRAME_CUT = 2,
    EP_FRAME_DEEP = 3,
    EP_FRAME_THREAD_EXIT = 4,
    EP_FRAME_LOST_RING = 5,
    EP_FRAME_LOST_REFUSED = 6,
    EP_FRAME_LOST_SEGMENT = 7,
    EP_FRAME_HIJACK = 8,
    EP_FRAME_UNKNOWN = 9,
    EP_FRAME_GAP = 10,
    EP_FRAME_WAIT = 11, /* + enum ep_wait */
    EP_FRAME_GC0 = 17,  /* + generation */
    EP_FRAME_GC_BACKGROUND = 20,
    EP_FRAME_LOST_STOPPED = 21,
    EP_FRAME_NO_STACK = 22,
    EP_FRAME_GC_LOH = 23,
    EP_FRAME_GC_POH = 24,
    EP_FRAME_GC_FRAGMENTATION = 25,
    EP_FRAME_GC_UNUSED = 26,
    EP_FRAME_LOST_SPOOL = 27,
    EP_FRAME_EDGEPROF = 28,
    EP_FRAME_UNSAMPLED = 29,
    EP_FRAME_KERNEL = 30,
    EP_FRAME_AWAITED = 31,
    EP_FRAME_NATIVE = 32,
    EP_FRAME_MMAP = 33,
    EP_FRAME_SPECIALS = 34,
    EP_FRAME_BY_CALLER = 255, /* in records alone: struct ep_waits.classify finds out which [wait] it is */
    EP_FRAME_FIRST_ADDRESS = 256,
};

/* [lost: ...]: time that was counted when it was lost. */
#define EP_LOST_FRAMES                                                                                                 \
    (1u << EP_FRAME_LOST_RING | 1u << EP_FRAME_LOST_REFUSED | 1u << EP_FRAME_LOST_SEGMENT | 1u << EP_FRAME_LOST_SPOOL)
static inline bool ep_is_lost(uint32_t frame)
{
    return frame < 32 && (EP_LOST_FRAMES >> frame & 1);
}

#endif
