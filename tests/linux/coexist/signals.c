/*
 * Signals, timers, and calls that a signal would interrupt. tests/linux/signals has what concerns edgeprof's numbers.
 */
#include "kinds.h"

#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/signalfd.h>

static atomic_int counted;

static void count(int signal)
{
    (void)signal;
    (void)atomic_fetch_add(&counted, 1);
}

/* ---- the table ---- */

static void show_actions(const char *when)
{
    struct sigaction action;

    for (int signal = 1; signal <= 64; signal++)
        if (sigaction(signal, NULL, &action) == 0 && (action.sa_handler != SIG_DFL))
            kinds_say("%s: %d has %s\n", when, signal, action.sa_handler == SIG_IGN ? "SIG_IGN" : "a handler");
}

static int saves_all(void)
{
    struct sigaction kept[65];
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    bool has[65];

    show_actions("first");
    for (int signal = 1; signal <= 64; signal++)
        has[signal] = sigaction(signal, &ignore, &kept[signal]) == 0;
    kinds_burn(100);
    show_actions("ignored");
    for (int signal = 1; signal <= 64; signal++)
        if (has[signal] && sigaction(signal, &kept[signal], NULL) != 0)
            return KINDS_FAILED;
    kinds_burn(100);
    show_actions("last");
    return KINDS_DONE;
}

/* As a shell or init resets everything that it inherits. */
static int resets_all(void)
{
    sigset_t none;

    for (int signal_ = 1; signal_ <= 64; signal_++)
        (void)signal(signal_, SIG_DFL);
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    kinds_burn(150);
    show_actions("reset");
    return KINDS_DONE;
}

/* The same by the kernel's own call. */
static int resets_all_raw(void)
{
    struct {
        void *handler;
        unsigned long flags;
        void *restorer;
        unsigned long mask[2];
    } action = {0};

    for (int signal_ = 1; signal_ <= 31; signal_++)
        (void)syscall(SYS_rt_sigaction, signal_, &action, NULL, 8);
    kinds_burn(150);
    return KINDS_DONE;
}

static int shows_mask(void)
{
    sigset_t all, got;
    unsigned blocked = 0;

    kinds_burn(50);
    (void)sigfillset(&all);
    if (sigprocmask(SIG_BLOCK, &all, &got) != 0)
        return KINDS_FAILED;
    for (int signal = 1; signal <= 64; signal++)
        blocked += sigismember(&got, signal) == 1;
    kinds_burn(100);
    if (sigprocmask(SIG_SETMASK, &got, &all) != 0)
        return KINDS_FAILED;
    for (int signal = 1; signal <= 64; signal++)
        blocked += sigismember(&all, signal) == 1;
    if (sigpending(&got) != 0)
        return KINDS_FAILED;
    for (int signal = 1; signal <= 64; signal++)
        if (sigismember(&got, signal) == 1)
            kinds_say("pending: %d\n", signal);
    kinds_say("%u\n", blocked);
    return KINDS_DONE;
}

static int blocks_raw(void)
{
    const unsigned long all[2] = {~0ul, ~0ul};
    unsigned long old[2] = {0};

    kinds_burn(50);
    if (syscall(SYS_rt_sigprocmask, SIG_SETMASK, all, old, 8) != 0)
        return KINDS_FAILED;
    kinds_burn(100);
    if (syscall(SYS_rt_sigprocmask, SIG_SETMASK, old, NULL, 8) != 0)
        return KINDS_FAILED;
    kinds_burn(50);
    return KINDS_DONE;
}

/* ---- who waits for signals ---- */

static void *wait_for_all(void *set)
{
    int got;

    while (sigwait(set, &got) == 0 && got != SIGTERM)
        kinds_say("got %d\n", got);
    return NULL;
}

static int waits_in_thread(void)
{
    sigset_t all;
    pthread_t thread;

    (void)sigfillset(&all);
    if (pthread_sigmask(SIG_SETMASK, &all, NULL) != 0 || pthread_create(&thread, NULL, wait_for_all, &all) != 0)
        return KINDS_FAILED;
    kinds_burn(100);
    (void)kill(getpid(), SIGHUP);
    kinds_burn(100);
    (void)kill(getpid(), SIGTERM);
    (void)pthread_join(thread, NULL);
    return KINDS_DONE;
}

static int reads_all(void)
{
    sigset_t all;
    struct signalfd_siginfo info;

    (void)sigfillset(&all);
    if (sigprocmask(SIG_SETMASK, &all, NULL) != 0)
        return KINDS_FAILED;
    const int fd = signalfd(-1, &all, SFD_NONBLOCK | SFD_CLOEXEC);
    kinds_burn(100);
    (void)raise(SIGUSR1);
    (void)raise(SIGRTMAX);
    while (read(fd, &info, sizeof info) == sizeof info)
        kinds_say("read %u\n", info.ssi_signo);
    return KINDS_DONE;
}

