/*
 * Perf events as a clock of samples; see perf_clock.h.
 *
 * The program must not suffer from what can go wrong:
 *
 *   the queue of signals is full   the kernel then sends SIGIO, which ends the process by default. Perf events are used
 *                                  only while there is much room, and SIGIO has a handler.
 *   few descriptors                processes with less than DESCRIPTORS_LEAST keep them. Events have high numbers.
 *   closefrom()                    a descriptor is compared before each use: its owner is the thread, its signal ours.
 *                                  The next scan finds the loss.
 *   fork()                         a child has the parent's events: it closes them and never disables them.
 */
#include "perf_clock.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <edgeprof/options.h>
#include <edgeprof/edgeprof.h>
#include "own_signal.h"

#ifdef SYS_fcntl64 /* 32-bit */
#define FCNTL SYS_fcntl64
#else
#define FCNTL SYS_fcntl
#endif

#define DESCRIPTORS_LEAST 512u
#define DESCRIPTORS_FROM  512u
/* Free entries in the queue of signals, below which no event is opened; each thread needs one or two. */
#define QUEUE_LEAST (4u * EP_THREADS)
/* A first expiry below this part of the period would interrupt a thread that begins in the kernel very often. */
#define FIRST_PART 32u
/* The line with the queue is behind the user's groups. */
#define STATUS_BYTES 3072

enum { NOT_WANTED, USED, REFUSED };

static struct {
    atomic_uint state;
    atomic_int error;
    atomic_uint from;      /* lowest descriptor */
    atomic_uint used_to;   /* highest descriptor so far; 0: none */
    atomic_bool overflown; /* SIGIO came in place of a tick */
} perf;

bool ep_linux_perf_is_used(void)
{
    return atomic_load_explicit(&perf.state, memory_order_relaxed) == USED;
}

int ep_linux_perf_error(void)
{
    return atomic_load(&perf.error);
}

void ep_linux_perf_refuse(int error)
{
    unsigned used = USED;

    if (atomic_compare_exchange_strong(&perf.state, &used, REFUSED))
        atomic_store(&perf.error, error);
}

/* ---- the queue of signals ---- */

static int room_check(void)
{
    char status[STATUS_BYTES];
    long size = ep_linux_read("/proc/self/status", status, sizeof status);
    const char *at = size > 0 ? strstr(status, "\nSigQ:\t") : NULL;

    if (!at)
        return size < 0 ? (int)size : -EAGAIN;
    at += strlen("\nSigQ:\t");
    uint64_t queued = ep_linux_number(&at);
    at++;
    return ep_linux_number(&at) >= queued + QUEUE_LEAST ? 0 : -EAGAIN;
}

/* The kernel's own SIGIO is for a tick that could not be queued, or for a file of the program, which asked for it and
 * does not handle it. One that was sent ends the process, as it would without edgeprof. */
static void on_sigio(int signal, siginfo_t *info, void *ucontext)
{
    int kept = errno;
    const struct sigaction action = {.sa_handler = SIG_DFL};

    (void)ucontext;
    if (info->si_code <= 0 && sigaction(signal, &action, NULL) == 0) /* unblocked when this returns */
        (void)syscall(SYS_rt_tgsigqueueinfo, getpid(), syscall(SYS_gettid), signal, info);
    atomic_store(&perf.overflown, true);
    errno = kept;
}

static int sigio_take(void)
{
    struct sigaction action;

    if (sigaction(SIGIO, NULL, &action) != 0)
        return -errno;
    if ((action.sa_flags & SA_SIGINFO) || action.sa_handler != SIG_DFL)
        return 0;
    action = (struct sigaction){.sa_sigaction = on_sigio, .sa_flags = SA_SIGINFO | SA_RESTART};
    return sigaction(SIGIO, &action, NULL) == 0 ? 0 : -errno;
}

void ep_linux_perf_check(void)
{
    if (!ep_linux_perf_is_used())
        return;
    int error = atomic_exchange(&perf.overflown, false) ? -EAGAIN : room_check();
    if (!error)
        error = sigio_take(); /* the program may have set it to SIG_DFL meanwhile */
    if (error)
        ep_linux_perf_refuse(error);
}

void ep_linux_perf_choose(uint32_t clock)
{
    struct rlimit files = {0};
    int error = 0;

    atomic_store(&perf.error, 0);
    atomic_store(&perf.state, clock == EP_CLOCK_PERF ? USED : NOT_WANTED);
    if (clock != EP_CLOCK_PERF)
        return;
    (void)getrlimit(RLIMIT_NOFILE, &files);
    if (files.rlim_cur < DESCRIPTORS_LEAST)
        error = -EMFILE;
    else
        error = room_check();
    if (!error)
        error = sigio_take();
    if (!atomic_load(&perf.used_to)) /* later starts recognise late signals of earlier ones */
        atomic_store(&perf.from,
                     files.rlim_cur / 2 < DESCRIPTORS_FROM ? (unsigned)files.rlim_cur / 2 : DESCRIPTORS_FROM);
    if (error)
        ep_linux_perf_refuse(error);
}

