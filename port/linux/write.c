/*
 * Bytes that a program writes to files, and the time that it waits for them to be on the disk. Programs whose write()
 * is not hooked do not link this.
 *
 *   write -> the C library's write
 *         -> ep_write_note -> ep_write_look -> learn -> fstat, label_of     write_hooks.h; the first write only
 *                                           -> advance -> ep_stratum_advance
 *                                           -> record -> ep_tag_push, ep_hook_event, ep_tag_pop
 *   close -> the C library's close -> ep_write_closed
 *
 * A thread counts bytes down to the next one at which its stratum has something to do, as for allocations (memory.c).
 * What a descriptor is, is learnt at its first write and kept until it is closed; a descriptor beyond the table is
 * looked up at each sample and each write that may be one. stdio's bytes count when they enter its buffer, with the
 * stack that has made them.
 */
#include "write.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "filter.h"
#include "linux.h"

#define LABELS      128u
#define LABEL_BYTES 96u /* as long as a tag's value is (core/sample/tags.c) */
#define LABEL_OTHER (LABELS + 1)
#define LABEL_SHIFT 8
#define PATH_BYTES  1024u

_Thread_local struct ep_write_watcher ep_write_mine;

/* Of `granted` bytes, the thread's first stratum is behind by those that are not left. */
struct strata {
    uint64_t granted;
    struct ep_stratum bytes, time;
};
_Static_assert(sizeof(struct strata) <= EP_PART_WRITES_BYTES, "room in a thread's memory");

atomic_uint ep_write_files[EP_WRITE_FILES];

/* ---- labels: the folder, and the file's name with '#' for each number ---- */

static char labels[LABELS][LABEL_BYTES];
enum { LABEL_FREE, LABEL_FILLING, LABEL_READY };
static atomic_uchar label_state[LABELS];

static const char *label_text(unsigned label)
{
    return label == 0 ? "" : label == LABEL_OTHER ? "other" : labels[label - 1];
}

/* The number of the label, from 1 on. */
static unsigned label_find(const char *text)
{
    for (unsigned i = 0; i < LABELS; i++) {
        unsigned char state = atomic_load_explicit(&label_state[i], memory_order_acquire);
        if (state == LABEL_FREE && atomic_compare_exchange_strong(&label_state[i], &state, LABEL_FILLING)) {
            memcpy(labels[i], text, strlen(text) + 1);
            atomic_store_explicit(&label_state[i], LABEL_READY, memory_order_release);
            return i + 1;
        }
        if (state == LABEL_READY && strcmp(labels[i], text) == 0)
            return i + 1;
    }
    return LABEL_OTHER;
}

/* Folds numbers of the name behind the last '/'. Returns the new length. */
static size_t fold(char *path, size_t size)
{
    size_t from = size, to;

    while (from && path[from - 1] != '/')
        from--;
    for (to = from; from < size; from++) {
        bool digit = path[from] >= '0' && path[from] <= '9';
        if (!digit || to == 0 || path[to - 1] != '#')
            path[to++] = digit ? '#' : path[from];
    }
    return to;
}

/* Only the end of a long path. */
static unsigned label_of(int fd)
{
    static const char deleted[] = " (deleted)", more[] = "...";
    const size_t tail = sizeof deleted - 1;
    char name[14 + EP_LINUX_DIGITS] = "/proc/self/fd/", path[PATH_BYTES], text[LABEL_BYTES];

    (void)ep_linux_number_put(name + strlen(name), (unsigned)fd, 10);
    ssize_t got = readlink(name, path, sizeof path);
    if (got <= 0)
        return LABEL_OTHER;
    size_t size = (size_t)got, from = 0;
    size -= size > tail && memcmp(path + size - tail, deleted, tail) == 0 ? tail : 0;
    size = fold(path, size);
    if (size >= sizeof text)
        from = size - (sizeof text - sizeof more);
    while (from && from < size && ((unsigned char)path[from] & 0xc0) == 0x80)
        from++;
    memcpy(text, more, sizeof more);
    size_t head = from ? sizeof more - 1 : 0;
    memcpy(text + head, path + from, size - from);
    text[head + size - from] = 0;
    return label_find(text);
}

/* ---- descriptors ---- */

