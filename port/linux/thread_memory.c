/*
 * What edgeprof keeps for each thread. Static TLS of a library that is loaded later comes from a reserve of 1664 bytes
 * which all libraries of a process share, so a thread's static TLS has a pointer only, and its block comes from here.
 *
 * A block is taken at the thread's announcement, its first tick or its first hook, also in a signal handler: without a
 * lock and without malloc. When no block is free, those of ended threads are; then the kernel gives memory for more.
 */
#include "linux.h"
#include "own_threads.h"
#include "sampler.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FIRST_BLOCKS 8u
#define CHUNK_BYTES  65536u

/* Its blocks follow it, but for the first. */
struct chunk {
    _Alignas(struct ep_linux_here) _Atomic(struct chunk *) next;
};

static struct ep_linux_here first_blocks[FIRST_BLOCKS];
static struct chunk first;

static struct ep_linux_here *blocks_of(struct chunk *chunk)
{
    return chunk == &first ? first_blocks : (struct ep_linux_here *)(chunk + 1);
}

static unsigned count_of(const struct chunk *chunk)
{
    return chunk == &first ? FIRST_BLOCKS
                           : (CHUNK_BYTES - (unsigned)sizeof *chunk) / (unsigned)sizeof(struct ep_linux_here);
}

static _Thread_local struct ep_linux_here *_Atomic mine;
static struct ep_linux_here nobody; /* the labels of threads for which there is no memory */

static struct ep_linux_here *take_from(struct chunk *chunk, uint32_t tid)
{
    for (unsigned i = 0; i < count_of(chunk); i++) {
        struct ep_linux_here *block = &blocks_of(chunk)[i];
        unsigned free = 0;
        if (atomic_load_explicit(&block->of_tid, memory_order_relaxed) != 0 ||
            !atomic_compare_exchange_strong(&block->of_tid, &free, tid))
            continue;
        memset((char *)block + sizeof block->of_tid, 0, sizeof *block - sizeof block->of_tid);
        return block;
    }
    return NULL;
}

static struct ep_linux_here *take(uint32_t tid)
{
    struct ep_linux_here *block = NULL;

    for (struct chunk *chunk = &first; chunk && !block; chunk = atomic_load(&chunk->next))
        block = take_from(chunk, tid);
    return block;
}

/* Frees the blocks of ended threads. */
static void reclaim(void)
{
    const pid_t process = (pid_t)syscall(SYS_getpid);

    for (struct chunk *chunk = &first; chunk; chunk = atomic_load(&chunk->next))
        for (unsigned i = 0; i < count_of(chunk); i++) {
            unsigned tid = atomic_load(&blocks_of(chunk)[i].of_tid);
            if (tid && syscall(SYS_tgkill, process, tid, 0) != 0 && errno == ESRCH)
                (void)atomic_compare_exchange_strong(&blocks_of(chunk)[i].of_tid, &tid, 0);
        }
}

static void grow(void)
{
#ifdef SYS_mmap2
    const long number = SYS_mmap2;
#else
    const long number = SYS_mmap;
#endif
    const long at = syscall(number, 0, CHUNK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct chunk *chunk = (struct chunk *)(uintptr_t)at;

    if (at == -1)
        return;
    struct chunk *next = atomic_load(&first.next);
    do
        atomic_store(&chunk->next, next);
    while (!atomic_compare_exchange_weak(&first.next, &next, chunk));
}

static __attribute__((noinline)) struct ep_linux_here *here_make(void)
{
    const int kept = errno;
    const uint32_t tid = (uint32_t)syscall(SYS_gettid);
    struct ep_linux_here *block = take(tid);

    if (!block) {
        reclaim();
        block = take(tid);
    }
    if (!block) {
        grow();
        block = take(tid);
    }
    errno = kept;
    if (!block || atomic_load_explicit(&mine, memory_order_relaxed)) { /* a handler was faster */
        if (block)
            atomic_store(&block->of_tid, 0);
        return atomic_load_explicit(&mine, memory_order_relaxed);
    }
    atomic_store_explicit(&mine, block, memory_order_relaxed);
    return block;
}

__attribute__((hot)) struct ep_linux_here *ep_linux_here(void)
{
    struct ep_linux_here *here = atomic_load_explicit(&mine, memory_order_relaxed);

    return here ? here : here_make();
}

__attribute__((hot)) struct ep_work *ep_port_work(void)
{
    struct ep_linux_here *here = ep_linux_here();

    return here ? &here->work : &nobody.work;
}

void *ep_port_thread_part(enum ep_thread_part part)
{
    static const size_t at[EP_PARTS] = {
        [EP_PART_OTEL] = offsetof(struct ep_linux_here, otel),
        [EP_PART_ALLOCATIONS] = offsetof(struct ep_linux_here, allocations),
        [EP_PART_EXCEPTIONS] = offsetof(struct ep_linux_here, exceptions),
        [EP_PART_HEAP] = offsetof(struct ep_linux_here, heap),
        [EP_PART_WRITES] = offsetof(struct ep_linux_here, writes),
    };
    struct ep_linux_here *here = ep_linux_here();

    return here ? (unsigned char *)here + at[part] : NULL;
}

void ep_linux_here_forked(void)
{
    struct ep_linux_here *here = atomic_load_explicit(&mine, memory_order_relaxed);

    if (!here)
        return;
    atomic_store(&here->of_tid, (uint32_t)syscall(SYS_gettid));
    here->tid = 0;
}
