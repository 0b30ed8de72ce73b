/*
 * LD_PRELOAD: the FAIL_ALLOC-th allocation from the start of main() fails, and FAIL_ALLOC_FOR - 1 after it. FAIL_ALLOC
 * 0 fails none; the number of allocations goes to the file FAIL_ALLOC_COUNT when the process ends by exit().
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *memory, size_t size);
void fail_alloc_begin(void);
void fail_alloc_end(void);

static atomic_long number;
static long first, last;
static atomic_int armed;

static int fails(void)
{
    if (!atomic_load_explicit(&armed, memory_order_relaxed)) {
        return 0;
    }
    long now = atomic_fetch_add(&number, 1) + 1;
    int failing = now >= first && now < last;
    errno = failing ? ENOMEM : errno;
    return failing;
}

void *malloc(size_t size)
{
    return fails() ? NULL : __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    return fails() ? NULL : __libc_calloc(count, size);
}

void *realloc(void *memory, size_t size)
{
    return fails() ? NULL : __libc_realloc(memory, size);
}

__attribute__((constructor)) void fail_alloc_begin(void)
{
    const char *at = getenv("FAIL_ALLOC"), *most = getenv("FAIL_ALLOC_FOR");
    first = at ? atol(at) : 0;
    last = first ? first + (most ? atol(most) : 1) : 0;
    atomic_store(&armed, at != NULL);
}

__attribute__((destructor)) void fail_alloc_end(void)
{
    const char *path = getenv("FAIL_ALLOC_COUNT");
    atomic_store(&armed, 0);
    FILE *file = path ? fopen(path, "w") : NULL;
    if (file) {
        fprintf(file, "%ld\n", atomic_load(&number));
        fclose(file);
    }
}
