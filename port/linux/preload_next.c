/*
 * The memory hooks of a program with shared libraries: malloc() and the like of the program and of all of its libraries
 * come here, since the definitions of a preload library, or of the program itself, precede the C library's. The linker
 * gives ep_memory_X the name X (preload_next.opt); a program that is linked without these options does not contain
 * this.
 *
 * The next library's functions are found at the first call, which may come from the dynamic linker. While dlsym()
 * looks, its own allocations come from a small arena.
 */
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdalign.h>
#include <stdarg.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "memory.h"

#define ARENA_BYTES 8192u
#define MMAP2_UNIT  4096

/* clang-format off */
#define HOOK(result, name, arguments) \
    __attribute__((visibility("default"), hot)) result ep_memory_##name arguments; \
    result ep_memory_##name arguments
/* clang-format on */

/* ---- the arena, for allocations of dlsym() ---- */

static alignas(16) char arena[ARENA_BYTES];
static atomic_size_t arena_used;

static bool in_arena(const void *block)
{
    return (uintptr_t)block - (uintptr_t)arena < sizeof arena;
}

/* A power of two above 16 is not needed here: NULL. */
static void *arena_take(size_t alignment, size_t size)
{
    if (alignment > 16 || size > sizeof arena)
        return NULL;
    size_t at = atomic_fetch_add(&arena_used, (size + 15) & ~(size_t)15);
    if (at > sizeof arena - size)
        return NULL;
    ep_blocks_mark(arena + at);
    return arena + at;
}

/* ---- the next library ---- */

static void *boot_malloc(size_t size);
static void *boot_calloc(size_t count, size_t size);
static void *boot_realloc(void *old, size_t size);
static void boot_free(void *block);
static int boot_posix_memalign(void **block, size_t alignment, size_t size);
static void *boot_aligned_alloc(size_t alignment, size_t size);
static void *boot_memalign(size_t alignment, size_t size);
static void *boot_valloc(size_t size);
static void *boot_pvalloc(size_t size);
static void *boot_mmap(void *at, size_t size, int protection, int flags, int file, long offset);
static void *boot_mmap64(void *at, size_t size, int protection, int flags, int file, int64_t offset);
static int boot_munmap(void *start, size_t size);
static void *boot_mremap(void *old, size_t old_size, size_t size, int flags, ...);

/* Written once. A function that the next libraries do not have keeps its first value. */
static struct {
    void *(*_Atomic malloc)(size_t);
    void *(*_Atomic calloc)(size_t, size_t);
    void *(*_Atomic realloc)(void *, size_t);
    void (*_Atomic free)(void *);
    int (*_Atomic posix_memalign)(void **, size_t, size_t);
    void *(*_Atomic aligned_alloc)(size_t, size_t);
    void *(*_Atomic memalign)(size_t, size_t);
    void *(*_Atomic valloc)(size_t);
    void *(*_Atomic pvalloc)(size_t);
    void *(*_Atomic mmap)(void *, size_t, int, int, int, long);
    void *(*_Atomic mmap64)(void *, size_t, int, int, int, int64_t);
    int (*_Atomic munmap)(void *, size_t);
    void *(*_Atomic mremap)(void *, size_t, size_t, int, ...);
} next = {.malloc = boot_malloc,
          .calloc = boot_calloc,
          .realloc = boot_realloc,
          .free = boot_free,
          .posix_memalign = boot_posix_memalign,
          .aligned_alloc = boot_aligned_alloc,
          .memalign = boot_memalign,
          .valloc = boot_valloc,
          .pvalloc = boot_pvalloc,
          .mmap = boot_mmap,
          .mmap64 = boot_mmap64,
          .munmap = boot_munmap,
          .mremap = boot_mremap};

#define NEXT(name) atomic_load_explicit(&next.name, memory_order_relaxed)

/* Where the allocator's code and data are. */
static uintptr_t allocator_start, allocator_end;

