/*
 * What programs do with signals, one row each, while they are profiled: a row ends as it would without a profiler, and
 * counts its own signals exactly. Each row burns CPU time on threads, whose stacks the profile must have.
 *
 *   signal_table ROW TARGET        TARGET: prof (SIGPROF) or own (the number that carries edgeprof's ticks)
 *   signal_table --all DIR [LIB]   every row with every target that makes sense, each in a process with a profile in
 *                                  DIR; LIB is preloaded. A line each: row NAME TARGET STATUS WANTED TEXT
 *   signal_table --list            NAME-TARGET of each of these
 *
 * Built twice: with edgeprof in it (-DLINKED), and without for the preload library.
 */
#include "../../program.h"

#include <spawn.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/signalfd.h>

#ifdef LINKED
#include <edgeprof/edgeprof.h>
#endif

#define MS      1000000ll
#define THREADS 2
#define BURN_MS 500 /* each thread */
#define SENT    15
#define MARK    0x5a5a
#define MIDDLE  49 /* what stands for edgeprof's number where there is no edgeprof */

enum { PROF = 1, OWN = 2, BOTH = 3 };

static char self[256] = "/proc/self/exe";
static int target;
static atomic_int received, wrong, threads_done, threads_begun;
static atomic_int sender; /* whose signals they are */
static pthread_t threads[THREADS];

/* ---- helpers ---- */

static void fail(const char *what, ...)
{
    va_list list;

    va_start(list, what);
    printf("FAILED ");
    vprintf(what, list);
    printf(" (errno %d)\n", errno);
    va_end(list);
    fflush(stdout);
    _exit(9);
}

#define MUST(condition)                                                                                                \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            fail("line %d: %s", __LINE__, #condition);                                                                 \
    } while (0)

static long long clock_of(clockid_t clock)
{
    struct timespec now;

    (void)clock_gettime(clock, &now);
    return now.tv_sec * 1000 * MS + now.tv_nsec;
}

static void burn(long long ms)
{
    long long end = clock_of(CLOCK_THREAD_CPUTIME_ID) + ms * MS;

    while (clock_of(CLOCK_THREAD_CPUTIME_ID) < end)
        for (volatile int i = 0; i < 5000; i++) {
        }
}

static void nap(long long ns)
{
    struct timespec left = {.tv_nsec = (long)ns};

    while (nanosleep(&left, &left) != 0) {
    }
}

static void *burn_main(void *argument)
{
    (void)argument;
    atomic_fetch_add(&threads_begun, 1);
    burn(BURN_MS);
    atomic_fetch_add(&threads_done, 1);
    return NULL;
}

static void burn_begin(void)
{
    for (int i = 0; i < THREADS; i++)
        MUST(pthread_create(&threads[i], NULL, burn_main, NULL) == 0);
    while (atomic_load(&threads_begun) < THREADS)
        nap(MS);
}

static void burn_end(void)
{
    for (int i = 0; i < THREADS; i++)
        MUST(pthread_join(threads[i], NULL) == 0);
}

static void count(int signal, siginfo_t *info, void *context)
{
    (void)context;
    atomic_fetch_add(signal == target && info->si_code != SI_TIMER ? &received : &wrong, 1);
}

static void count_plain(int signal)
{
    atomic_fetch_add(signal == target ? &received : &wrong, 1);
}

static void install(int flags, void (*handler)(int, siginfo_t *, void *))
{
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = flags | SA_SIGINFO};

    MUST(sigaction(target, &action, NULL) == 0);
}

/* Waits until `received` is that much. */
static void await(int number)
{
    long long end = clock_of(CLOCK_MONOTONIC) + 20000 * MS;

    while (atomic_load(&received) < number && clock_of(CLOCK_MONOTONIC) < end)
        nap(MS / 4);
    if (atomic_load(&received) != number)
        fail("%d signals sent, %d received", number, atomic_load(&received));
}

/* Each is received before the next: SIGPROF is not queued. Handlers use little CPU time: they begin with the kernel's
 * tick, so that none of it is sampled. */
static void send_all(void)
{
    for (int i = 0; i < SENT; i++) {
        int before = atomic_load(&received);
        MUST(kill(getpid(), target) == 0);
        await(before + 1);
        nap(10 * MS);
    }
}

