/*
 * What the memory hooks add to a call that is no sample: malloc() and free() by their names, which the preload library
 * interposes or, with -DLINKED, the linker redirects, against the C library's own functions, in short rounds that take
 * turns. Prints "malloc NANOSECONDS" and "free NANOSECONDS", the medians of the rounds' differences. The blocks come
 * from the thread's cache of the C library, and half of a mebibyte of other blocks is in use. Usage: memory_hook ROUNDS
 */
#include "../../program.h"

#define CALLS       6u /* fewer than the C library's cache of a size */
#define SIZES       32u
#define KEPT        4096u
#define ROUNDS_MOST 100000u

/* The functions of these names as the program sees them, and the C library's. */
struct allocator {
    void *(*malloc)(size_t size);
    void (*free)(void *block);
};

enum { MALLOC, FREE, MEASURED };

static void *block[SIZES * CALLS];

/* Adds the time of each to *malloc_ns and *free_ns. */
static void call_all(const struct allocator *allocator, double ns[MEASURED])
{
    uint64_t start = now_ns();

    for (unsigned i = 0; i < SIZES * CALLS; i++)
        block[i] = allocator->malloc(16 + i % SIZES * 24);
    uint64_t between = now_ns();
    for (unsigned i = 0; i < SIZES * CALLS; i++)
        allocator->free(block[i]);
    uint64_t end = now_ns();
    ns[MALLOC] = (double)(between - start) / (SIZES * CALLS);
    ns[FREE] = (double)(end - between) / (SIZES * CALLS);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

#ifdef LINKED
static bool find_hooked(struct allocator *allocator)
{
    allocator->malloc = malloc;
    allocator->free = free;
    return true;
}
#endif

static bool find(struct allocator *allocator, void *library)
{
    void *one = dlsym(library, "malloc"), *other = dlsym(library, "free");

    memcpy(&allocator->malloc, &one, sizeof one);
    memcpy(&allocator->free, &other, sizeof other);
    return one && other;
}

int main(int argc, char **argv)
{
    static double difference[MEASURED][ROUNDS_MOST];
    static void *kept[KEPT];
    unsigned rounds = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 0;
    struct allocator hooked, bare;
    double one[MEASURED], other[MEASURED];

#ifdef LINKED
    const bool found = find_hooked(&hooked);
#else
    const bool found = find(&hooked, RTLD_DEFAULT);
#endif
    if (rounds == 0 || rounds > ROUNDS_MOST || !found || !find(&bare, dlopen("libc.so.6", RTLD_NOW)))
        return 1;
    for (unsigned i = 0; i < KEPT; i++)
        kept[i] = malloc(4096 + i);
    for (unsigned i = 0; i < rounds; i++) {
        bool hooked_first = i % 2;
        call_all(hooked_first ? &hooked : &bare, one);
        call_all(hooked_first ? &bare : &hooked, other);
        for (unsigned k = 0; k < MEASURED; k++)
            difference[k][i] = hooked_first ? one[k] - other[k] : other[k] - one[k];
    }
    for (unsigned i = 0; i < KEPT; i++)
        free(kept[i]);
    for (unsigned k = 0; k < MEASURED; k++) {
        qsort(difference[k], rounds, sizeof *difference[k], compare);
        printf("%s %.2f\n", k == MALLOC ? "malloc" : "free", difference[k][rounds / 2]);
    }
    return 0;
}
