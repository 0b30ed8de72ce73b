/* Private to the preload library: which processes it works in, and how it stands in front of the C library's functions.
 */
#ifndef EP_LINUX_PRELOAD_H
#define EP_LINUX_PRELOAD_H

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

/* Whether this process is to be profiled, as EDGEPROF_ONLY and EDGEPROF_SKIP say. Decided once: what the program does
 * to its environment later does not count. In a process that is not, no thread, timer or handler is made, and every
 * function that the library stands in front of goes straight to the C library. Context: any thread. */
bool ep_preload_chosen(void);

/* Whether the program, or a library of it, has a sanitizer's runtime. Context: init. */
bool ep_preload_sanitized(void);

/* The first condition variables of x86-64's glibc are still there, under the same names. */
static inline void *ep_preload_find(_Atomic(void *) *next, const char *name)
{
    void *symbol = NULL;

    if (strncmp(name, "pthread_cond_", 13) == 0)
        symbol = dlvsym(RTLD_NEXT, name, "GLIBC_2.3.2");
    if (!symbol)
        symbol = dlsym(RTLD_NEXT, name);
    atomic_store(next, symbol);
    return symbol;
}

/* clang-format off */
/* The function of that name behind this library. */
#define NEXT(result, name, arguments) \
    typedef result type_##name arguments; \
    static inline type_##name *next_##name(void) \
    { \
        static _Atomic(void *) next; \
        type_##name *function; \
        void *symbol = atomic_load_explicit(&next, memory_order_relaxed); \
        if (!symbol) \
            symbol = ep_preload_find(&next, #name); \
        memcpy(&function, &symbol, sizeof function); \
        return function; \
    }

/* The name is the assembler's: no header has a say in what stands in front of the function. */
#define FUNCTION(result, name, arguments) \
    NEXT(result, name, arguments) \
    __attribute__((visibility("default"))) result ep_preload_##name arguments __asm__(#name); \
    result ep_preload_##name arguments
/* clang-format on */

#endif