static void done(int sent)
{
    if (atomic_load(&received) != sent || atomic_load(&wrong) != 0)
        fail("sent %d, received %d, %d that nobody sent", sent, atomic_load(&received), atomic_load(&wrong));
    printf("sent %d, received %d\n", sent, atomic_load(&received));
}

static sigset_t all(void)
{
    sigset_t set;

    (void)sigfillset(&set);
    return set;
}

static sigset_t only(int signal)
{
    sigset_t set;

    (void)sigemptyset(&set);
    (void)sigaddset(&set, signal);
    return set;
}

static void block_all(void)
{
    sigset_t set = all();

    MUST(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
}

/* ---- dispositions ---- */

static void row_handler(void)
{
    install(SA_RESTART, count);
    burn_begin();
    send_all();
    for (int i = 0; i < THREADS && target != SIGPROF; i++)
        MUST(pthread_kill(threads[i], target) == 0);
    burn_end();
    if (target != SIGPROF)
        await(SENT + THREADS);
    done(target == SIGPROF ? SENT : SENT + THREADS);
}

static void row_default(void)
{
    MUST(signal(target, SIG_DFL) != SIG_ERR);
    burn_begin();
    burn_end();
    done(0);
}

static void row_default_dies(void)
{
    MUST(signal(target, SIG_DFL) != SIG_ERR);
    burn(50);
    (void)kill(getpid(), target);
    nap(500 * MS);
    fail("still there");
}

static void row_ignored(void)
{
    MUST(signal(target, SIG_IGN) != SIG_ERR);
    burn_begin();
    for (int i = 0; i < SENT; i++)
        MUST(kill(getpid(), target) == 0);
    burn_end();
    MUST(signal(target, SIG_IGN) == SIG_IGN);
    done(0);
}

static void row_restored(void)
{
    void (*before)(int) = signal(target, count_plain);

    MUST(before == SIG_DFL);
    burn_begin();
    send_all();
    MUST(signal(target, before) == count_plain);
    burn_end();
    burn(200);
    done(SENT);
}

/* Everything about a disposition comes back as it was set. */
static void row_told(void)
{
    struct sigaction set = {.sa_sigaction = count, .sa_flags = SA_SIGINFO | SA_NODEFER}, got, other;
    sigset_t mask = all(), seen;

    MUST(sigaction(target, NULL, &got) == 0 && got.sa_handler == SIG_DFL);
    (void)sigfillset(&set.sa_mask);
    MUST(sigaction(target, &set, NULL) == 0 && sigaction(SIGUSR1, &set, NULL) == 0);
    MUST(sigaction(target, NULL, &got) == 0 && got.sa_sigaction == count && got.sa_flags & SA_NODEFER);
    MUST(sigismember(&got.sa_mask, target) == 1 && sigismember(&got.sa_mask, SIGUSR2) == 1);
    (void)sigemptyset(&set.sa_mask);
    MUST(sigaction(SIGUSR1, &set, &other) == 0 && sigismember(&other.sa_mask, MIDDLE) == 1);
    MUST(sigaction(SIGUSR1, NULL, &other) == 0 && sigismember(&other.sa_mask, MIDDLE) == 0);
    MUST(pthread_sigmask(SIG_SETMASK, &mask, NULL) == 0 && pthread_sigmask(SIG_BLOCK, NULL, &seen) == 0);
    for (int i = 1; i <= SIGRTMAX; i++)
        if (i != SIGKILL && i != SIGSTOP && (i < 32 || i >= SIGRTMIN))
            MUST(sigismember(&seen, i) == 1);
    (void)sigemptyset(&mask);
    MUST(sigprocmask(SIG_SETMASK, &mask, &seen) == 0 && sigismember(&seen, target) == 1);
    MUST(sigprocmask(SIG_BLOCK, NULL, &seen) == 0 && sigismember(&seen, target) == 0);
    errno = 0;
    MUST(sigaction(99, &set, NULL) == -1 && errno == EINVAL && sigprocmask(77, &mask, NULL) == -1 && errno == EINVAL);
    burn_begin();
    send_all();
    burn_end();
    done(SENT);
}

static void nested(int signal, siginfo_t *info, void *context)
{
    static atomic_int depth;

    if (atomic_fetch_add(&depth, 1) > 0)
        atomic_fetch_add(&wrong, 1); /* blocked while its handler runs */
    for (volatile int i = 0; i < 20000; i++) {
    }
    count(signal, info, context);
    atomic_fetch_sub(&depth, 1);
}

/* A handler that runs once only, one that is not interrupted by itself, one on a stack of its own. */
static void row_flags(void)
{
    static char stack[65536];
    const stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
    struct sigaction now;
    sigset_t set = only(target);

    MUST(sigaltstack(&alternate, NULL) == 0);
    install((int)SA_RESETHAND, count);
    MUST(raise(target) == 0 && atomic_load(&received) == 1);
    MUST(sigaction(target, NULL, &now) == 0 && now.sa_handler == SIG_DFL);
    install(SA_ONSTACK, nested);
    burn_begin();
    send_all();
    MUST(sigprocmask(SIG_BLOCK, &set, NULL) == 0 && kill(getpid(), target) == 0);
    nap(5 * MS);
    MUST(sigprocmask(SIG_UNBLOCK, &set, NULL) == 0);
    burn_end();
    await(SENT + 2);
    done(SENT + 2);
}

/* A handler for every signal there is. */
static void row_every(void)
{
    for (int i = 1; i <= SIGRTMAX; i++) {
        struct sigaction action = {.sa_sigaction = count, .sa_flags = SA_SIGINFO | SA_RESTART};
        if (i != SIGKILL && i != SIGSTOP && i != SIGCHLD && (i < 32 || i >= SIGRTMIN))
            MUST(sigaction(i, &action, NULL) == 0);
    }
    burn_begin();
    send_all();
    burn_end();
    done(SENT);
}

/* ---- masks ---- */

static void row_blocked(void)
{
    sigset_t set = all(), pending;
    int sent = target == SIGPROF ? 1 : SENT;

    block_all();
    burn_begin();
    for (int i = 0; i < SENT; i++)
        MUST(kill(getpid(), target) == 0);
    burn_end();
    burn(100);
    MUST(sigpending(&pending) == 0 && sigismember(&pending, target) == 1);
    install(0, count);
    MUST(atomic_load(&received) == 0);
    MUST(pthread_sigmask(SIG_UNBLOCK, &set, NULL) == 0);
    await(sent);
    done(sent);
}

/* Each thread blocks, and unblocks for a moment, as libraries do around what must not be interrupted. */
static void *blinking(void *argument)
{
    sigset_t set = all(), before;

    (void)argument;
    while (atomic_load(&threads_done) < THREADS) {
        MUST(pthread_sigmask(SIG_SETMASK, &set, &before) == 0);
        burn(3);
        MUST(pthread_sigmask(SIG_SETMASK, &before, NULL) == 0);
    }
    return NULL;
}

static void row_blinking(void)
{
    pthread_t other;

    install(SA_RESTART, count);
    burn_begin();
    MUST(pthread_create(&other, NULL, blinking, NULL) == 0);
    send_all();
    burn_end();
    MUST(pthread_join(other, NULL) == 0);
    done(SENT);
}

/* ---- waiting for signals ---- */

/* Of another process' kill() Linux before 6.9 lets a thread repeat all but the code. */
static bool is_sender(int code, pid_t pid)
{
    return pid == atomic_load(&sender) && (code == SI_USER || (code == SI_QUEUE && pid != getpid()));
}

/* The first from another process: no thread knows yet that the number is the program's. */
static void send_from_both(void)
{
    pid_t child = fork();

    if (child == 0) {
        nap(5 * MS);
        _exit(kill(getppid(), target) == 0 ? 0 : 1);
    }
    atomic_store(&sender, child);
    await(1);
    MUST(waitpid(child, NULL, 0) == child);
    atomic_store(&sender, getpid());
    send_all();
}

static int how;

static int wait_once(const sigset_t *set)
{
    struct timespec tenth = {.tv_nsec = 100 * MS};
    siginfo_t info;
    int signal = 0;

    if (how == 0)
        return sigwait(set, &signal) == 0 ? signal : -1;
    signal = how == 1 ? sigtimedwait(set, &info, &tenth) : sigwaitinfo(set, &info);
    MUST(signal < 0 || signal == SIGTERM || signal == SIGCHLD ||
         (info.si_signo == signal && is_sender(info.si_code, info.si_pid)));
    return signal;
}

static void *wait_main(void *argument)
{
    for (;;) {
        int signal = wait_once(argument);
        if (signal == SIGTERM)
            return NULL;
        MUST(signal > 0 || errno == EAGAIN || errno == EINTR);
        if (signal > 0 && signal != SIGCHLD)
            atomic_fetch_add(signal == target ? &received : &wrong, 1);
    }
}

static void wait_row(int way, sigset_t set)
{
    pthread_t waiter;

    how = way;
    (void)sigaddset(&set, SIGTERM);
    block_all();
    MUST(pthread_create(&waiter, NULL, wait_main, &set) == 0);
    burn_begin();
    send_from_both();
    burn_end();
    MUST(kill(getpid(), SIGTERM) == 0 && pthread_join(waiter, NULL) == 0);
    done(SENT + 1);
}

static void row_sigwait(void)
{
    wait_row(0, only(target));
}

static void row_sigwait_all(void)
{
    wait_row(0, all());
}

static void row_sigtimedwait(void)
{
    wait_row(1, only(target));
}

static void row_sigwaitinfo(void)
{
    wait_row(2, all());
}

static void *read_main(void *argument)
{
    struct signalfd_siginfo info;
    int fd = *(int *)argument;

    for (;;) {
        ssize_t got = read(fd, &info, sizeof info);
        MUST(got == sizeof info || errno == EINTR);
        if (got > 0 && info.ssi_signo == SIGTERM)
            return NULL;
        bool mine = info.ssi_signo == (unsigned)target && is_sender(info.ssi_code, (pid_t)info.ssi_pid);
        if (got > 0)
            atomic_fetch_add(mine ? &received : &wrong, 1);
    }
}

static void row_signalfd(void)
{
    sigset_t set = only(target);
    pthread_t reader;

    (void)sigaddset(&set, SIGTERM);
    block_all();
    burn_begin(); /* before the program has named the number */
    int fd = signalfd(-1, &set, SFD_CLOEXEC);
    MUST(fd >= 0 && pthread_create(&reader, NULL, read_main, &fd) == 0);
    send_from_both();
    burn_end();
    MUST(kill(getpid(), SIGTERM) == 0 && pthread_join(reader, NULL) == 0);
    done(SENT + 1);
}

/* ---- masks for the time of a call ---- */

static void masked_call(int way, const sigset_t *mask, int epoll)
{
    struct timespec ms = {.tv_nsec = MS};
    struct epoll_event event;

    if (way == 0)
        MUST(ppoll(NULL, 0, &ms, mask) == 0);
    else if (way == 1)
        MUST(pselect(0, NULL, NULL, NULL, &ms, mask) == 0);
    else
        MUST(epoll_pwait(epoll, &event, 1, 1, mask) == 0);
}

/* Blocked while the call runs, handled outside. The calls use little CPU time, the thread much. */
static void masked_row(int way)
{
    sigset_t mask = all(), before;
    int epoll = epoll_create1(0), sent = 0;

    install(SA_RESTART, count);
    burn_begin();
    while (atomic_load(&threads_done) < THREADS) {
        burn(2);
        masked_call(way, &mask, epoll);
        MUST(pthread_sigmask(SIG_BLOCK, NULL, &before) == 0 && sigismember(&before, target) == 0);
        if (++sent <= SENT)
            MUST(kill(getpid(), target) == 0);
        if (sent <= SENT)
            await(sent);
    }
    burn_end();
    done(sent < SENT ? sent : SENT);
}

static void row_ppoll(void)
{
    masked_row(0);
}

static void row_pselect(void)
{
    masked_row(1);
}

static void row_epoll_pwait(void)
{
    masked_row(2);
}

static void *send_main(void *argument)
{
    (void)argument;
    for (int i = 0; i < SENT; i++) {
        MUST(kill(getpid(), target) == 0);
        await(i + 1);
        nap(5 * MS);
    }
    return NULL;
}

/* Blocked everywhere but in sigsuspend. */
static void row_sigsuspend(void)
{
    sigset_t mask = all();
    pthread_t sender;

    install(0, count);
    block_all();
    (void)sigdelset(&mask, target);
    burn_begin();
    MUST(pthread_create(&sender, NULL, send_main, NULL) == 0);
    while (atomic_load(&received) < SENT)
        MUST(sigsuspend(&mask) == -1 && errno == EINTR);
    MUST(pthread_join(sender, NULL) == 0);
    burn_end();
    done(SENT);
}

/* ---- timers of the program ---- */

/* A call each 10 ms of CPU time. The kernel counts it in ticks: on a busy machine that is some more than the clock
 * says. */
static void row_itimer(void)
{
    const struct itimerval every = {{.tv_usec = 10000}, {.tv_usec = 10000}}, never = {{0}, {0}};
    long long start = clock_of(CLOCK_PROCESS_CPUTIME_ID);

    install(SA_RESTART, count);
    MUST(setitimer(ITIMER_PROF, &every, NULL) == 0);
    burn_begin();
    burn_end();
    MUST(setitimer(ITIMER_PROF, &never, NULL) == 0);
    int calls = atomic_load(&received), right = (int)((clock_of(CLOCK_PROCESS_CPUTIME_ID) - start) / (10 * MS));
    if (calls > right + 1 + right / 4 || calls < right / 2 || atomic_load(&wrong))
        fail("%d calls where %d are right", calls, right);
    printf("%d calls where %d are right\n", calls, right);
}

static atomic_int expired;

static void count_timer(int signal, siginfo_t *info, void *context)
{
    (void)context;
    if (signal != target || info->si_code != SI_TIMER || info->si_value.sival_int != MARK)
        atomic_fetch_add(&wrong, 1);
    atomic_fetch_add(&expired, 1 + info->si_overrun);
}

static void row_timer(void)
{
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = target, .sigev_value.sival_int = MARK};
    const struct itimerspec every = {{.tv_nsec = 20 * MS}, {.tv_nsec = 20 * MS}}, never = {{0, 0}, {0, 0}};
    timer_t timer;

    install(SA_RESTART, count_timer);
    MUST(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
    long long start = clock_of(CLOCK_MONOTONIC);
    MUST(timer_settime(timer, 0, &every, NULL) == 0);
    burn_begin();
    burn_end();
    MUST(timer_settime(timer, 0, &never, NULL) == 0);
    int right = (int)((clock_of(CLOCK_MONOTONIC) - start) / (20 * MS)), got = atomic_load(&expired);
    if (got > right || got < right - 2 - right / 20 || atomic_load(&wrong))
        fail("%d expiries where %d are right, %d of somebody else", got, right, atomic_load(&wrong));
    printf("%d expiries where %d are right\n", got, right);
}

/* ---- other processes ---- */

static void restart(const char *row, const char *end)
{
    char endpoint[512];
    const char *before = getenv("EDGEPROF_ENDPOINT");

    if (before && end)
        (void)snprintf(endpoint, sizeof endpoint, "%s%s", before, end);
    if (before && end)
        (void)setenv("EDGEPROF_ENDPOINT", endpoint, 1);
    else
        (void)unsetenv("EDGEPROF_ENDPOINT");
    if (!end)
        (void)unsetenv("LD_PRELOAD");
    execl(self, self, row, target == SIGPROF ? "prof" : "own", (char *)NULL);
    fail("exec");
}

/* Really blocked, so that ticks are pending for sure. */
static void tick_pending(void)
{
    uint64_t bits = UINT64_MAX;

    MUST(syscall(SYS_rt_sigprocmask, SIG_SETMASK, &bits, NULL, sizeof bits) == 0);
    burn(50);
}

static void row_exec_pending(void)
{
    burn_begin();
    burn(50);
    tick_pending();
    restart("unblocks", NULL);
}

/* What is executed, without a profiler: no signal must be pending, none must kill it. */
static void row_unblocks(void)
{
    sigset_t set = all(), pending;

    MUST(sigpending(&pending) == 0);
    for (int i = 1; i <= SIGRTMAX; i++)
        MUST(sigismember(&pending, i) != 1);
    MUST(sigprocmask(SIG_UNBLOCK, &set, NULL) == 0);
    printf("nothing was pending\n");
}

static void row_exec_blocked(void)
{
    block_all();
    burn_begin();
    burn(20);
    restart("burns", ".second");
}

static void row_burns(void)
{
    burn_begin();
    burn_end();
    printf("goes on\n");
}

static void row_exec_blocked_pending(void)
{
    block_all();
    burn_begin();
    tick_pending();
    restart("burns", ".second");
}

static void row_vfork(void)
{
    install(SA_RESTART, count);
    burn_begin();
    for (int i = 0; i < SENT; i++) {
        int status = -1;
        pid_t child = vfork();
        if (child == 0) {
            execl(self, self, "seven", "prof", (char *)NULL);
            _exit(1);
        }
        MUST(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7);
    }
    send_all();
    burn_end();
    done(SENT);
}

static void row_spawn(void)
{
    char *const arguments[] = {self, (char *)"seven", (char *)"prof", NULL}, *const none[] = {NULL};
    sigset_t set = all();
    posix_spawnattr_t attributes;

    install(SA_RESTART, count);
    burn_begin();
    MUST(posix_spawnattr_init(&attributes) == 0 && posix_spawnattr_setsigmask(&attributes, &set) == 0);
    MUST(posix_spawnattr_setsigdefault(&attributes, &set) == 0);
    MUST(posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF) == 0);
    for (int i = 0; i < SENT; i++) {
        int status = -1;
        pid_t child;
        MUST(posix_spawn(&child, self, NULL, &attributes, arguments, none) == 0);
        MUST(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7);
    }
    send_all();
    burn_end();
    done(SENT);
}

