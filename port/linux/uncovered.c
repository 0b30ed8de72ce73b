/*
 * Threads without a timer (RLIMIT_SIGPENDING, thread table full, a filter of system calls; those that keep our signal
 * blocked give theirs back): that they are known, and that their CPU time is accounted for. Who has a timer is
 * sampler.c's: it gives that of a thread that uses less to one of these.
 *
 *   ep_linux_uncovered_begin   at start: the books are opened
 *   ep_linux_uncovered         a thread has none: counted when it is new, else what it has used since the last scan
 *   ep_linux_uncovered_tell    the scan has met all: what they used goes to ep_thread_rest(), those that ended are
 *                              forgotten
 *
 * What they used: process clock - our own threads - what is accounted for: threads with a timer, and what was told
 * before. Of either sign: errors of one look are gone with the next.
 */
#include "linux.h"

#include <errno.h>
#include <sys/resource.h>

#include "core/edgeprof.h"

/* In ep_linux_watched.used: the thread keeps our signal blocked. */
#define BLOCKS 1u

static struct {
    struct ep_linux_watched *watched;
    _Atomic uint64_t accounted_ns;
    atomic_bool any;
} books;

uint64_t ep_linux_process_ns(void)
{
    return ep_port_process_cpu_ns() - ep_linux_own_ns();
}

void ep_linux_uncovered_begin(struct ep_linux_watched *memory)
{
    books.watched = memory;
    atomic_store(&books.any, false);
    atomic_store(&books.accounted_ns, ep_linux_process_ns());
}

void ep_linux_covered(uint64_t ns)
{
    (void)atomic_fetch_add(&books.accounted_ns, ns);
}

static struct ep_linux_watched *entry_of(uint32_t tid)
{
    for (struct ep_linux_watched *at = books.watched, *end = at + EP_MAX_THREADS; at < end; at++)
        if (atomic_load(&at->tid) == tid)
            return at;
    return NULL;
}

bool ep_linux_still_blocks(uint32_t tid)
{
    struct ep_linux_watched *entry = entry_of(tid);

    return entry && (atomic_load(&entry->used) & BLOCKS) && ep_linux_signal_blocked(tid, false);
}

static void refused(uint32_t tid, int error)
{
    struct rlimit pending = {0};

    if (error == 0) {
        ep_thread_refused(EP_LOSS_SIGNAL_BLOCKED, tid, 0, (uint64_t)ep_linux_signal());
    } else if (error == -EXFULL) {
        ep_thread_refused(EP_LOSS_NO_SLOT, tid, 0, EP_MAX_THREADS);
    } else {
        bool limited = error == -EAGAIN && getrlimit(RLIMIT_SIGPENDING, &pending) == 0;
        ep_thread_refused(EP_LOSS_NO_TIMER, tid, error, limited ? pending.rlim_cur : 0);
    }
}

/* Without room one that begins is counted; later it is never counted again, and gets a timer only when one is free. */
unsigned ep_linux_uncovered(uint32_t tid, uint64_t used_ns, int error)
{
    struct ep_linux_watched *entry = entry_of(tid);
    unsigned used = (unsigned)(used_ns / EP_LINUX_USED_UNIT) & ~BLOCKS, free = 0, was = used;
    bool known = entry && used_ns;

    atomic_store(&books.any, true);
    for (; !entry && (entry = entry_of(0)) != NULL; free = 0)
        if (!atomic_compare_exchange_strong(&entry->tid, &free, tid))
            entry = NULL;
    if (!known && (entry || !used_ns))
        refused(tid, error);
    if (entry)
        was = atomic_exchange(&entry->used, used | (error ? 0 : BLOCKS)) & ~BLOCKS;
    return known ? used - was : 0;
}

void ep_linux_uncovered_tell(uint64_t process_ns)
{
    uint64_t rest = process_ns - atomic_load(&books.accounted_ns);

    if (!atomic_load(&books.any))
        return;
    ep_linux_covered(rest);
    ep_thread_rest(0, (int64_t)rest);
    for (struct ep_linux_watched *at = books.watched, *end = at + EP_MAX_THREADS; at < end; at++)
        if (atomic_load(&at->tid) && ep_linux_cpu_ns(atomic_load(&at->tid)) == 0)
            atomic_store(&at->tid, 0);
}
