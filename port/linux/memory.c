/*
 * Memory that a program takes from the C library, from another allocator with the same functions, and from the kernel.
 * Programs whose malloc() is not hooked do not link this.
 *
 *   malloc -> ep_memory_is_sampled -> ep_memory_look -> ep_stratum_advance          memory_hooks.h
 *          -> the allocator's malloc
 *          -> ep_memory_record -> ep_live_take, ep_blocks_add, ep_hook_event
 *   free   -> ep_blocks_may_have -> ep_memory_forget -> ep_blocks_remove, ep_blocks_gone
 *          -> the allocator's free
 *
 * A thread counts bytes down to the next one at which its stratum (core/profile/stratum.c) has something to do. Until
 * then a call costs a subtraction, and it jumps to the allocator's function without a frame of its own. realloc() is a
 * free and an allocation, so that the part of all blocks that is sampled does not depend on how they grew. Nothing here
 * calls an allocator.
 */
#include "memory.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "linux.h"

/* A thread looks again after so many bytes whether allocations are measured. */
#define PAUSE_BYTES 65536u
#define MEMORY      (EP_KIND_BIT(EP_KIND_ALLOC) | EP_KIND_BIT(EP_KIND_LIVE))

enum { FRAME_NATIVE = 32, FRAME_MMAP = 33 }; /* special frames, core/FORMAT.md */

_Thread_local struct ep_memory_watcher ep_memory_mine;

_Static_assert(sizeof(struct ep_stratum) <= EP_PART_HEAP_BYTES, "room in a thread's memory");

static unsigned table_number;

/* ---- which allocations are sampled ---- */

static bool memory_is_wanted(void)
{
    return (atomic_load_explicit(&ep_hook_kinds, memory_order_relaxed) & MEMORY) != 0 && !ep_linux_here_is_own();
}

static uint64_t advance(struct ep_memory_watcher *me, size_t size)
{
    const bool wanted = memory_is_wanted();
    struct ep_stratum *stratum = wanted || me->granted ? ep_port_thread_part(EP_PART_HEAP) : NULL;

    if (stratum)
        stratum->position += me->granted ? me->granted - me->left : 0;
    if (!stratum || !wanted) {
        me->left = PAUSE_BYTES;
        me->granted = 0;
        return 0;
    }
    uint64_t stands_for = ep_stratum_advance(stratum, size, ep_hook_period(EP_KIND_ALLOC));
    me->left = me->granted = (size_t)ep_stratum_reach(stratum);
    return stands_for;
}

/* A handler of the program that allocates in the middle of this has no sample. */
uint64_t ep_memory_look(size_t size)
{
    struct ep_memory_watcher *me = &ep_memory_mine;

    if (me->busy)
        return 0;
    me->busy = true;
    atomic_signal_fence(memory_order_seq_cst);
    uint64_t stands_for = advance(me, size);
    atomic_signal_fence(memory_order_seq_cst);
    me->busy = false;
    return stands_for;
}

/* ---- samples ---- */

struct taken {
    const void *block;
    size_t size, mapped;
    uint64_t stands_for;
};

/* .skip omits the frames of this function, of its caller, and of the hook. */
static __attribute__((noinline)) void record(const struct taken *taken, unsigned frame)
{
    struct ep_memory_watcher *me = &ep_memory_mine;
    struct ep_stratum *stratum = ep_port_thread_part(EP_PART_HEAP); /* there is one: this is a sample */
    struct ep_hook_event event = {.kind = EP_KIND_ALLOC, .value = taken->stands_for, .frame = frame, .skip = 3};

    me->busy = true;
    atomic_signal_fence(memory_order_seq_cst);
    event.count = ep_stratum_count(stratum, taken->stands_for, taken->size);
    event.token = ep_live_take(table_number);
    uint32_t place = event.token ? EP_LIVE_PLACE(event.token) + 1 : 0;
    if (place && !ep_blocks_add(taken->block, taken->mapped, place)) {
        ep_live_drop(event.token);
        event.token = 0;
    }
    if (ep_hook_event(&event) < 0 && event.token) {
        if (ep_blocks_remove(taken->block))
            ep_blocks_gone(taken->block, place);
        ep_live_drop(event.token);
    }
    atomic_signal_fence(memory_order_seq_cst);
    me->busy = false;
}

/* Beside a runtime's objects native memory is marked, as an object is by its type. */
__attribute__((noinline)) void ep_memory_record(const void *block, size_t size, uint64_t stands_for)
{
    const struct taken taken = {.block = block, .size = size, .stands_for = stands_for};

    record(&taken, ep_live_is_shared() ? FRAME_NATIVE : 0);
    __asm__ volatile("" ::: "memory"); /* no tail call: record() omits this frame */
}

__attribute__((noinline)) void ep_memory_record_mapping(const void *start, size_t size, uint64_t stands_for)
{
    const struct taken taken = {.block = start, .size = size, .mapped = size, .stands_for = stands_for};

    record(&taken, FRAME_MMAP);
    __asm__ volatile("" ::: "memory");
}

/* The address is forgotten first: as soon as the block is free, another thread may get the address. */
void ep_memory_forget(const void *block)
{
    uint32_t token = ep_blocks_remove(block);

    if (token)
        ep_blocks_gone(block, token);
}

bool ep_memory_counts(int protection, int flags)
{
    return (protection & PROT_WRITE) && (flags & MAP_ANONYMOUS) && !(flags & (MAP_NORESERVE | MAP_STACK));
}

/* "start-end access offset device inode ...": writable, and of no file. */
static bool line_counts(const char *line)
{
    const char *access = strchr(line, ' ');
    const char *at = access;

    for (unsigned field = 1; at && field < 4; field++)
        at = strchr(at + 1, ' ');
    return at && access[2] == 'w' && at[1] == '0' && at[2] == ' ';
}

static uintptr_t hex(const char *text)
{
    uintptr_t value = 0;

    for (; (*text >= '0' && *text <= '9') || (*text >= 'a' && *text <= 'f'); text++)
        value = value << 4 | ep_linux_hex_digit(*text);
    return value;
}

/* The line of /proc/self/maps with this address, which the kernel writes as a whole. */
static bool mapping_found(uintptr_t address)
{
    char text[512];
    size_t have = 0;
    bool counts = false;
    int file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);

    for (ssize_t got; file >= 0 && !counts && (got = read(file, text + have, sizeof text - 1 - have)) > 0;) {
        have += (size_t)got;
        text[have] = 0;
        char *line = text, *end;
        for (; !counts && (end = strchr(line, '\n')) != NULL; line = end + 1) {
            const char *to = strchr(line, '-');
            counts = to && hex(line) <= address && address < hex(to + 1) && line_counts(line);
        }
        have -= (size_t)(line - text);
        have = have < sizeof text - 1 ? have : 0; /* a longer path: the rest of its line is no line */
        memmove(text, line, have);
    }
    if (file >= 0)
        (void)close(file);
    return counts;
}

bool ep_memory_mapping_counts(const void *start, size_t size)
{
    const int kept = errno;

    if (size < ep_memory_mine.left || !memory_is_wanted())
        return false;
    const bool counts = mapping_found((uintptr_t)start);
    errno = kept;
    return counts;
}

/* Absent if the program has the library linked in: then all of it is measured. */
__attribute__((weak)) bool ep_preload_chosen(void);

/* Before a constructor starts the profiler. */
__attribute__((constructor(101))) static void memory_begin(void)
{
    int number = ep_preload_chosen && !ep_preload_chosen() ? 0 : ep_blocks_attach();

    table_number = number > 0 ? (unsigned)number : 0;
}
