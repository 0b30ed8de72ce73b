/*
 * Which allocations of native memory are sampled, and what becomes of a sample. For the hooks in memory_wrap.c and
 * preload_next.c, which contain memory_hooks.h.
 */
#ifndef EP_LINUX_MEMORY_H
#define EP_LINUX_MEMORY_H

#include <sys/mman.h>

#include <edgeprof/hooks.h>
#include "memory_blocks.h"

#undef mmap64 /* in musl's headers another name of mmap() */

/* left: bytes until ep_memory_look() must be called; of `granted` ones, by which the stratum is behind. */
struct ep_memory_watcher {
    size_t left, granted;
    bool busy;
};
extern _Thread_local struct ep_memory_watcher ep_memory_mine;

/* The slow path of ep_memory_is_sampled(). Context: any thread. */
uint64_t ep_memory_look(size_t size);

/* The bytes that an allocation of `size` stands for; 0: it is no sample. Context: any thread. */
static inline uint64_t ep_memory_is_sampled(size_t size)
{
    struct ep_memory_watcher *me = &ep_memory_mine;

    if (__builtin_expect(size < me->left, 1)) {
        me->left -= size;
        return 0;
    }
    return ep_memory_look(size);
}

/* Between these two the thread's allocations are not measured: a C library's calloc() or realloc() may call its
 * malloc(), which is hooked, too. Context: any thread. */
static inline struct ep_memory_hidden {
    size_t left;
    bool busy;
} ep_memory_hide(void)
{
    struct ep_memory_watcher *me = &ep_memory_mine;
    const struct ep_memory_hidden hidden = {me->left, me->busy};

    me->left = SIZE_MAX;
    me->busy = true;
    atomic_signal_fence(memory_order_seq_cst);
    return hidden;
}

static inline void ep_memory_show(struct ep_memory_hidden hidden)
{
    atomic_signal_fence(memory_order_seq_cst);
    ep_memory_mine.left = hidden.left;
    ep_memory_mine.busy = hidden.busy;
}

/* Record a sample with the stack of the hook's caller, and follow it. The hook must call them itself: its frame is
 * omitted. Context: any thread. */
void ep_memory_record(const void *block, size_t size, uint64_t stands_for);
void ep_memory_record_mapping(const void *start, size_t size, uint64_t stands_for);

/* The block is about to be freed. Context: any thread. */
void ep_memory_forget(const void *block);

/* True if the function is in the library whose malloc() is the program's. Only in the preload library.
 * Context: any thread. */
bool ep_memory_is_of_allocator(const void *function);

/* False: address space that takes no memory yet, or that files have. Context: any thread. */
bool ep_memory_counts(int protection, int flags);
/* The same for a mapping whose beginning was not seen, if `size` bytes may become a sample; else false.
 * Context: any thread. */
bool ep_memory_mapping_counts(const void *start, size_t size);

#endif
