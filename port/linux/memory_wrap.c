/*
 * The memory hooks of a program that is linked with memory.opt: what it and its static libraries call, in static
 * programs also what the C library calls for itself.
 */
#include <stdbool.h>
#include <stdint.h>

#include "memory.h"

/* musl does not have these. The others must not be weak: the linker would not look for them in a static C library. */
#pragma weak __real_pvalloc
#pragma weak __real_mmap64

/* clang-format off */
#define HOOK(result, name, arguments) \
    result __real_##name arguments; \
    __attribute__((hot)) result __wrap_##name arguments; \
    result __wrap_##name arguments
/* clang-format on */
#define NEXT(name) __real_##name

void *__real_realloc(void *old, size_t size);

static bool is_lent(const void *block)
{
    (void)block;
    return false;
}

static void *leave(const void *old, size_t size)
{
    (void)old;
    (void)size;
    return NULL;
}

/* The C library's allocator does not call mmap() by that name. */
static bool is_inside(uintptr_t caller)
{
    (void)caller;
    return false;
}

#include "memory_hooks.h"