static int note_allocator(struct dl_phdr_info *library, size_t size, void *address)
{
    uintptr_t start = UINTPTR_MAX, end = 0;

    (void)size;
    for (unsigned i = 0; i < library->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &library->dlpi_phdr[i];
        uintptr_t at = library->dlpi_addr + part->p_vaddr;
        if (part->p_type != PT_LOAD)
            continue;
        start = at < start ? at : start;
        end = at + part->p_memsz > end ? at + part->p_memsz : end;
    }
    if ((uintptr_t)address < start || (uintptr_t)address >= end)
        return 0;
    allocator_start = start;
    allocator_end = end;
    return 1;
}

static void find(void *to, const char *name)
{
    void *symbol = dlsym(RTLD_NEXT, name);

    if (symbol)
        memcpy(to, &symbol, sizeof symbol);
}

/* False: not yet, because this is a call of dlsym(), or another thread looks. */
static bool next_found(void)
{
    enum { NONE, LOOKING, FOUND };
    static atomic_int state;
    int none = NONE;

    if (!atomic_compare_exchange_strong(&state, &none, LOOKING))
        return none == FOUND;
    find(&next.malloc, "malloc");
    find(&next.calloc, "calloc");
    find(&next.realloc, "realloc");
    find(&next.free, "free");
    find(&next.posix_memalign, "posix_memalign");
    find(&next.aligned_alloc, "aligned_alloc");
    find(&next.memalign, "memalign");
    find(&next.valloc, "valloc");
    find(&next.pvalloc, "pvalloc");
    find(&next.mmap, "mmap");
    find(&next.mmap64, "mmap64");
    find(&next.munmap, "munmap");
    find(&next.mremap, "mremap");
    void *(*allocator)(size_t) = NEXT(malloc);
    void *address;
    memcpy(&address, &allocator, sizeof address);
    (void)dl_iterate_phdr(note_allocator, address);
    atomic_store(&state, FOUND);
    return true;
}

static void *boot_malloc(size_t size)
{
    return next_found() ? NEXT(malloc)(size) : arena_take(1, size);
}

static void *boot_calloc(size_t count, size_t size)
{
    if (next_found())
        return NEXT(calloc)(count, size);
    return size && count > sizeof arena / size ? NULL : arena_take(1, count * size);
}

static void *boot_realloc(void *old, size_t size)
{
    if (next_found())
        return NEXT(realloc)(old, size);
    return old ? NULL : arena_take(1, size);
}

static void boot_free(void *block)
{
    if (next_found())
        NEXT(free)(block);
}

static int boot_posix_memalign(void **block, size_t alignment, size_t size)
{
    if (next_found() && NEXT(posix_memalign) != boot_posix_memalign)
        return NEXT(posix_memalign)(block, alignment, size);
    return ENOMEM;
}

static void *refuse(void)
{
    errno = ENOMEM;
    return NULL;
}

static void *boot_aligned_alloc(size_t alignment, size_t size)
{
    bool found = next_found() && NEXT(aligned_alloc) != boot_aligned_alloc;

    return found ? NEXT(aligned_alloc)(alignment, size) : refuse();
}

static void *boot_memalign(size_t alignment, size_t size)
{
    return next_found() && NEXT(memalign) != boot_memalign ? NEXT(memalign)(alignment, size) : refuse();
}

static void *boot_valloc(size_t size)
{
    return next_found() && NEXT(valloc) != boot_valloc ? NEXT(valloc)(size) : refuse();
}

static void *boot_pvalloc(size_t size)
{
    return next_found() && NEXT(pvalloc) != boot_pvalloc ? NEXT(pvalloc)(size) : refuse();
}

static void *address_of(long result)
{
    uintptr_t bits = (uintptr_t)result;
    void *address;

    memcpy(&address, &bits, sizeof address);
    return address;
}

/* The kernel's own, where the C library cannot be asked yet. */
static void *boot_mmap64(void *at, size_t size, int protection, int flags, int file, int64_t offset)
{
    if (next_found() && NEXT(mmap64) != boot_mmap64)
        return NEXT(mmap64)(at, size, protection, flags, file, offset);
#ifdef SYS_mmap2
    return address_of(syscall(SYS_mmap2, at, size, protection, flags, file, (long)(offset / MMAP2_UNIT)));
#else
    return address_of(syscall(SYS_mmap, at, size, protection, flags, file, offset));
#endif
}

