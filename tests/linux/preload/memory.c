/*
 * A program that allocates and frees in functions of its own, and counts exactly what each has in use. At its end it
 * prints "live SITE BYTES" and "alloc SITE BYTES" for each.
 *
 * usage: memory          all sites, in two threads; then ends without freeing what is in use
 *        memory leak N ONE_IN   N million blocks of 10 to 1000 bytes, and for each ONE_IN of them a leak of 100 bytes
 *        memory fork     a child frees the blocks of its parent, and has its own
 *        memory full     15,000 large blocks, more than the profiler can follow, of which 3,000 are freed
 *        memory threads  8 threads that exchange blocks, free and reallocate them
 */
#include "../../program.h"

#include <malloc.h>

#define SITE  __attribute__((noipa))
#define COUNT 60000u

enum { SMALL, ZEROED, GROWN, ALIGNED, LARGE, PASSED, CHURN, MAPPED, CUT, REMAPPED, SITES };
static const char *const names[SITES] = {"small",  "zeroed", "grown",  "aligned", "large",
                                         "passed", "churn",  "mapped", "cut",     "remapped"};
static _Atomic uint64_t live[SITES], allocated[SITES];
static void *volatile sink;

static void count(int site, uint64_t bytes)
{
    live[site] += bytes;
    allocated[site] += bytes;
}

static void *check(void *block)
{
    if (!block || (uintptr_t)block % sizeof(void *) != 0) {
        fprintf(stderr, "memory: a block at %p\n", block);
        exit(1);
    }
    return block;
}

/* Each site's blocks stay in use, but for every third one. */
static SITE void small(unsigned i)
{
    size_t size = 16 + i % 900;
    char *block = check(malloc(size));

    memset(block, 1, size);
    count(SMALL, size);
    if (i % 3 == 0) {
        free(block);
        live[SMALL] -= size;
    }
    sink = block;
}

static SITE void zeroed(unsigned i)
{
    size_t size = 8 * (1 + i % 100);
    const char *block = check(calloc(size / 8, 8));

    for (size_t at = 0; at < size; at++)
        if (block[at]) {
            fprintf(stderr, "memory: calloc() gives a block with %d\n", block[at]);
            exit(1);
        }
    count(ZEROED, size);
}

static SITE void grown(unsigned i)
{
    char *block = NULL;
    size_t size = 0;

    for (unsigned step = 0; step < 4 + i % 3; step++) {
        size_t more = size ? size * 2 : 24;
        block = check(realloc(block, more));
        if (size && block[size - 1] != (char)step) {
            fprintf(stderr, "memory: realloc() lost what was in the block\n");
            exit(1);
        }
        live[GROWN] -= size;
        count(GROWN, more);
        size = more;
        memset(block, (int)step + 1, size);
    }
}

static SITE void aligned(unsigned i)
{
    size_t size = 64 * (1 + i % 20);
    void *block = NULL;

    if (i % 3 == 0)
        block = aligned_alloc(64, size);
    else if (i % 3 == 1)
        block = memalign(64, size);
    else if (posix_memalign(&block, 64, size) != 0)
        block = NULL;
    if ((uintptr_t)check(block) % 64 != 0)
        exit(1);
    count(ALIGNED, size);
}

static SITE void large(unsigned i)
{
    size_t size = 700000 + 1000 * (size_t)(i % 300);

    sink = check(malloc(size));
    count(LARGE, size);
}

static SITE void *passed(unsigned i)
{
    size_t size = 100 + i % 400;

    count(PASSED, size);
    return check(malloc(size));
}

static SITE void churn(unsigned i)
{
    size_t size = 50 + i % 2000;
    void *block = check(malloc(size));

    sink = block;
    count(CHURN, size);
    free(block);
    live[CHURN] -= size;
}

#define PAGE 4096u

static char *map(size_t size, int protection, int more)
{
    char *start = mmap(NULL, size, protection, MAP_PRIVATE | MAP_ANONYMOUS | more, -1, 0);

    if (start == MAP_FAILED) {
        fprintf(stderr, "memory: mmap() failed\n");
        exit(1);
    }
    return start;
}

