/*
 * Writes of programs built without edgeprof: interposes the C library's functions that write, sync and close, and marks
 * those that may wait (preload_waits.c).
 */
#include "preload_waits.h"
#include "write.h"

#define HOOK(result, name, arguments) FUNCTION(result, name, arguments)
#define REAL(name)                    next_##name()
#define WAIT_ON(fd)                   wait_on(fd)
/* clang-format off */
#define MARK(wait)      MARK_IF(true, wait)
#define MARK_FULL(file) MARK_IF(file->_IO_write_ptr >= file->_IO_write_end, wait_on(fileno_unlocked(file)))
#define MARK_IF(can_wait, wait) \
    const bool waits = (can_wait) && is_wanted(WAITS); \
    if (waits) \
        wait_begin(wait);
#define UNMARK() \
    if (waits) \
        ep_wait_end();
/* clang-format on */

#include "write_hooks.h"