/* A child of fork() has what its parent had, and dies as it would. */
static void row_fork(void)
{
    int status;

    burn_begin();
    for (int i = 0; i < SENT / 4; i++) {
        sigset_t set = only(target), seen;
        pid_t child = fork();
        if (child == 0) {
            MUST(sigprocmask(SIG_BLOCK, &set, NULL) == 0 && kill(getpid(), target) == 0);
            MUST(sigpending(&seen) == 0 && sigismember(&seen, target) == 1);
            (void)sigprocmask(SIG_UNBLOCK, &set, NULL);
            _exit(1);
        }
        MUST(child > 0 && waitpid(child, &status, 0) == child);
        MUST(WIFSIGNALED(status) && WTERMSIG(status) == target);
    }
    burn_end();
    done(0);
}

static void row_seven(void)
{
    _exit(7);
}

/* ---- the table ---- */

static const struct row {
    const char *name;
    void (*run)(void);
    int targets; /* 0: only executed by another row */
    bool dies;   /* by the target's signal */
} rows[] = {
    {"handler", row_handler, BOTH, false},
    {"default", row_default, BOTH, false},
    {"default_dies", row_default_dies, BOTH, true},
    {"ignored", row_ignored, BOTH, false},
    {"restored", row_restored, BOTH, false},
    {"told", row_told, BOTH, false},
    {"flags", row_flags, BOTH, false},
    {"every", row_every, BOTH, false},
    {"blocked", row_blocked, BOTH, false},
    {"blinking", row_blinking, BOTH, false},
    {"sigwait", row_sigwait, BOTH, false},
    {"sigwait_all", row_sigwait_all, BOTH, false},
    {"sigwaitinfo", row_sigwaitinfo, BOTH, false},
    {"sigtimedwait", row_sigtimedwait, BOTH, false},
    {"signalfd", row_signalfd, BOTH, false},
    {"ppoll", row_ppoll, BOTH, false},
    {"pselect", row_pselect, BOTH, false},
    {"epoll_pwait", row_epoll_pwait, BOTH, false},
    {"sigsuspend", row_sigsuspend, BOTH, false},
    {"itimer", row_itimer, PROF, false},
    {"timer", row_timer, BOTH, false},
    {"exec_pending", row_exec_pending, OWN, false},
    {"exec_blocked", row_exec_blocked, OWN, false},
    {"exec_blocked_pending", row_exec_blocked_pending, OWN, false},
    {"vfork", row_vfork, BOTH, false},
    {"spawn", row_spawn, BOTH, false},
    {"fork", row_fork, BOTH, false},
    {"unblocks", row_unblocks, 0, false},
    {"burns", row_burns, 0, false},
    {"seven", row_seven, 0, false},
};

