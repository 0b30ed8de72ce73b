/*
 * Threads without a timer: their number and their CPU time. Causes are RLIMIT_SIGPENDING, a full thread table, a filter
 * of system calls, a blocked signal, and a life between two scans. sampler.c decides which threads have a timer.
 *
 *   ep_linux_uncovered_begin   at start: begins accounting
 *   ep_linux_uncovered         reports a thread: counts a new one, else returns its CPU time since the last scan
 *   ep_linux_uncovered_tell    after a scan: reports their CPU time by ep_thread_residual(), forgets ended threads
 *
 * Their CPU time is the process' minus that of edgeprof's threads, of threads with a timer, and of earlier reports. It
 * may be negative: the next report corrects the errors of this one.
 */
#include "sampler.h"

#include <errno.h>
#include <sys/resource.h>

#include <edgeprof/edgeprof.h>

/* Flag in ep_linux_watched.used: the thread blocks our signal. */
#define BLOCKS 1u
/* Without a known thread that has no timer, less than this may be the error of reading clocks one after another. */
#define LEAST_NS 10000000

static struct {
    struct ep_linux_watched *watched;
    unsigned count;
    _Atomic uint64_t accounted_ns;
    _Atomic int64_t hidden_ns; /* reported while no thread without a timer was known */
    _Atomic int64_t
        guessed_ns; /* of threads that ended unseen, beyond their last readings: what their ticks stand for */
    atomic_bool any;
} account;

uint64_t ep_linux_process_ns(void)
{
    return ep_port_process_cpu_ns() - ep_linux_own_ns();
}

void ep_linux_uncovered_begin(struct ep_linux_watched *memory, unsigned count)
{
    account.watched = memory;
    account.count = count;
    atomic_store(&account.any, false);
    atomic_store(&account.hidden_ns, 0);
    atomic_store(&account.guessed_ns, 0);
    atomic_store(&account.accounted_ns, ep_linux_process_ns());
}

void ep_linux_covered(uint64_t ns, bool is_guess)
{
    (void)atomic_fetch_add(&account.accounted_ns, ns);
    if (is_guess)
        (void)atomic_fetch_add(&account.guessed_ns, (int64_t)ns);
}

static struct ep_linux_watched *entry_of(uint32_t tid)
{
    for (struct ep_linux_watched *at = account.watched, *end = at + account.count; at < end; at++)
        if (atomic_load(&at->tid) == tid)
            return at;
    return NULL;
}

bool ep_linux_still_blocks(uint32_t tid)
{
    struct ep_linux_watched *entry = atomic_load(&account.any) ? entry_of(tid) : NULL;

    return entry && (atomic_load(&entry->used) & BLOCKS) && ep_linux_signal_blocked(tid, false);
}

static void report_refused(uint32_t tid, int error)
{
    struct rlimit pending = {0};

    if (error == 0) {
        ep_thread_refused(EP_LOSS_SIGNAL_BLOCKED, tid, 0, (uint64_t)ep_linux_signal());
    } else if (error == -EXFULL) {
        ep_thread_refused(EP_LOSS_NO_SLOT, tid, 0, account.count);
    } else {
        bool limited = error == -EAGAIN && getrlimit(RLIMIT_SIGPENDING, &pending) == 0;
        ep_thread_refused(EP_LOSS_NO_TIMER, tid, error, limited ? pending.rlim_cur : 0);
    }
}

/* If the table is full, a thread is counted when it starts, never again later, and gets a timer only when one is
 * free. */
unsigned ep_linux_uncovered(uint32_t tid, uint64_t used_ns, int error)
{
    struct ep_linux_watched *entry = entry_of(tid);
    unsigned used = (unsigned)(used_ns / EP_LINUX_USED_UNIT) & ~BLOCKS, free = 0, was = used;
    bool known = entry && used_ns;

    atomic_store(&account.any, true);
    for (; !entry && (entry = entry_of(0)) != NULL; free = 0)
        if (!atomic_compare_exchange_strong(&entry->tid, &free, tid))
            entry = NULL;
    if (!known && (entry || !used_ns))
        report_refused(tid, error);
    if (entry)
        was = atomic_exchange(&entry->used, used | (error ? 0 : BLOCKS)) & ~BLOCKS;
    return known ? used - was : 0;
}

/* Ticks come by chance, so threads that ended unseen had used more or less than theirs stand for. What is too much is
 * taken back. residual_ns: of the process. Returns what is left of it. */
static int64_t guesses_correct(int64_t residual_ns)
{
    const int64_t guessed = atomic_load(&account.guessed_ns), back = residual_ns < -guessed ? guessed : -residual_ns;

    if (back <= 0)
        return residual_ns;
    ep_linux_covered((uint64_t)-back, true);
    ep_thread_residual(ep_linux_tid(), -back);
    return residual_ns + back;
}

void ep_linux_uncovered_tell(uint64_t process_ns)
{
    const bool any = atomic_load(&account.any);
    const int64_t hidden = atomic_load(&account.hidden_ns);
    int64_t residual_ns = guesses_correct((int64_t)(process_ns - atomic_load(&account.accounted_ns)));

    /* Threads that start and end between two scans are in no table. Of one that a later scan finds all time counts as
     * its own, so what was reported here is taken back. */
    if (!any && residual_ns < LEAST_NS && (residual_ns >= 0 || hidden <= 0))
        return;
    if (!any && residual_ns < -hidden)
        residual_ns = -hidden;
    if (!any)
        atomic_store(&account.hidden_ns, hidden + residual_ns);
    ep_linux_covered((uint64_t)residual_ns, false);
    ep_thread_residual(0, residual_ns);
    for (struct ep_linux_watched *at = account.watched, *end = at + account.count; at < end; at++)
        if (atomic_load(&at->tid) && ep_linux_cpu_ns(atomic_load(&at->tid)) == 0)
            atomic_store(&at->tid, 0);
}