/* ---- events ---- */

static uint32_t random_part(uint32_t period)
{
    uint32_t dice;

    ep_port_random(&dice, sizeof dice);
    uint32_t part = (uint32_t)((uint64_t)dice * period >> 32) + 1;
    return part > period / FIRST_PART ? part : period / FIRST_PART;
}

/* Moves the descriptor to a high number, so that the program's own stay low. */
static int descriptor_move(int fd, unsigned place)
{
    int high = (int)syscall(FCNTL, fd, F_DUPFD_CLOEXEC, atomic_load(&perf.from) + place);
    int error = high < 0 ? -errno : 0;

    (void)syscall(SYS_close, fd);
    if (error)
        return error == -EINVAL ? -EMFILE : error;
    unsigned to = atomic_load(&perf.used_to);
    while (to < (unsigned)high && !atomic_compare_exchange_weak(&perf.used_to, &to, (unsigned)high)) {
    }
    return high;
}

/* The kernel notes the number with O_ASYNC and passes it with each signal. */
static int event_start(int fd, uint32_t tid)
{
    const struct f_owner_ex owner = {.type = F_OWNER_TID, .pid = (pid_t)tid};

    if (syscall(FCNTL, fd, F_SETOWN_EX, &owner) == 0 && syscall(FCNTL, fd, F_SETSIG, ep_linux_signal()) == 0 &&
        syscall(FCNTL, fd, F_SETFL, O_RDWR | O_ASYNC) == 0 && syscall(SYS_ioctl, fd, PERF_EVENT_IOC_ENABLE, 0) == 0)
        return 0;
    int error = -errno;
    (void)syscall(SYS_close, fd);
    return error;
}

static int event_open(uint32_t tid, unsigned place, uint32_t period)
{
    struct perf_event_attr attributes = {.type = PERF_TYPE_SOFTWARE,
                                         .size = sizeof attributes,
                                         .config = PERF_COUNT_SW_CPU_CLOCK,
                                         .sample_period = random_part(period),
                                         .disabled = 1,
                                         .exclude_kernel = 1,
                                         .exclude_hv = 1};
    int fd = (int)syscall(SYS_perf_event_open, &attributes, (pid_t)tid, -1, -1, PERF_FLAG_FD_CLOEXEC);

    if (fd < 0)
        return -errno;
    fd = descriptor_move(fd, place);
    int error = fd < 0 ? fd : event_start(fd, tid);
    return error ? error : fd;
}

int ep_linux_perf_open(uint32_t tid, unsigned place, uint32_t period)
{
    int fd = event_open(tid, place, period);

    if (fd == -EMFILE || fd == -ENFILE)
        atomic_store(&perf.error, fd); /* of this thread; the next may have more luck */
    else if (fd < 0 && fd != -ESRCH)
        ep_linux_perf_refuse(fd);
    return fd;
}

bool ep_linux_perf_is_ours(int fd, uint32_t tid)
{
    struct f_owner_ex owner = {.type = F_OWNER_PID};
    int kept = errno;
    long signal = syscall(FCNTL, fd, F_GETSIG, 0);
    bool ours = signal > 0 && (ep_linux_signals_handled() >> (signal - 1) & 1) &&
                syscall(FCNTL, fd, F_GETOWN_EX, &owner) == 0 && owner.type == F_OWNER_TID &&
                (owner.pid == (pid_t)tid || owner.pid == 0); /* 0: it has ended */

    errno = kept;
    return ours;
}

int ep_linux_perf_period(int fd, uint32_t tid, uint32_t period)
{
    const uint64_t ns = period;
    int kept = errno;
    int error = !ep_linux_perf_is_ours(fd, tid)                           ? -EBADF
                : syscall(SYS_ioctl, fd, PERF_EVENT_IOC_PERIOD, &ns) == 0 ? 0
                                                                          : -errno;

    errno = kept;
    return error;
}

void ep_linux_perf_close(int fd, uint32_t tid)
{
    if (ep_linux_perf_is_ours(fd, tid))
        (void)syscall(SYS_close, fd);
}

void ep_linux_perf_end(int fd, uint32_t tid)
{
    if (!ep_linux_perf_is_ours(fd, tid))
        return;
    (void)syscall(SYS_ioctl, fd, PERF_EVENT_IOC_DISABLE, 0); /* a child may have kept the file open */
    (void)syscall(SYS_close, fd);
}

bool ep_linux_perf_signalled(const siginfo_t *info)
{
    unsigned fd = (unsigned)info->si_fd;

    return info->si_code == POLL_IN && fd >= atomic_load_explicit(&perf.from, memory_order_relaxed) &&
           fd <= atomic_load_explicit(&perf.used_to, memory_order_relaxed);
}

unsigned ep_linux_perf_place(int fd)
{
    return (unsigned)fd - atomic_load_explicit(&perf.from, memory_order_relaxed);
}
