/*
 * Code that runs soon, fetched all at once. Between two samples a processor's caches forget the code, and would then
 * fetch it line after line. Fetching ahead changes nothing but time; it reads nothing, and cannot fault.
 */
#ifndef EP_UNWIND_AHEAD_H
#define EP_UNWIND_AHEAD_H

#include <stdint.h>

#define EP_CACHE_LINE 64u

/* Only where it pays: the processors of small devices are in order and wait in any case. `bytes` may be a guess.
 * Context: signal. */
static inline void ep_code_ahead(uintptr_t function, unsigned bytes)
{
#ifdef __x86_64__
    for (uintptr_t at = function; at < function + bytes; at += EP_CACHE_LINE)
        __builtin_prefetch((const void *)at, 0, 2);
#else
    (void)function;
    (void)bytes;
#endif
}

#endif