#define ROWS (sizeof rows / sizeof rows[0])

/* The lowest real-time signal that has a handler though the program has installed none. */
static int own_number(void)
{
    char line[256];
    unsigned long long caught = 0;
    FILE *file = fopen("/proc/self/status", "r");

    while (file && fgets(line, sizeof line, file))
        (void)sscanf(line, "SigCgt: %llx", &caught);
    if (file)
        (void)fclose(file);
    caught &= ~0ull << (SIGRTMIN - 1);
    return caught ? __builtin_ctzll(caught) + 1 : MIDDLE;
}

#ifdef LINKED
static uint8_t memory[EP_MEMORY_DEFAULT];

static void profile_begin(void)
{
    struct ep_config config = {.memory = memory, .memory_size = sizeof memory};

    if (ep_config_from_env(&config) > 0 && ep_start(&config) != 0)
        fail("ep_start: %s", ep_start_error());
}

static void profile_end(void)
{
    (void)ep_stop(5000);
}
#else
static void profile_begin(void) {}
static void profile_end(void) {}
#endif

static int run_row(const char *name, const char *which)
{
    profile_begin();
    target = strcmp(which, "prof") == 0 ? SIGPROF : own_number();
    (void)alarm(120);
    for (size_t i = 0; i < ROWS; i++)
        if (strcmp(rows[i].name, name) == 0) {
            rows[i].run();
            fflush(stdout);
            profile_end();
            return 0;
        }
    fprintf(stderr, "signal_table: there is no row %s\n", name);
    return 2;
}

