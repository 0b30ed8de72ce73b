/*
 * The write hooks of a program with shared libraries: writes of the program and of all of its libraries come here,
 * since the program's definitions precede the C library's. The linker gives ep_write_X the name X (write_next.opt); a
 * program that is linked without these options does not contain this.
 */
#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>

#include "write.h"

/* clang-format off */
#define HOOK(result, name, arguments) \
    typedef result type_##name arguments; \
    static inline type_##name *real_##name(void) \
    { \
        static _Atomic(void *) place; \
        void *symbol = atomic_load_explicit(&place, memory_order_relaxed); \
        type_##name *function; \
        if (!symbol) \
            atomic_store_explicit(&place, symbol = dlsym(RTLD_NEXT, #name), memory_order_relaxed); \
        memcpy(&function, &symbol, sizeof function); \
        return function; \
    } \
    __attribute__((visibility("default"), hot)) result ep_write_##name arguments; \
    result ep_write_##name arguments
/* clang-format on */
#define REAL(name)  real_##name()
#define WAIT_ON(fd) 0
#define MARK(wait)
#define MARK_FULL(file)
#define UNMARK()

#include "write_hooks.h"
