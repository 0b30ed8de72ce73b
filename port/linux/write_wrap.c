/*
 * The write hooks of a program that is linked with write.opt: what it and its static libraries call.
 */
#include <stdbool.h>
#include <stdint.h>

#include "write.h"

/* musl's older versions do not have these. */
#ifndef __GLIBC__
#pragma weak __real_copy_file_range
#endif

/* clang-format off */
#define HOOK(result, name, arguments) \
    result __real_##name arguments; \
    __attribute__((hot)) result __wrap_##name arguments; \
    result __wrap_##name arguments
/* clang-format on */
#define REAL(name)  __real_##name
#define WAIT_ON(fd) 0
#define MARK(wait)
#define MARK_FULL(file)
#define UNMARK()

#include "write_hooks.h"