static void child_of(const struct row *row, const char *which, const char *dir, const char *library)
{
    char path[512], endpoint[512];

    (void)snprintf(path, sizeof path, "%s/%s-%s.out", dir, row->name, which);
    (void)snprintf(endpoint, sizeof endpoint, "file://%s/%s-%s.profile", dir, row->name, which);
    int out = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0644);
    if (out < 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0)
        _exit(126);
    (void)setenv("EDGEPROF_ENDPOINT", endpoint, 1);
    (void)setenv("EDGEPROF_RATE", "500", 1);
    if (library)
        (void)setenv("LD_PRELOAD", library, 1);
    execl(self, self, row->name, which, (char *)NULL);
    _exit(127);
}

static void last_line(const char *dir, const char *name, const char *which, char *text, int size)
{
    char path[512], line[256];
    (void)snprintf(path, sizeof path, "%s/%s-%s.out", dir, name, which);
    FILE *file = fopen(path, "r");

    text[0] = 0;
    while (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        (void)snprintf(text, (size_t)size, "%s", line);
    }
    if (file)
        (void)fclose(file);
}

static void run_apart(const struct row *row, const char *which, const char *dir, const char *library)
{
    char text[256];
    int status = 0, number = strcmp(which, "prof") == 0 ? SIGPROF : MIDDLE;

    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        child_of(row, which, dir, library);
    (void)waitpid(child, &status, 0);
    last_line(dir, row->name, which, text, sizeof text);
    printf("row %s %s %d %d %s\n", row->name, which, WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status),
           row->dies ? 128 + number : 0, text);
}

