/*
 * Takes memory in many ways, each in a function of its own, frees half of it, and prints "live SITE BYTES" for each. It
 * is linked with pool.c.
 */
#include "../../program.h"

#ifdef __LP64__
#define SIZE "m"
#else
#define SIZE "j"
#endif
#define ALIGN   "St11align_val_t"
#define NOTHROW "RKSt9nothrow_t"
#define BLOCK   4096u
#define BLOCKS  6000u
#define PART    ((size_t)48 << 20)

static void *kept[BLOCKS];
static char *volatile sink;

/* Every second block is freed; those are not the next ones, so that no address is needed again. */
/* clang-format off */
#define SITE(name, taken, freed) \
    __attribute__((noipa)) static void name(void) \
    { \
        for (unsigned i = 0; i < BLOCKS; i++) { \
            kept[i] = taken; \
            memset(kept[i], 1, BLOCK); \
        } \
        for (unsigned i = 0; i < BLOCKS; i += 2) { \
            void *block = kept[i]; \
            freed; \
        } \
        printf("live " #name " %u\n", BLOCKS / 2 * BLOCK); \
    }
#define NEW(name, assembler, types) void *name types __asm__(assembler);
#define DELETE(name, assembler, types) void name types __asm__(assembler);

NEW(new_one, "_Znw" SIZE, (size_t size))
NEW(new_many, "_Zna" SIZE, (size_t size))
NEW(new_nothrow, "_Znw" SIZE NOTHROW, (size_t size, const void *tag))
NEW(new_aligned, "_Znw" SIZE ALIGN, (size_t size, size_t alignment))
NEW(new_both, "_Zna" SIZE ALIGN NOTHROW, (size_t size, size_t alignment, const void *tag))
NEW(mallocx, "mallocx", (size_t size, int flags))
NEW(rallocx, "rallocx", (void *old, size_t size, int flags))
DELETE(delete_one, "_ZdlPv", (void *block))
DELETE(delete_many_sized, "_ZdaPv" SIZE, (void *block, size_t size))
DELETE(delete_nothrow, "_ZdlPv" NOTHROW, (void *block, const void *tag))
DELETE(delete_sized_aligned, "_ZdlPv" SIZE ALIGN, (void *block, size_t size, size_t alignment))
DELETE(delete_both, "_ZdaPv" ALIGN NOTHROW, (void *block, size_t alignment, const void *tag))
DELETE(sdallocx, "sdallocx", (void *block, size_t size, int flags))
DELETE(dallocx, "dallocx", (void *block, int flags))
static const char tag[1];
static char text[BLOCK];

SITE(by_new, new_one(BLOCK), delete_one(block))
SITE(by_new_array, new_many(BLOCK), delete_many_sized(block, BLOCK))
SITE(by_new_nothrow, new_nothrow(BLOCK, tag), delete_nothrow(block, tag))
SITE(by_new_aligned, new_aligned(BLOCK, 64), delete_sized_aligned(block, BLOCK, 64))
SITE(by_new_both, new_both(BLOCK, 64, tag), delete_both(block, 64, tag))
SITE(by_mallocx, mallocx(BLOCK, 0), sdallocx(block, BLOCK, 0))
SITE(by_rallocx, rallocx(mallocx(16, 0), BLOCK, 0), dallocx(block, 0))
SITE(by_malloc, malloc(BLOCK), free(block))
SITE(by_strdup, strdup(text), free(block))
SITE(by_aligned_alloc, aligned_alloc(64, BLOCK), free(block))
SITE(by_reallocarray, reallocarray(NULL, BLOCK / 16, 16), free(block))
/* clang-format on */

static char *map(size_t size)
{
    return mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

/* From 64 KiB, which no sample stands for, in steps. */
__attribute__((noipa)) static void by_growth(void)
{
    size_t size = 65536;
    char *table = map(size);

    for (; size < PART; size += size)
        table = mremap(table, size, 2 * size, MREMAP_MAYMOVE);
    sink = table;
    printf("live by_growth %zu\n", size);
}

/* From the front, the end, and the middle. */
__attribute__((noipa)) static void by_parts(void)
{
    char *start = map(2 * PART);

    (void)munmap(start, PART / 4);
    (void)munmap(start + 2 * PART - PART / 2, PART / 2);
    (void)munmap(start + PART / 2, PART / 4);
    sink = start;
    printf("live by_parts %zu\n", PART);
}

__attribute__((noipa)) static void by_shrink(void)
{
    char *start = mremap(map(2 * PART), 2 * PART, PART, 0);

    sink = start;
    printf("live by_shrink %zu\n", PART);
}

/* The second mapping takes the place of the middle of the first. */
__attribute__((noipa)) static void by_fixed(void)
{
    char *start = map(2 * PART);

    (void)mmap(start + PART / 2, PART, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    sink = start;
    printf("live by_fixed %zu\n", PART);
}

int main(void)
{
    by_new();
    by_new_array();
    by_new_nothrow();
    by_new_aligned();
    by_new_both();
    by_mallocx();
    by_rallocx();
    by_malloc();
    memset(text, 'x', sizeof text - 1);
    by_strdup();
    by_aligned_alloc();
    by_reallocarray();
    by_growth();
    by_parts();
    by_shrink();
    by_fixed();
    return 0;
}