/* Every third one is unmapped. What reserves addresses only is no memory. */
static SITE void mapped(unsigned i)
{
    size_t size = PAGE * (1 + i % 90);
    char *start = map(size, PROT_READ | PROT_WRITE, 0);

    *start = 1;
    count(MAPPED, size);
    if (i % 3 == 0) {
        munmap(start, size);
        live[MAPPED] -= size;
    }
    munmap(map(size, PROT_NONE, 0), size);
    sink = map(64 * size, PROT_READ | PROT_WRITE, MAP_NORESERVE);
    munmap(sink, 64 * size);
}

/* As allocators make an aligned piece: what is in front of it, and behind, is unmapped. */
static SITE void cut(unsigned i)
{
    size_t size = PAGE * (32 + i % 32);
    char *start = map(size, PROT_READ | PROT_WRITE, 0);

    count(CUT, size);
    munmap(start, 16 * PAGE);
    munmap(start + size - PAGE, PAGE);
    live[CUT] -= 17 * PAGE;
    if (i % 2) {
        munmap(start + 16 * PAGE, size - 17 * PAGE);
        live[CUT] -= size - 17 * PAGE;
    }
}

/* Every second one takes the place of another mapping, which begins within it. */
static SITE void remapped(unsigned i)
{
    size_t size = PAGE * (256 + i % 20), more = 3 * size;
    char *start = map(size, PROT_READ | PROT_WRITE, 0), *place = NULL;

    if (i % 2 == 0) {
        place = map(more, PROT_NONE, 0);
        sink = mmap(place + size, 2 * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        count(REMAPPED, 2 * size);
        live[REMAPPED] -= 2 * size;
    }
    start = mremap(start, size, more, place ? MREMAP_MAYMOVE | MREMAP_FIXED : MREMAP_MAYMOVE, place);
    if (start == MAP_FAILED)
        exit(1);
    count(REMAPPED, size);
    live[REMAPPED] -= size;
    count(REMAPPED, more);
    if (i % 2) {
        munmap(start, more);
        live[REMAPPED] -= more;
    }
}

/* Blocks of one thread that another one frees: half of them. */
static void *shared[COUNT];

static void *other_thread(void *argument)
{
    for (unsigned i = 0; i < COUNT; i += 2) {
        live[PASSED] -= 100 + i % 400;
        free(shared[i]);
    }
    for (unsigned i = 0; i < COUNT; i++) {
        small(i);
        zeroed(i);
        churn(i);
    }
    return argument;
}

static void run_sites(void)
{
    pthread_t thread;

    for (unsigned i = 0; i < COUNT; i++)
        shared[i] = passed(i);
    pthread_create(&thread, NULL, other_thread, NULL);
    for (unsigned i = 0; i < COUNT; i++) {
        small(i);
        aligned(i);
        if (i % 2 == 0)
            grown(i);
        if (i % 1000 == 0) {
            large(i);
            remapped(i / 1000);
        }
        if (i % 20 == 0)
            mapped(i / 20);
        if (i % 40 == 0)
            cut(i / 40);
        for (unsigned k = 0; k < 4; k++)
            churn(i + k);
    }
    pthread_join(thread, NULL);
    volatile size_t most = SIZE_MAX - 65536;
    char *whole = check(malloc(1000000));
    whole[999999] = 7;
    if (realloc(whole, most) || calloc(most, 8) || whole[999999] != 7) {
        fprintf(stderr, "memory: an impossible size is no error\n");
        exit(1);
    }
    free(whole);
    free(NULL);
    for (int site = 0; site < SITES; site++)
        printf("live %s %llu\nalloc %s %llu\n", names[site], (unsigned long long)live[site], names[site],
               (unsigned long long)allocated[site]);
}

static SITE void *planted(void)
{
    return check(malloc(100));
}

static SITE void *kept(unsigned size)
{
    return check(malloc(size));
}

static void run_leak(unsigned millions, unsigned one_in)
{
    uint32_t dice = 1;
    void *window[64] = {NULL};
    uint64_t leaked = 0;

    for (uint64_t i = 0; i < millions * UINT64_C(1000000); i++) {
        dice = dice * 1664525 + 1013904223;
        free(window[i % 64]);
        window[i % 64] = kept(10 + (dice >> 22));
        if (i % one_in == 0) {
            sink = planted();
            leaked += 100;
        }
    }
    printf("live planted %llu\n", (unsigned long long)leaked);
    for (unsigned i = 0; i < 64; i++)
        free(window[i]);
}

static SITE void *by_parent(unsigned i)
{
    return check(malloc(100 + i % 400));
}

static SITE void *by_child(unsigned i)
{
    return check(malloc(100 + i % 400));
}

static double cpu_seconds(void)
{
    return (double)clock() / CLOCKS_PER_SEC;
}

/* A child's profiler starts after 100 ms of CPU time. */
static void run_child(void)
{
    uint64_t bytes = 0;

    for (unsigned i = 0; i < COUNT; i++)
        free(shared[i]);
    for (unsigned i = 0; cpu_seconds() < 0.5; i++)
        churn(i);
    usleep(300000);
    for (unsigned i = 0; i < COUNT; i++) {
        sink = by_child(i);
        bytes += 100 + i % 400;
    }
    for (unsigned i = 0; i < 1000; i++)
        churn(i);
    printf("live by_child %llu\n", (unsigned long long)bytes);
    fflush(stdout);
    exit(0);
}

static int run_fork(void)
{
    int status = 1;
    uint64_t bytes = 0;

    for (unsigned i = 0; i < COUNT; i++) {
        shared[i] = by_parent(i);
        bytes += 100 + i % 400;
    }
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        run_child();
    waitpid(child, &status, 0);
    printf("live by_parent %llu\n", (unsigned long long)bytes);
    fflush(stdout);
    return status != 0;
}

#define FULL      15000u
#define FULL_SIZE 600000u

static SITE void *many(void)
{
    return check(malloc(FULL_SIZE));
}

static SITE void *few(void)
{
    return check(malloc(FULL_SIZE));
}

/* Untouched but for the C library's word in front of each. */
static int run_full(void)
{
    static void *block[FULL];
    unsigned freed[2] = {0};

    for (unsigned i = 0; i < FULL; i++) {
        block[i] = i % 3 ? many() : few();
        if (i % 100 == 0)
            usleep(1000);
    }
    for (unsigned i = 0; i < FULL; i += 5) {
        free(block[i]);
        freed[i % 3 != 0]++;
    }
    printf("live few %llu\nlive many %llu\n", (unsigned long long)(FULL / 3 - freed[0]) * FULL_SIZE,
           (unsigned long long)(FULL / 3 * 2 - freed[1]) * FULL_SIZE);
    fflush(stdout);
    return 0;
}

#define THREADS   8u
#define STEPS     400000u
#define EXCHANGED 8192u

static _Atomic(char *) exchanged[EXCHANGED];
static _Atomic uint64_t exchanged_live;

/* The first four bytes of a block are its size. */
static SITE char *exchange_new(char *old, uint32_t size)
{
    char *block = check(realloc(old, size));

    memcpy(block, &size, sizeof size);
    return block;
}

static uint32_t size_in(const char *block)
{
    uint32_t size;

    memcpy(&size, block, sizeof size);
    return size;
}

static void *exchange_thread(void *argument)
{
    uint32_t dice = (uint32_t)(uintptr_t)argument;

    for (unsigned i = 0; i < STEPS; i++) {
        dice = dice * 1664525 + 1013904223;
        uint32_t size = 8 + (dice >> 4) % 12000;
        char *old = atomic_exchange(&exchanged[dice >> 19], NULL);
        exchanged_live += size - (uint64_t)(old ? size_in(old) : 0);
        if (old && i % 2) {
            free(old);
            old = NULL;
        }
        old = atomic_exchange(&exchanged[dice >> 19], exchange_new(old, size));
        if (old) {
            exchanged_live -= size_in(old);
            free(old);
        }
    }
    return NULL;
}

static int run_threads(void)
{
    pthread_t thread[THREADS];

    for (unsigned i = 0; i < THREADS; i++)
        pthread_create(&thread[i], NULL, exchange_thread, (void *)(uintptr_t)(i * 77 + 1));
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    printf("live exchange_new %llu\n", (unsigned long long)exchanged_live);
    fflush(stdout);
    return 0;
}

int main(int count_of, char **arguments)
{
    if (count_of == 2 && strcmp(arguments[1], "full") == 0)
        return run_full();
    if (count_of == 2 && strcmp(arguments[1], "threads") == 0)
        return run_threads();
    if (count_of == 2)
        return run_fork();
    if (count_of == 4)
        run_leak((unsigned)atoi(arguments[2]), (unsigned)atoi(arguments[3]));
    else
        run_sites();
    fflush(stdout);
    return 0;
}