static void *burn_soon(void *unused)
{
    kinds_burn(150);
    return unused;
}

static int child_signal(void)
{
    struct sigaction action = {.sa_handler = count, .sa_flags = SA_NOCLDSTOP};

    (void)sigaction(SIGCHLD, &action, NULL);
    for (unsigned i = 0; i < 10; i++) {
        const pid_t child = fork();
        if (child == 0)
            _exit(0);
        kinds_burn(10);
        (void)kinds_wait(child);
    }
    kinds_say("%d %d\n", atomic_load(&counted), waitpid(-1, NULL, WNOHANG | __WALL));
    return KINDS_DONE;
}

/* ---- timers ---- */

static int interval_timers(void)
{
    const struct itimerval ms20 = {{0, 20000}, {0, 20000}}, never = {{0, 0}, {0, 0}};
    struct itimerval now;

    (void)signal(SIGPROF, count);
    (void)signal(SIGVTALRM, count);
    (void)signal(SIGALRM, count);
    for (int which = ITIMER_REAL; which <= ITIMER_PROF; which++) {
        if (getitimer((__itimer_which_t)which, &now) != 0 || now.it_value.tv_sec != 0 || now.it_value.tv_usec != 0)
            return KINDS_FAILED;
        atomic_store(&counted, 0);
        if (setitimer((__itimer_which_t)which, &ms20, NULL) != 0)
            return KINDS_FAILED;
        kinds_burn(150);
        if (setitimer((__itimer_which_t)which, &never, NULL) != 0)
            return KINDS_FAILED;
        kinds_say("%d: %s\n", which, atomic_load(&counted) >= 5 ? "many" : "few");
    }
    return KINDS_DONE;
}

static int many_timers(void)
{
    timer_t timers[200];
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN + 3};
    const struct itimerspec once = {.it_value = {0, 1000000}};

    (void)signal(SIGRTMIN + 3, count);
    for (unsigned i = 0; i < 200; i++)
        if (timer_create(i & 1 ? CLOCK_MONOTONIC : CLOCK_PROCESS_CPUTIME_ID, &event, &timers[i]) != 0 ||
            timer_settime(timers[i], 0, &once, NULL) != 0)
            return KINDS_FAILED;
    kinds_burn(100);
    for (unsigned i = 0; i < 200; i++)
        if (timer_delete(timers[i]) != 0)
            return KINDS_FAILED;
    kinds_say("%d\n", atomic_load(&counted));
    return KINDS_DONE;
}

/* A program that deletes the timers of all ids that it may have. */
static int deletes_all_ids(void)
{
    for (long id = 0; id < 64; id++)
        (void)syscall(SYS_timer_delete, id);
    kinds_burn(150);
    return KINDS_DONE;
}

static void notified(union sigval value)
{
    (void)value;
    count(0);
}

static int timer_thread(void)
{
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = notified};
    const struct itimerspec often = {{0, 10000000}, {0, 10000000}};

    if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0 || timer_settime(timer, 0, &often, NULL) != 0)
        return KINDS_FAILED;
    kinds_burn(150);
    (void)timer_delete(timer);
    kinds_say("%s\n", atomic_load(&counted) >= 5 ? "many" : "few");
    return KINDS_DONE;
}

/* ---- queues ---- */

static atomic_int order, disorder;

static void in_order(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)context;
    if (info->si_code != SI_QUEUE || info->si_value.sival_int != atomic_fetch_add(&order, 1))
        (void)atomic_fetch_add(&disorder, 1);
}

