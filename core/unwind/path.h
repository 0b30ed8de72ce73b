/*
 * Private to core/unwind: the bounds of following code along several ways (path_x86_64.c, path_aarch64.c), and where
 * its jumps have led.
 */
#ifndef EP_UNWIND_PATH_H
#define EP_UNWIND_PATH_H

#include <stdbool.h>
#include <stdint.h>

#define EP_PATH_STEPS_MOST 2048 /* instructions in all */
#define EP_PATH_WAY_MOST   400  /* instructions of one way: in large functions another one is shorter */
#define EP_PATH_WAYS_MOST  6    /* kept for later */
#define EP_PATH_SEEN_MOST  32
#define EP_PATH_FRAME_MOST (1 << 24)
#define EP_PATH_NOWHERE    INT32_MIN /* an offset that is not known */

/* Targets of jumps that were followed or kept; 32 bits tell them apart in a module. */
struct ep_path_seen {
    uint32_t target[EP_PATH_SEEN_MOST];
    unsigned count;
};

/* Adds the target. False when it is there already, for nothing new comes of going there twice, or when there is no room
 * for it. Context: signal. */
static inline bool ep_path_is_new(struct ep_path_seen *seen, uintptr_t target)
{
    for (unsigned i = 0; i < seen->count; i++)
        if (seen->target[i] == (uint32_t)target)
            return false;
    if (seen->count == EP_PATH_SEEN_MOST)
        return false;
    seen->target[seen->count++] = (uint32_t)target;
    return true;
}

#endif
