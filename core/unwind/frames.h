/*
 * Frames that are no addresses. core/proto/names.def lists them; their numbers are part of the format.
 */
#ifndef EP_UNWIND_FRAMES_H
#define EP_UNWIND_FRAMES_H

#include <stdbool.h>
#include <stdint.h>

/* EP_FRAME_WAIT + enum ep_wait is the class of a wait, EP_FRAME_GC0 + n generation n. */
enum ep_special {
#define EP_NAME_FRAME(identifier, number, name, meaning) EP_FRAME_##identifier = (number),
#include "core/proto/names.def"
    EP_FRAME_SPECIALS,
    EP_FRAME_BY_CALLER = 255, /* in records alone: struct ep_feature.classify finds out which [wait] it is */
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