static int queues(void)
{
    struct sigaction action = {.sa_sigaction = in_order, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigset_t one, old;

    (void)sigaction(SIGRTMIN + 1, &action, NULL);
    (void)sigemptyset(&one);
    (void)sigaddset(&one, SIGRTMIN + 1);
    (void)sigprocmask(SIG_BLOCK, &one, &old);
    for (int i = 0; i < 2000; i++)
        if (sigqueue(getpid(), SIGRTMIN + 1, (union sigval){.sival_int = i}) != 0)
            return KINDS_FAILED;
    kinds_burn(50);
    (void)sigprocmask(SIG_SETMASK, &old, NULL);
    kinds_burn(50);
    kinds_say("%d %d\n", atomic_load(&order), atomic_load(&disorder));
    return KINDS_DONE;
}

/* ---- calls that a signal interrupts ---- */

static atomic_bool enough;
static atomic_int interrupted;

static void check(long result)
{
    if (result < 0 && errno == EINTR)
        (void)atomic_fetch_add(&interrupted, 1);
}

/* Each call waits for some ms, on a thread that works between the calls. */
static void *wait_in_turn(void *unused)
{
    const struct timespec ms3 = {0, 3000000};
    struct epoll_event event;
    struct timespec until;
    int ends[2];
    sem_t semaphore;
    const int epoll = epoll_create1(0);

    (void)sem_init(&semaphore, 0, 0);
    (void)!socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
    struct pollfd look = {.fd = ends[0], .events = POLLIN};
    while (!atomic_load(&enough)) {
        kinds_burn(12);
        check(poll(&look, 1, 3));
        check(epoll_wait(epoll, &event, 1, 3));
        check(select(0, NULL, NULL, NULL, &(struct timeval){0, 3000}));
        check(nanosleep(&ms3, NULL));
        check(usleep(3000));
        (void)clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec = (until.tv_nsec + 3000000) % 1000000000;
        check(sem_timedwait(&semaphore, &until));
        (void)setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){0, 3000}, sizeof(struct timeval));
        check(recv(ends[0], &event, 1, 0));
    }
    return unused;
}

static int never_interrupted(void)
{
    pthread_t thread, other;

    if (pthread_create(&thread, NULL, wait_in_turn, NULL) != 0 || pthread_create(&other, NULL, burn_soon, NULL) != 0)
        return KINDS_FAILED;
    kinds_burn(400);
    atomic_store(&enough, true);
    (void)pthread_join(thread, NULL);
    (void)pthread_join(other, NULL);
    kinds_say("interrupted: %d\n", atomic_load(&interrupted));
    return KINDS_DONE;
}

/* A child burns, its parent does not, while it waits for it. */
static int waits_for_child(void)
{
    int ends[2], status;
    char byte;

    kinds_burn(50);
    if (pipe(ends) != 0)
        return KINDS_FAILED;
    const pid_t child = fork();
    if (child == 0) {
        kinds_burn(150);
        (void)!write(ends[1], "x", 1);
        kinds_burn(100);
        _exit(6);
    }
    if (read(ends[0], &byte, 1) != 1 || waitpid(child, &status, 0) != child)
        return KINDS_FAILED;
    kinds_say("%d\n", WEXITSTATUS(status));
    return KINDS_DONE;
}

static int keeps_errno(void)
{
    unsigned wrong = 0;

    kinds_burn_beside();
    for (unsigned i = 0; i < 150; i++) {
        errno = 1234;
        for (volatile int n = 0; n < 1000000; n++) {
        }
        wrong += errno != 1234;
    }
    kinds_say("%u\n", wrong);
    return KINDS_DONE;
}

/* ---- the end by a signal ---- */

static int aborts(void)
{
    kinds_burn(100);
    abort();
}

static int killed_by_default(void)
{
    kinds_burn(100);
    (void)raise(SIGUSR2);
    return KINDS_FAILED;
}

static int killed_in_thread(void)
{
    kinds_burn_beside();
    kinds_burn(100);
    (void)signal(SIGTERM, SIG_DFL);
    (void)kill(0 * getppid() + getpid(), SIGTERM);
    (void)pause();
    return KINDS_FAILED;
}

static int stopped_and_continued(void)
{
    int status;
    const pid_t child = fork();

    if (child == 0) {
        kinds_burn(400);
        _exit(6);
    }
    (void)usleep(50000);
    (void)kill(child, SIGSTOP);
    if (waitpid(child, &status, WUNTRACED) != child || !WIFSTOPPED(status))
        return KINDS_FAILED;
    (void)kill(child, SIGCONT);
    if (waitpid(child, &status, WCONTINUED) != child || !WIFCONTINUED(status))
        return KINDS_FAILED;
    kinds_say("%d\n", kinds_wait(child));
    return KINDS_DONE;
}

const struct kinds_form kinds_signals[] = {
    {"saves-all", saves_all},
    {"resets-all", resets_all},
    {"resets-all-raw", resets_all_raw},
    {"shows-mask", shows_mask},
    {"blocks-raw", blocks_raw},
    {"waits-in-thread", waits_in_thread},
    {"reads-all", reads_all},
    {"child-signal", child_signal},
    {"interval-timers", interval_timers},
    {"many-timers", many_timers},
    {"deletes-all-ids", deletes_all_ids},
    {"timer-thread", timer_thread},
    {"queues", queues},
    {"never-interrupted", never_interrupted},
    {"waits-for-child", waits_for_child},
    {"keeps-errno", keeps_errno},
    {"aborts", aborts},
    {"killed-by-default", killed_by_default},
    {"killed-in-thread", killed_in_thread},
    {"stopped-and-continued", stopped_and_continued},
    {0},
};
