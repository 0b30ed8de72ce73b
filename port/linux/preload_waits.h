/*
 * Macros to interpose functions that wait. Private to the files of the preload library that do so.
 */
#ifndef EP_LINUX_PRELOAD_WAITS_H
#define EP_LINUX_PRELOAD_WAITS_H

#include <edgeprof/edgeprof.h>
#include <edgeprof/hooks.h>
#include "linux.h"
#include "preload.h"

#include <unwind.h>

#define WAITS EP_KIND_BIT_EITHER(EP_KIND_BIT(EP_KIND_WAIT))
#define LOCKS (WAITS | EP_KIND_BIT_EITHER(EP_KIND_BIT(EP_KIND_LOCK)))

static inline bool is_wanted(unsigned kinds)
{
    return (atomic_load_explicit(&ep_hook_kinds, memory_order_relaxed) & kinds) != 0 && !ep_linux_here_is_own();
}

/* Ends the calling thread's wait when an unwinder leaves the function that began it, for a cancellation or an exception
 * of C++: it is the personality of these functions. They have no tables of 32-bit ARM for it. Context: any thread. */
_Unwind_Reason_Code ep_preload_unwound(int version, _Unwind_Action actions, _Unwind_Exception_Class kind,
                                       struct _Unwind_Exception *exception, struct _Unwind_Context *context)
    __attribute__((visibility("hidden")));

/* Begins a wait of the function that it is in. */
static inline __attribute__((always_inline)) void wait_begin(enum ep_wait wait)
{
#ifndef __arm__
    __asm__ volatile(".cfi_personality 0x1b, ep_preload_unwound"); /* 4 bytes, relative */
#endif
    ep_wait_begin(wait);
}

static inline enum ep_wait wait_on(int fd)
{
    ep_wait_descriptor(fd);
    return (enum ep_wait)EP_WAIT_BY_DESCRIPTOR;
}

/* clang-format off */
#define WAITING(result, name, wait, arguments, passed) WAITING_IF(true, result, name, wait, arguments, passed)

/* can_wait: false if these arguments let it return at once. */
#define WAITING_IF(can_wait, result, name, wait, arguments, passed) \
    FUNCTION(result, name, arguments) \
    { \
        type_##name *next = next_##name(); \
        if (!(can_wait) || !is_wanted(WAITS)) \
            return next passed; \
        wait_begin(wait); \
        result value = next passed; \
        ep_wait_end(); \
        return value; \
    }

/* try: takes the lock if it is free, else returns busy. It is the next library's function: ThreadSanitizer
 * interposes its own, which must not see the lock taken twice. */
#define LOCKING_BUSY(name, try, busy, arguments, passed) \
    FUNCTION(int, name, arguments) \
    { \
        type_##name *next = next_##name(); \
        if (!is_wanted(LOCKS)) \
            return next passed; \
        int value = next_##try()(lock); \
        if (value != (busy)) \
            return value; \
        wait_begin(EP_WAIT_LOCK); \
        value = next passed; \
        ep_wait_end(); \
        return value; \
    }
/* clang-format on */

#endif
