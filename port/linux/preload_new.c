/*
 * Memory that an allocator gives by functions of its own: C++'s operator new and delete in all forms, and jemalloc's
 * mallocx() and the like. An operator new that calls malloc(), as the C++ library's does, is left alone, since the
 * hook of malloc() sees it. Part of the preload library with memory hooks.
 *
 * An operator new may throw through a hook, so the hooks change nothing that must be put back.
 */
#include <stdlib.h>

#include "memory.h"
#include "preload.h"

#ifdef __LP64__
#define SIZE "m"
#else
#define SIZE "j"
#endif
#define ALIGN   "St11align_val_t"
#define NOTHROW "RKSt9nothrow_t"

struct next {
    _Atomic(void *) function;
    bool measured; /* the allocator does not take the memory by malloc() */
};

/* ---- a program may look whether there is a mallocx() and then call it, without jemalloc ---- */

#define LG_ALIGN_MASK 63
#define ZERO          64

static void *plain_mallocx(size_t size, int flags)
{
    const size_t alignment = (size_t)1 << (flags & LG_ALIGN_MASK);
    void *block = NULL;

    if (alignment <= sizeof(void *))
        return flags & ZERO ? calloc(1, size) : malloc(size);
    if (posix_memalign(&block, alignment, size) != 0)
        return NULL;
    return flags & ZERO ? memset(block, 0, size) : block;
}

static void *plain_rallocx(void *old, size_t size, int flags)
{
    (void)flags;
    return realloc(old, size);
}

static void *plain(const char *name)
{
    if (strcmp(name, "mallocx") == 0)
        return (void *)(uintptr_t)plain_mallocx;
    if (strcmp(name, "rallocx") == 0)
        return (void *)(uintptr_t)plain_rallocx;
    return strcmp(name, "dallocx") == 0 || strcmp(name, "sdallocx") == 0 ? (void *)(uintptr_t)free : NULL;
}

/* ---- the hooks ---- */

/* The function without edgeprof: that of the next libraries, or of a library of the caller's that others do not see.
 * Of C++'s functions there is one, since the caller was linked with it. */
static __attribute__((noinline)) void *find(struct next *next, const char *name, const void *caller)
{
    Dl_info info;
    void *symbol = dlsym(RTLD_NEXT, name);
    void *library = !symbol && dladdr(caller, &info) ? dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD) : NULL;

    if (library) {
        symbol = dlsym(library, name);
        (void)dlclose(library);
    }
    if (!symbol)
        symbol = plain(name);
    if (!symbol)
        abort();
    next->measured = ep_memory_is_of_allocator(symbol);
    atomic_store_explicit(&next->function, symbol, memory_order_release);
    return symbol;
}

/* clang-format off */
#define HOOK(result, name, assembler, arguments) \
    typedef result type_##name arguments; \
    static struct next next_##name; \
    __attribute__((visibility("default"))) result ep_new_##name arguments __asm__(assembler); \
    result ep_new_##name arguments

#define FIND(name, assembler) \
    void *symbol = atomic_load_explicit(&next_##name.function, memory_order_acquire); \
    type_##name *function; \
    if (!symbol) \
        symbol = find(&next_##name, assembler, __builtin_return_address(0)); \
    memcpy(&function, &symbol, sizeof function);

/* size: the bytes of the new block. */
#define TAKING(name, assembler, arguments, passed) \
    HOOK(void *, name, assembler, arguments) \
    { \
        FIND(name, assembler) \
        uint64_t stands_for = next_##name.measured ? ep_memory_is_sampled(size) : 0; \
        if (!stands_for) \
            return function passed; \
        void *block = function passed; \
        if (block) \
            ep_memory_record(block, size, stands_for); \
        return block; \
    }

#define GIVING(name, assembler, arguments, passed) \
    HOOK(void, name, assembler, arguments) \
    { \
        FIND(name, assembler) \
        if (next_##name.measured && ep_blocks_may_have(block)) \
            ep_memory_forget(block); \
        function passed; \
    }

TAKING(new, "_Znw" SIZE, (size_t size), (size))
TAKING(new_array, "_Zna" SIZE, (size_t size), (size))
TAKING(new_nothrow, "_Znw" SIZE NOTHROW, (size_t size, void *tag), (size, tag))
TAKING(new_array_nothrow, "_Zna" SIZE NOTHROW, (size_t size, void *tag), (size, tag))
TAKING(new_aligned, "_Znw" SIZE ALIGN, (size_t size, size_t alignment), (size, alignment))
TAKING(new_array_aligned, "_Zna" SIZE ALIGN, (size_t size, size_t alignment), (size, alignment))
TAKING(new_aligned_nothrow, "_Znw" SIZE ALIGN NOTHROW, (size_t size, size_t alignment, void *tag), (size, alignment, tag))
TAKING(new_array_aligned_nothrow, "_Zna" SIZE ALIGN NOTHROW, (size_t size, size_t alignment, void *tag), (size, alignment, tag))
TAKING(mallocx, "mallocx", (size_t size, int flags), (size, flags))

GIVING(delete, "_ZdlPv", (void *block), (block))
GIVING(delete_array, "_ZdaPv", (void *block), (block))
GIVING(delete_sized, "_ZdlPv" SIZE, (void *block, size_t size), (block, size))
GIVING(delete_array_sized, "_ZdaPv" SIZE, (void *block, size_t size), (block, size))
GIVING(delete_nothrow, "_ZdlPv" NOTHROW, (void *block, void *tag), (block, tag))
GIVING(delete_array_nothrow, "_ZdaPv" NOTHROW, (void *block, void *tag), (block, tag))
GIVING(delete_aligned, "_ZdlPv" ALIGN, (void *block, size_t alignment), (block, alignment))
GIVING(delete_array_aligned, "_ZdaPv" ALIGN, (void *block, size_t alignment), (block, alignment))
GIVING(delete_sized_aligned, "_ZdlPv" SIZE ALIGN, (void *block, size_t size, size_t alignment), (block, size, alignment))
GIVING(delete_array_sized_aligned, "_ZdaPv" SIZE ALIGN, (void *block, size_t size, size_t alignment), (block, size, alignment))
GIVING(delete_aligned_nothrow, "_ZdlPv" ALIGN NOTHROW, (void *block, size_t alignment, void *tag), (block, alignment, tag))
GIVING(delete_array_aligned_nothrow, "_ZdaPv" ALIGN NOTHROW, (void *block, size_t alignment, void *tag), (block, alignment, tag))
GIVING(dallocx, "dallocx", (void *block, int flags), (block, flags))
GIVING(sdallocx, "sdallocx", (void *block, size_t size, int flags), (block, size, flags))
/* clang-format on */

/* As realloc(): the old block is gone if it succeeds. */
HOOK(void *, rallocx, "rallocx", (void *old, size_t size, int flags))
{
    FIND(rallocx, "rallocx")
    uint64_t stands_for = next_rallocx.measured ? ep_memory_is_sampled(size) : 0;
    uint32_t token = next_rallocx.measured && ep_blocks_may_have(old) ? ep_blocks_remove(old) : 0;
    void *block = function(old, size, flags);

    if (token && !block)
        ep_blocks_restore(old, token);
    else if (token)
        ep_blocks_gone(old, token);
    if (block && stands_for)
        ep_memory_record(block, size, stands_for);
    return block;
}
