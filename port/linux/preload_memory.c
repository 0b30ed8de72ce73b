/*
 * Memory that a program allocates in the C library or in another allocator with the same functions. Only the preload
 * library with memory hooks contains this file; the other one leaves malloc() alone.
 *
 *   malloc -> is_sampled -> look -> ep_stratum_advance
 *          -> the next library's malloc
 *          -> record -> ep_live_take, ep_blocks_add, ep_hook_event
 *   free   -> ep_blocks_may_have -> forget -> ep_blocks_remove, ep_blocks_gone
 *          -> the next library's free
 *
 * A thread counts bytes down to the next one at which its stratum (core/data/stratum.c) has something to do. Until then
 * a call costs a subtraction, and it jumps to the next library's function without a frame of its own. realloc() is a
 * free and an allocation, so that the part of all blocks that is sampled does not depend on how they grew.
 *
 * The next library's functions are found at the first call, which may come from the dynamic linker. While dlsym()
 * looks, its own allocations come from a small arena. Nothing here calls an allocator for itself.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdalign.h>
#include <string.h>

#include "core/hooks.h"
#include "linux.h"
#include "preload.h"
#include "preload_blocks.h"

/* A thread looks again after so many bytes whether allocations are measured. */
#define PAUSE_BYTES 65536u
#define ARENA_BYTES 8192u
#define MEMORY      (EP_KIND_BIT(EP_KIND_ALLOC) | EP_KIND_BIT(EP_KIND_LIVE))

/* clang-format off */
/* Defines an interposed function. The assembler name is set explicitly, so that the compiler assumes nothing. */
#define HOOK(result, name, arguments) \
    __attribute__((visibility("default"), hot)) result ep_memory_##name arguments __asm__(#name); \
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
} next = {boot_malloc,        boot_calloc,   boot_realloc, boot_free,   boot_posix_memalign,
          boot_aligned_alloc, boot_memalign, boot_valloc,  boot_pvalloc};

#define NEXT_OF(name) atomic_load_explicit(&next.name, memory_order_relaxed)

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
    atomic_store(&state, FOUND);
    return true;
}

static void *boot_malloc(size_t size)
{
    return next_found() ? NEXT_OF(malloc)(size) : arena_take(1, size);
}

static void *boot_calloc(size_t count, size_t size)
{
    if (next_found())
        return NEXT_OF(calloc)(count, size);
    return size && count > sizeof arena / size ? NULL : arena_take(1, count * size);
}

static void *boot_realloc(void *old, size_t size)
{
    if (next_found())
        return NEXT_OF(realloc)(old, size);
    return old ? NULL : arena_take(1, size);
}

static void boot_free(void *block)
{
    if (next_found())
        NEXT_OF(free)(block);
}

static int boot_posix_memalign(void **block, size_t alignment, size_t size)
{
    if (next_found() && NEXT_OF(posix_memalign) != boot_posix_memalign)
        return NEXT_OF(posix_memalign)(block, alignment, size);
    return ENOMEM;
}

static void *refuse(void)
{
    errno = ENOMEM;
    return NULL;
}

static void *boot_aligned_alloc(size_t alignment, size_t size)
{
    bool found = next_found() && NEXT_OF(aligned_alloc) != boot_aligned_alloc;

    return found ? NEXT_OF(aligned_alloc)(alignment, size) : refuse();
}

static void *boot_memalign(size_t alignment, size_t size)
{
    return next_found() && NEXT_OF(memalign) != boot_memalign ? NEXT_OF(memalign)(alignment, size) : refuse();
}

static void *boot_valloc(size_t size)
{
    return next_found() && NEXT_OF(valloc) != boot_valloc ? NEXT_OF(valloc)(size) : refuse();
}

static void *boot_pvalloc(size_t size)
{
    return next_found() && NEXT_OF(pvalloc) != boot_pvalloc ? NEXT_OF(pvalloc)(size) : refuse();
}

/* ---- which allocations are sampled ---- */

/* left: bytes until look() must be called; of `granted` ones, by which the stratum is behind. */
struct watcher {
    size_t left, granted;
    bool busy;
    struct ep_stratum stratum;
};
static _Thread_local __attribute__((tls_model("initial-exec"))) struct watcher mine;

static bool memory_is_wanted(void)
{
    return (atomic_load_explicit(&ep_hook_kinds, memory_order_relaxed) & MEMORY) != 0 && !ep_linux_here_is_own();
}

/* An allocation of less than this changes nothing but the stratum's position. */
static size_t bytes_granted(const struct ep_stratum *stratum)
{
    bool ahead = stratum->chosen >= stratum->position;

    return (size_t)(ahead ? stratum->chosen - stratum->position + 1 : stratum->length - stratum->position);
}

static uint64_t advance(struct watcher *me, size_t size)
{
    me->stratum.position += me->granted ? me->granted - me->left : 0;
    if (!memory_is_wanted()) {
        me->left = PAUSE_BYTES;
        me->granted = 0;
        return 0;
    }
    uint64_t stands_for = ep_stratum_advance(&me->stratum, size, ep_hook_period(EP_KIND_ALLOC));
    me->left = me->granted = bytes_granted(&me->stratum);
    return stands_for;
}

/* A handler of the program that allocates in the middle of this has no sample. */
static __attribute__((noinline)) uint64_t look(size_t size)
{
    struct watcher *me = &mine;

    if (me->busy)
        return 0;
    me->busy = true;
    atomic_signal_fence(memory_order_seq_cst);
    uint64_t stands_for = advance(me, size);
    atomic_signal_fence(memory_order_seq_cst);
    me->busy = false;
    return stands_for;
}

