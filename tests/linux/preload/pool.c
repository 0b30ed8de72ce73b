/*
 * An allocator as a shared library, as jemalloc and tcmalloc are: its operator new and its mallocx() do not call its
 * malloc(). It never reuses memory.
 */
#include "../../program.h"

#include <stdalign.h>

#define POOL ((size_t)1 << 30)

static void *take(size_t size, size_t alignment)
{
    static _Atomic(char *) start;
    static atomic_size_t used;
    char *pool = atomic_load(&start), *none = NULL;

    if (!pool) {
        pool = mmap(NULL, POOL, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (!atomic_compare_exchange_strong(&start, &none, pool))
            pool = none;
    }
    /* The size is in front, for realloc(). */
    size_t at = atomic_fetch_add(&used, (size + 2 * alignment + 63) & ~(size_t)63);
    uintptr_t block = ((uintptr_t)pool + at + sizeof size + alignment) & ~(alignment - 1);
    memcpy((char *)block - sizeof size, &size, sizeof size);
    return (void *)block;
}

void *malloc(size_t size)
{
    return take(size, 16);
}

void free(void *block)
{
    (void)block;
}

void *calloc(size_t count, size_t size)
{
    return take(count * size, 16);
}

static void *renew(void *old, size_t size)
{
    void *block = take(size, 16);
    size_t before = 0;

    if (old)
        memcpy(&before, (char *)old - sizeof before, sizeof before);
    return old ? memcpy(block, old, before < size ? before : size) : block;
}

void *realloc(void *old, size_t size)
{
    return renew(old, size);
}

int posix_memalign(void **block, size_t alignment, size_t size)
{
    *block = take(size, alignment);
    return 0;
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return take(size, alignment);
}

#ifdef __LP64__
#define SIZE "m"
#else
#define SIZE "j"
#endif
/* clang-format off */
#define FORM(result, name, assembler, arguments, body) \
    result name arguments __asm__(assembler); \
    result name arguments { body; }
#define ALIGN   "St11align_val_t"
#define NOTHROW "RKSt9nothrow_t"
#define BOTH(result, name, before, after, arguments, body) \
    FORM(result, name, before "w" after, arguments, body) \
    FORM(result, name##_array, before "a" after, arguments, body)
#define BOTH_DELETE(name, after, arguments) \
    FORM(void, name, "_ZdlPv" after, arguments, (void)block) \
    FORM(void, name##_array, "_ZdaPv" after, arguments, (void)block)

BOTH(void *, pool_new, "_Zn", SIZE, (size_t size), return take(size, 16))
BOTH(void *, pool_new_nothrow, "_Zn", SIZE NOTHROW, (size_t size, void *tag), (void)tag; return take(size, 16))
BOTH(void *, pool_new_aligned, "_Zn", SIZE ALIGN, (size_t size, size_t alignment), return take(size, alignment))
BOTH(void *, pool_new_both, "_Zn", SIZE ALIGN NOTHROW, (size_t size, size_t alignment, void *tag), (void)tag; return take(size, alignment))
BOTH_DELETE(pool_delete, "", (void *block))
BOTH_DELETE(pool_delete_sized, SIZE, (void *block, size_t size __attribute__((unused))))
BOTH_DELETE(pool_delete_nothrow, NOTHROW, (void *block, void *tag __attribute__((unused))))
BOTH_DELETE(pool_delete_aligned, ALIGN, (void *block, size_t alignment __attribute__((unused))))
BOTH_DELETE(pool_delete_sized_aligned, SIZE ALIGN, (void *block, size_t size __attribute__((unused)), size_t alignment __attribute__((unused))))
BOTH_DELETE(pool_delete_both, ALIGN NOTHROW, (void *block, size_t alignment __attribute__((unused)), void *tag __attribute__((unused))))
FORM(void *, pool_mallocx, "mallocx", (size_t size, int flags), (void)flags; return take(size, 16))
FORM(void *, pool_rallocx, "rallocx", (void *old, size_t size, int flags), (void)flags; return renew(old, size))
FORM(void, pool_dallocx, "dallocx", (void *block, int flags), (void)block; (void)flags)
FORM(void, pool_sdallocx, "sdallocx", (void *block, size_t size, int flags), (void)block; (void)size; (void)flags)
/* clang-format on */
