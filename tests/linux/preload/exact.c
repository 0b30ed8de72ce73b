/*
 * A preload library in front of edgeprof's that counts exactly what each function has in use, by the return address of
 * malloc() and the like. At the end of the process it writes lines "live SITE BYTES" to the file $EXACT. A site is the
 * function's name or, if it has none, module+0xaddress of its beginning.
 */
#include "../../program.h"

#include <link.h>
#include <stdalign.h>

#define BLOCKS (1u << 22)
#define SITES  (1u << 14)
#define GONE   1u

struct block {
    uintptr_t address; /* 0: never used; GONE: free */
    uint32_t size, site;
};
struct site {
    uintptr_t caller;
    int64_t bytes;
};
static struct block block_at[BLOCKS];
static struct site site_at[SITES];
static atomic_flag lock = ATOMIC_FLAG_INIT;
static alignas(16) char arena[65536];
static atomic_size_t arena_used;
static pid_t owner;

static void take_lock(void)
{
    while (atomic_flag_test_and_set_explicit(&lock, memory_order_acquire))
        ;
}

static void leave_lock(void)
{
    atomic_flag_clear_explicit(&lock, memory_order_release);
}

static uint32_t hash(uintptr_t key, uint32_t size)
{
    return (uint32_t)((uint64_t)key * UINT64_C(0x9e3779b97f4a7c15) >> 36) & (size - 1);
}

static uint32_t site_of(uintptr_t caller)
{
    uint32_t i = hash(caller, SITES);

    while (site_at[i].caller && site_at[i].caller != caller)
        i = (i + 1) & (SITES - 1);
    site_at[i].caller = caller;
    return i;
}

static void *born(void *address, size_t size, uintptr_t caller)
{
    uint32_t i = hash((uintptr_t)address, BLOCKS);

    if (!address)
        return NULL;
    take_lock();
    while (block_at[i].address > GONE)
        i = (i + 1) & (BLOCKS - 1);
    block_at[i] = (struct block){(uintptr_t)address, (uint32_t)size, site_of(caller)};
    site_at[block_at[i].site].bytes += (int64_t)size;
    leave_lock();
    return address;
}

static void died(const void *address)
{
    uint32_t i = hash((uintptr_t)address, BLOCKS);

    if (!address)
        return;
    take_lock();
    while (block_at[i].address && block_at[i].address != (uintptr_t)address)
        i = (i + 1) & (BLOCKS - 1);
    if (block_at[i].address) {
        block_at[i].address = GONE;
        site_at[block_at[i].site].bytes -= block_at[i].size;
    }
    leave_lock();
}

static void *next_of(const char *name)
{
    void *symbol = dlsym(RTLD_NEXT, name);

    if (!symbol)
        _Exit(97);
    return symbol;
}

/* clang-format off */
#define NEXT(name, type) \
    static __typeof__(type) *next; \
    static _Thread_local bool looking; \
    if (!next && !looking) { \
        looking = true; \
        void *symbol = next_of(name); \
        memcpy(&next, &symbol, sizeof next); \
        looking = false; \
    }
/* clang-format on */
#define CALLER ((uintptr_t)__builtin_return_address(0))

static bool in_arena(const void *address)
{
    return (uintptr_t)address - (uintptr_t)arena < sizeof arena;
}

static void *from_arena(size_t size)
{
    return arena + atomic_fetch_add(&arena_used, (size + 15) & ~(size_t)15);
}

void *malloc(size_t size)
{
    NEXT("malloc", void *(size_t));
    return next ? born(next(size), size, CALLER) : from_arena(size);
}

void *calloc(size_t count, size_t size)
{
    NEXT("calloc", void *(size_t, size_t));
    return next ? born(next(count, size), count * size, CALLER) : from_arena(count * size);
}

void free(void *address)
{
    NEXT("free", void(void *));
    if (in_arena(address) || !next)
        return;
    died(address);
    next(address);
}

void *realloc(void *address, size_t size)
{
    NEXT("realloc", void *(void *, size_t));
    if (in_arena(address))
        return memcpy(malloc(size), address, size);
    died(address);
    return born(next(address, size), size, CALLER);
}

int posix_memalign(void **address, size_t alignment, size_t size)
{
    NEXT("posix_memalign", int(void **, size_t, size_t));
    int error = next(address, alignment, size);
    if (!error)
        born(*address, size, CALLER);
    return error;
}

void *aligned_alloc(size_t alignment, size_t size)
{
    NEXT("aligned_alloc", void *(size_t, size_t));
    return born(next(alignment, size), size, CALLER);
}

/* Of libgcc: the unwind table's entry of an address, and where its function begins. */
struct bases {
    void *text, *data, *function;
};
const void *_Unwind_Find_FDE(void *address, struct bases *bases);

static void write_site(FILE *file, const struct site *site)
{
    struct bases bases = {0};
    uintptr_t at = site->caller - 1;
    Dl_info info = {0};
    void *call;

    memcpy(&call, &at, sizeof call);
    if (!site->bytes || !dladdr(call, &info))
        return;
    if (info.dli_sname) {
        fprintf(file, "live %s %lld\n", info.dli_sname, (long long)site->bytes);
        return;
    }
    const ElfW(Ehdr) *head = info.dli_fbase;
    uintptr_t start = _Unwind_Find_FDE(call, &bases) ? (uintptr_t)bases.function : at;
    if (head->e_type == ET_DYN)
        start -= (uintptr_t)head;
    const char *name = strrchr(info.dli_fname, '/');
    fprintf(file, "live %s+0x%llx %lld\n", name ? name + 1 : info.dli_fname, (unsigned long long)start,
            (long long)site->bytes);
}

static void write_all(void)
{
    static struct site copy[SITES];
    const char *path = getenv("EXACT");
    FILE *file = path && getpid() == owner ? fopen(path, "we") : NULL;

    if (!file)
        return;
    take_lock();
    memcpy(copy, site_at, sizeof copy);
    leave_lock();
    for (uint32_t i = 0; i < SITES; i++)
        write_site(file, &copy[i]);
    fclose(file);
}

__attribute__((constructor)) static void begin(void)
{
    owner = getpid();
}

__attribute__((destructor)) static void end(void)
{
    write_all();
}

void _exit(int status)
{
    NEXT("_exit", void(int));
    write_all();
    next(status);
    __builtin_unreachable();
}