/* The bytes that an allocation of `size` stands for; 0: it is no sample. */
static inline uint64_t is_sampled(size_t size)
{
    if (__builtin_expect(size < mine.left, true)) {
        mine.left -= size;
        return 0;
    }
    return look(size);
}

/* .skip omits this function's frame and that of the hook, which must be its caller. */
static __attribute__((noinline)) void record(void *block, size_t size, uint64_t stands_for)
{
    struct watcher *me = &mine;
    struct ep_hook_event event = {.kind = EP_KIND_ALLOC, .value = stands_for, .skip = 2};

    me->busy = true;
    atomic_signal_fence(memory_order_seq_cst);
    event.count = ep_stratum_count(&me->stratum, stands_for, size);
    event.token = ep_live_take();
    if (event.token && !ep_blocks_add(block, event.token)) {
        ep_live_drop(event.token);
        event.token = 0;
    }
    if (ep_hook_event(&event) < 0 && event.token) {
        if (ep_blocks_remove(block))
            ep_blocks_gone(block, event.token);
        ep_live_drop(event.token);
    }
    atomic_signal_fence(memory_order_seq_cst);
    me->busy = false;
}

/* ---- the hooks ---- */

HOOK(void *, malloc, (size_t size))
{
    uint64_t stands_for = is_sampled(size);

    if (__builtin_expect(stands_for == 0, true))
        return NEXT_OF(malloc)(size);
    void *block = NEXT_OF(malloc)(size);
    if (block)
        record(block, size, stands_for);
    return block;
}

HOOK(void *, calloc, (size_t count, size_t size))
{
    size_t bytes;
    uint64_t stands_for = __builtin_mul_overflow(count, size, &bytes) ? 0 : is_sampled(bytes);

    if (__builtin_expect(stands_for == 0, true))
        return NEXT_OF(calloc)(count, size);
    void *block = NEXT_OF(calloc)(count, size);
    if (block)
        record(block, bytes, stands_for);
    return block;
}

/* True if the block is the arena's, which is never freed. */
static __attribute__((noinline)) bool forget(void *block)
{
    if (in_arena(block))
        return true;
    uint32_t token = ep_blocks_remove(block);
    if (token)
        ep_blocks_gone(block, token);
    return false;
}

/* The address is forgotten first: as soon as the block is free, another thread may get the address. */
HOOK(void, free, (void *block))
{
    if (__builtin_expect(!ep_blocks_may_have(block), true) || !forget(block))
        NEXT_OF(free)(block);
}

static void *leave_arena(const char *old, size_t size)
{
    size_t rest = sizeof arena - (size_t)(old - arena);
    void *block = NEXT_OF(malloc)(size);

    if (block)
        memcpy(block, old, size < rest ? size : rest);
    return block;
}

/* realloc() of a block that may be followed. */
static __attribute__((noinline)) void *renew(void *old, size_t size)
{
    if (in_arena(old))
        return leave_arena(old, size);
    uint32_t token = ep_blocks_may_have(old) ? ep_blocks_remove(old) : 0;
    void *block = NEXT_OF(realloc)(old, size);
    if (token && !block && size)
        ep_blocks_restore(old, token);
    else if (token)
        ep_blocks_gone(old, token);
    return block;
}

HOOK(void *, realloc, (void *old, size_t size))
{
    uint64_t stands_for = is_sampled(size);

    if (__builtin_expect(stands_for == 0 && !ep_blocks_may_have(old), true))
        return NEXT_OF(realloc)(old, size);
    void *block = renew(old, size);
    if (block && stands_for)
        record(block, size, stands_for);
    return block;
}

HOOK(int, posix_memalign, (void **block, size_t alignment, size_t size))
{
    uint64_t stands_for = is_sampled(size);

    if (__builtin_expect(stands_for == 0, true))
        return NEXT_OF(posix_memalign)(block, alignment, size);
    int error = NEXT_OF(posix_memalign)(block, alignment, size);
    if (!error && *block)
        record(*block, size, stands_for);
    return error;
}

/* The ones that take no block and return one; size is the block's. */
#define BLOCK_HOOK(name, arguments, passed)                                                                            \
    HOOK(void *, name, arguments)                                                                                      \
    {                                                                                                                  \
        uint64_t stands_for = is_sampled(size);                                                                        \
                                                                                                                       \
        if (__builtin_expect(stands_for == 0, true))                                                                   \
            return NEXT_OF(name) passed;                                                                               \
        void *block = NEXT_OF(name) passed;                                                                            \
        if (block)                                                                                                     \
            record(block, size, stands_for);                                                                           \
        return block;                                                                                                  \
    }

/* clang-format off: it takes these for calls */
BLOCK_HOOK(aligned_alloc, (size_t alignment, size_t size), (alignment, size))
BLOCK_HOOK(memalign, (size_t alignment, size_t size), (alignment, size))
BLOCK_HOOK(valloc, (size_t size), (size))
BLOCK_HOOK(pvalloc, (size_t size), (size))
/* clang-format on */

/* Before preload.c's constructor starts the profiler. Stacks of allocations are more than those of CPU samples, and the
 * live heap's must stay in the tree. */
__attribute__((constructor(101))) static void memory_begin(void)
{
    static uint8_t memory[4 * EP_MEMORY_DEFAULT];

    if (!ep_preload_chosen())
        return;
    ep_preload_more = (struct ep_preload_more){.kinds = MEMORY, .memory = memory, .memory_size = sizeof memory};
    ep_blocks_attach();
}
