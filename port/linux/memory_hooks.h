/*
 * The hooks' bodies, for memory_wrap.c and preload_next.c, which define before:
 *
 *   HOOK(result, name, arguments)  the hook's head
 *   NEXT(name)                     the function that it stands before
 *   is_lent(block)                 true: the block is not of that allocator, and is never freed
 *   leave(old, size)               realloc() of such a block
 *   is_inside(caller)              true: the caller of mmap() is that allocator
 */
#ifndef EP_LINUX_MEMORY_HOOKS_H
#define EP_LINUX_MEMORY_HOOKS_H

#include <stdarg.h>

#include "memory.h"

HOOK(void *, malloc, (size_t size))
{
    uint64_t stands_for = ep_memory_is_sampled(size);

    if (__builtin_expect(stands_for == 0, true))
        return NEXT(malloc)(size);
    void *block = NEXT(malloc)(size);
    if (block)
        ep_memory_record(block, size, stands_for);
    return block;
}

HOOK(void *, calloc, (size_t count, size_t size))
{
    size_t bytes;
    uint64_t stands_for = __builtin_mul_overflow(count, size, &bytes) ? 0 : ep_memory_is_sampled(bytes);

    struct ep_memory_hidden hidden = ep_memory_hide();
    void *block = NEXT(calloc)(count, size);
    ep_memory_show(hidden);
    if (__builtin_expect(stands_for != 0, false) && block)
        ep_memory_record(block, bytes, stands_for);
    return block;
}

static __attribute__((noinline)) bool forget(void *block)
{
    if (is_lent(block))
        return true;
    ep_memory_forget(block);
    return false;
}

HOOK(void, free, (void *block))
{
    if (__builtin_expect(!ep_blocks_may_have(block), true) || !forget(block))
        NEXT(free)(block);
}

/* realloc() of a block that may be followed. */
static __attribute__((noinline)) void *renew(void *old, size_t size)
{
    if (is_lent(old))
        return leave(old, size);
    uint32_t token = ep_blocks_may_have(old) ? ep_blocks_remove(old) : 0;
    struct ep_memory_hidden hidden = ep_memory_hide();
    void *block = NEXT(realloc)(old, size);
    ep_memory_show(hidden);
    if (token && !block && size)
        ep_blocks_restore(old, token);
    else if (token)
        ep_blocks_gone(old, token);
    return block;
}

HOOK(void *, realloc, (void *old, size_t size))
{
    uint64_t stands_for = ep_memory_is_sampled(size);

    void *block = renew(old, size);
    if (block && stands_for)
        ep_memory_record(block, size, stands_for);
    return block;
}

HOOK(int, posix_memalign, (void **block, size_t alignment, size_t size))
{
    uint64_t stands_for = ep_memory_is_sampled(size);

    struct ep_memory_hidden hidden = ep_memory_hide();
    int error = NEXT(posix_memalign)(block, alignment, size);
    ep_memory_show(hidden);
    if (stands_for && !error && *block)
        ep_memory_record(*block, size, stands_for);
    return error;
}

/* The ones that take no block and return one; size is the block's. */
#define BLOCK_HOOK(name, arguments, passed)                                                                            \
    HOOK(void *, name, arguments)                                                                                      \
    {                                                                                                                  \
        uint64_t stands_for = ep_memory_is_sampled(size);                                                              \
        struct ep_memory_hidden hidden = ep_memory_hide();                                                             \
        void *block = NEXT(name) passed;                                                                               \
                                                                                                                       \
        ep_memory_show(hidden);                                                                                        \
        if (stands_for && block)                                                                                       \
            ep_memory_record(block, size, stands_for);                                                                 \
        return block;                                                                                                  \
    }

/* clang-format off: it takes these for calls */
BLOCK_HOOK(aligned_alloc, (size_t alignment, size_t size), (alignment, size))
BLOCK_HOOK(memalign, (size_t alignment, size_t size), (alignment, size))
BLOCK_HOOK(valloc, (size_t size), (size))
BLOCK_HOOK(pvalloc, (size_t size), (size))
/* clang-format on */

/* MAP_FIXED may take the place of other mappings, as MREMAP_FIXED. */
#define MAP_HOOK(name, offset_type)                                                                                    \
    HOOK(void *, name, (void *at, size_t size, int protection, int flags, int file, offset_type offset))               \
    {                                                                                                                  \
        void *start = NEXT(name)(at, size, protection, flags, file, offset);                                           \
                                                                                                                       \
        if (start == MAP_FAILED)                                                                                       \
            return start;                                                                                              \
        if (flags & MAP_FIXED)                                                                                         \
            ep_blocks_unmapped(start, size);                                                                           \
        if (!ep_memory_counts(protection, flags) || is_inside((uintptr_t)__builtin_return_address(0)))                 \
            return start;                                                                                              \
        uint64_t stands_for = ep_memory_is_sampled(size);                                                              \
        if (stands_for)                                                                                                \
            ep_memory_record_mapping(start, size, stands_for);                                                         \
        return start;                                                                                                  \
    }

/* clang-format off */
MAP_HOOK(mmap, long)
MAP_HOOK(mmap64, int64_t)
/* clang-format on */

/* As soon as it is unmapped, another thread may get the address. */
HOOK(int, munmap, (void *start, size_t size))
{
    ep_blocks_unmapped(start, size);
    return NEXT(munmap)(start, size);
}

/* As realloc(). */
static __attribute__((noinline)) uint64_t moved(void *old, size_t old_size, uint32_t token, void *start, size_t size)
{
    if (start == MAP_FAILED) {
        if (token)
            ep_blocks_restore(old, token);
        return 0;
    }
    if (token)
        ep_blocks_gone(old, token);
    else if (start != old)
        ep_blocks_unmapped(old, old_size);
    return token || ep_memory_mapping_counts(start, size) ? ep_memory_is_sampled(size) : 0;
}

HOOK(void *, mremap, (void *old, size_t old_size, size_t size, int flags, ...))
{
    va_list more;

    va_start(more, flags);
    void *wanted = flags & MREMAP_FIXED ? va_arg(more, void *) : NULL;
    va_end(more);
    uint32_t token = ep_blocks_may_have(old) ? ep_blocks_remove(old) : 0;
    void *start = NEXT(mremap)(old, old_size, size, flags, wanted);
    if (start != MAP_FAILED && flags & MREMAP_FIXED)
        ep_blocks_unmapped(start, size);
    uint64_t stands_for = moved(old, old_size, token, start, size);
    if (stands_for)
        ep_memory_record_mapping(start, size, stands_for);
    return start;
}

#endif