/* SIGNAL_ROW=NAME-TARGET: that one alone. */
static bool is_wanted(const char *name, const char *which)
{
    const char *only = getenv("SIGNAL_ROW");
    size_t size = strlen(name);

    return !only || (strncmp(only, name, size) == 0 && only[size] == '-' && strcmp(only + size + 1, which) == 0);
}

int main(int argc, char **argv)
{
    static const char *const targets[] = {"prof", "own"};
    const char *dir = argc > 2 && strcmp(argv[1], "--all") == 0 ? argv[2] : NULL;

    if (argc == 3 && !dir)
        return run_row(argv[1], argv[2]);
    ssize_t size = readlink("/proc/self/exe", self, sizeof self - 1); /* as qemu-user wants it */
    self[size > 0 ? size : 0] = 0;
    if (dir)
        (void)mkdir(dir, 0777);
    for (size_t i = 0; i < ROWS; i++)
        for (int t = 0; t < 2; t++)
            if (!(rows[i].targets & (t == 0 ? PROF : OWN)))
                continue;
            else if (dir && is_wanted(rows[i].name, targets[t]))
                run_apart(&rows[i], targets[t], dir, argc > 3 ? argv[3] : NULL);
            else if (!dir)
                printf("%s-%s\n", rows[i].name, targets[t]);
    return 0;
}