static void *boot_mmap(void *at, size_t size, int protection, int flags, int file, long offset)
{
    if (next_found() && NEXT(mmap) != boot_mmap)
        return NEXT(mmap)(at, size, protection, flags, file, offset);
    return boot_mmap64(at, size, protection, flags, file, offset);
}

static int boot_munmap(void *start, size_t size)
{
    if (next_found() && NEXT(munmap) != boot_munmap)
        return NEXT(munmap)(start, size);
    return (int)syscall(SYS_munmap, start, size);
}

static void *boot_mremap(void *old, size_t old_size, size_t size, int flags, ...)
{
    va_list more;

    va_start(more, flags);
    void *wanted = flags & MREMAP_FIXED ? va_arg(more, void *) : NULL;
    va_end(more);
    if (next_found() && NEXT(mremap) != boot_mremap)
        return NEXT(mremap)(old, old_size, size, flags, wanted);
    return address_of(syscall(SYS_mremap, old, old_size, size, flags, wanted));
}

/* ---- what the hooks' bodies need ---- */

static bool is_lent(const void *block)
{
    return in_arena(block);
}

static void *leave(const char *old, size_t size)
{
    size_t rest = sizeof arena - (size_t)(old - arena);
    void *block = NEXT(malloc)(size);

    if (block)
        memcpy(block, old, size < rest ? size : rest);
    return block;
}

/* An allocator that takes memory by mmap() must not count twice. */
static bool is_inside(uintptr_t caller)
{
    return caller >= allocator_start && caller < allocator_end;
}

/* ---- blocks that a function frees that is not hooked, as of a library that was opened with RTLD_DEEPBIND ----
 *
 * An allocator that returns the address of a followed block has proved that the block was freed. After a sample the
 * next new blocks are looked up; once one is such an address, all of them. */

#define CHECKS 16

static struct {
    void *(*_Atomic malloc)(size_t);
    void *(*_Atomic calloc)(size_t, size_t);
    void *(*_Atomic realloc)(void *, size_t);
} bare;
static atomic_int checks;
static atomic_bool checks_all;

static void checks_end(void)
{
    atomic_store_explicit(&next.malloc, bare.malloc, memory_order_relaxed);
    atomic_store_explicit(&next.calloc, bare.calloc, memory_order_relaxed);
    atomic_store_explicit(&next.realloc, bare.realloc, memory_order_relaxed);
}

static void *check(void *block)
{
    if (block && ep_blocks_may_have(block) && !in_arena(block)) {
        uint32_t token = ep_blocks_remove(block);
        if (token) {
            ep_blocks_gone(block, token);
            atomic_store_explicit(&checks_all, true, memory_order_relaxed);
        }
    }
    if (!atomic_load_explicit(&checks_all, memory_order_relaxed) && atomic_fetch_sub(&checks, 1) == 0)
        checks_end();
    return block;
}

static void *checked_malloc(size_t size)
{
    return check(bare.malloc(size));
}

static void *checked_calloc(size_t count, size_t size)
{
    return check(bare.calloc(count, size));
}

static void *checked_realloc(void *old, size_t size)
{
    return check(bare.realloc(old, size));
}

static void checks_begin(void)
{
    atomic_store(&checks, CHECKS);
    atomic_store_explicit(&next.malloc, checked_malloc, memory_order_release);
    atomic_store_explicit(&next.calloc, checked_calloc, memory_order_release);
    atomic_store_explicit(&next.realloc, checked_realloc, memory_order_release);
}

/* Before there is a second thread. */
__attribute__((constructor(101))) static void checks_prepare(void)
{
    if (!next_found())
        return;
    bare.realloc = NEXT(realloc);
    bare.calloc = NEXT(calloc);
    bare.malloc = NEXT(malloc);
    ep_blocks_added = checks_begin;
}

bool ep_memory_is_of_allocator(const void *function)
{
    (void)next_found();
    return is_inside((uintptr_t)function);
}

#include "memory_hooks.h"