/* A folder is no file, but a sync of it has its label. */
static unsigned learn(int fd, unsigned known)
{
    struct stat is;

    if (fstat(fd, &is) != 0)
        return EP_WRITE_OTHER;
    const bool file = S_ISREG(is.st_mode) || S_ISBLK(is.st_mode);
    const unsigned label = file || S_ISDIR(is.st_mode) ? label_of(fd) : 0;
    const unsigned is_now = (known & ~EP_WRITE_KNOWN) | label << LABEL_SHIFT | (file ? EP_WRITE_FILE : EP_WRITE_OTHER);
    if ((unsigned)fd < EP_WRITE_FILES)
        (void)atomic_compare_exchange_strong(&ep_write_files[fd], &known, is_now); /* not if it was closed meanwhile */
    return is_now;
}

static unsigned known_of(int fd)
{
    unsigned known = (unsigned)fd < EP_WRITE_FILES ? atomic_load(&ep_write_files[fd]) : 0;

    return fd < 0 ? EP_WRITE_OTHER : known & EP_WRITE_CLASS ? known : learn(fd, known);
}

/* ---- which writes and syncs are sampled ---- */

static uint64_t advance(struct ep_write_watcher *me, struct strata *strata, size_t size)
{
    strata->bytes.position += strata->granted - me->left;
    uint64_t stands_for = ep_stratum_advance(&strata->bytes, size, ep_hook_period(EP_KIND_WRITE));
    uint64_t reach = ep_stratum_reach(&strata->bytes);
    strata->granted = me->left = reach < UINT32_MAX ? (uint32_t)reach : UINT32_MAX;
    return stands_for;
}

/* .skip omits the frames of this function, of its caller, and of the hook. */
static __attribute__((noinline)) void record(unsigned known, enum ep_kind kind, uint32_t count, uint64_t value)
{
    const char *label = label_text((known & EP_WRITE_KNOWN) >> LABEL_SHIFT);
    const struct ep_hook_event event = {.kind = kind, .count = count, .value = value, .skip = 3};

    if (*label)
        (void)ep_tag_push("file", label);
    (void)ep_hook_event(&event); /* no room: the core counts it as lost */
    if (*label)
        ep_tag_pop();
}

/* A handler of the program that writes in the middle of this has no sample. Nor has a thread whose filter of system
 * calls would end it for fstat(). */
__attribute__((noinline)) void ep_write_look(int fd, size_t size)
{
    struct ep_write_watcher *me = &ep_write_mine;
    const int kept = errno;

    if (me->busy || ep_linux_filter_is_here())
        return;
    me->busy = true;
    atomic_signal_fence(memory_order_seq_cst);
    const unsigned known = known_of(fd);
    const bool file = (known & EP_WRITE_CLASS) == EP_WRITE_FILE, own = file && ep_linux_here_is_own();
    struct strata *strata = file && !own ? ep_port_thread_part(EP_PART_WRITES) : NULL;
    const uint64_t stands_for = strata ? advance(me, strata, size) : 0;
    if (own)
        ep_write_own(EP_KIND_WRITE, size);
    if (stands_for)
        record(known, EP_KIND_WRITE, ep_stratum_count(&strata->bytes, stands_for, size), stands_for);
    atomic_signal_fence(memory_order_seq_cst);
    me->busy = false;
    errno = kept;
}

__attribute__((noinline)) void ep_write_synced(int fd, uint64_t from)
{
    struct ep_write_watcher *me = &ep_write_mine;
    const int kept = errno;
    const uint64_t ns = ep_port_ticks_ns(ep_port_ticks() - from) + 1;

    if (me->busy)
        return;
    me->busy = true;
    atomic_signal_fence(memory_order_seq_cst);
    const bool own = ep_linux_here_is_own();
    struct strata *strata = own ? NULL : ep_port_thread_part(EP_PART_WRITES);
    const uint64_t stands_for = strata ? ep_stratum_advance(&strata->time, ns, ep_hook_period(EP_KIND_SYNC)) : 0;
    if (own)
        ep_write_own(EP_KIND_SYNC, ns);
    if (stands_for)
        record(known_of(fd), EP_KIND_SYNC, ep_stratum_count(&strata->time, stands_for, ns), stands_for);
    atomic_signal_fence(memory_order_seq_cst);
    me->busy = false;
    errno = kept;
}

/* Before a constructor starts the profiler. */
__attribute__((constructor(101))) static void write_begin(void)
{
    ep_write_attach();
}
