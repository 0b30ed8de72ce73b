/*
 * Common code of the contract tests; see bench.h.
 */
#include "bench.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <edgeprof/port.h>

#define GUARD       64
#define GUARD_BYTE  0xa7
#define NEARER_NS   (50 * BENCH_MS)
#define PATIENCE_NS (30000 * BENCH_MS)

static struct {
    const char *name;
    unsigned broken;
    size_t size;
    atomic_uint pipes; /* number of SIGPIPEs */
    struct sigaction pipe_before;
    _Alignas(16) uint8_t memory[8 + 2 * GUARD + EP_TRANSPORT_BYTES];
} bench;

static struct {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool done, nearer;
    uint64_t since;
    struct ep_deadline deadline;
} watch = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void pause_ns(uint64_t ns)
{
    struct timespec time = {.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)};
    nanosleep(&time, NULL);
}

/* ---- begin and end ---- */

static void on_pipe(int number)
{
    (void)number;
    atomic_fetch_add(&bench.pipes, 1);
}

void bench_begin(const char *name, size_t state_size)
{
    struct sigaction action = {.sa_handler = on_pipe};

    bench.name = name && name[0] ? name : "(without a name)";
    bench.broken = 0;
    bench.size = state_size <= EP_TRANSPORT_BYTES ? state_size : EP_TRANSPORT_BYTES;
    atomic_store(&bench.pipes, 0);
    sigaction(SIGPIPE, &action, &bench.pipe_before);
    bench_holds(name && name[0], "it has a name");
    bench_holds(state_size <= EP_TRANSPORT_BYTES, "state_size is %zu, at most EP_TRANSPORT_BYTES, %d, are given",
                state_size, EP_TRANSPORT_BYTES);
}

unsigned bench_end(void)
{
    bench_holds(atomic_load(&bench.pipes) == 0, "SIGPIPE was raised %u times: a program that does not expect it ends",
                atomic_load(&bench.pipes));
    sigaction(SIGPIPE, &bench.pipe_before, NULL);
    return bench.broken;
}

bool bench_holds(bool holds, const char *format, ...)
{
    char text[256];
    va_list arguments;

    if (holds)
        return true;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fprintf(stderr, "contract: %s: broken: %s\n", bench.name, text);
    bench.broken++;
    return false;
}

/* ---- memory ---- */

/* Not aligned to 16: the contract promises only 8. */
static uint8_t *state(void)
{
    return bench.memory + 8 + GUARD;
}

void *bench_state(void)
{
    memset(bench.memory, GUARD_BYTE, sizeof bench.memory);
    memset(state(), 0, bench.size);
    return state();
}

bool bench_guarded(void)
{
    for (size_t i = 0; i < sizeof bench.memory; i++) {
        bool inside = i >= 8 + GUARD && i < 8 + GUARD + bench.size;
        if (!inside && bench.memory[i] != GUARD_BYTE)
            return false;
    }
    return true;
}

/* ---- deadlines ---- */

/* Waits for the time or until the watched call has returned. */
static bool wait_done(uint64_t ns)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    uint64_t end = (uint64_t)until.tv_nsec + ns;
    until.tv_sec += (time_t)(end / 1000000000);
    until.tv_nsec = (long)(end % 1000000000);
    int err = 0;
    while (!watch.done && err == 0)
        err = pthread_cond_timedwait(&watch.changed, &watch.lock, &until);
    return watch.done;
}

static void *watcher(void *unused)
{
    pthread_mutex_lock(&watch.lock);
    if (watch.nearer && !wait_done(NEARER_NS))
        atomic_store(&watch.deadline.at_ns, ep_port_uptime_ns());
    uint64_t now = ep_port_uptime_ns(), end = ep_deadline_ns(&watch.deadline);
    if (!wait_done((end > now ? end - now : 0) + PATIENCE_NS)) {
        fprintf(stderr, "contract: %s: broken: a call has not returned half a minute after its deadline\n", bench.name);
        _exit(1);
    }
    pthread_mutex_unlock(&watch.lock);
    return unused;
}

/* With all signals blocked, so that bench_interrupt() interrupts only the thread under test. */
static void start_watcher(void)
{
    sigset_t all, before;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int err = pthread_create(&watch.thread, NULL, watcher, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (err) {
        fprintf(stderr, "contract: no thread could be started: %s\n", strerror(err));
        _exit(1);
    }
}

const struct ep_deadline *bench_watch(uint64_t in_ns, bool nearer)
{
    watch.done = false;
    watch.nearer = nearer;
    watch.since = ep_port_uptime_ns();
    atomic_store(&watch.deadline.at_ns, in_ns ? watch.since + in_ns : 0);
    start_watcher();
    return &watch.deadline;
}

uint64_t bench_done(void)
{
    uint64_t took = ep_port_uptime_ns() - watch.since;

    pthread_mutex_lock(&watch.lock);
    watch.done = true;
    pthread_cond_broadcast(&watch.changed);
    pthread_mutex_unlock(&watch.lock);
    pthread_join(watch.thread, NULL);
    return took;
}

/* ---- signals ---- */

static void on_alarm(int number)
{
    (void)number;
}

void bench_interrupt(bool on)
{
    static struct sigaction before;
    static timer_t timer;
    struct sigaction action = {.sa_handler = on_alarm}; /* no SA_RESTART */
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM};
    struct itimerspec often = {.it_value.tv_nsec = 1000000, .it_interval.tv_nsec = 1000000};

    if (!on) {
        timer_delete(timer);
        sigaction(SIGALRM, &before, NULL);
        return;
    }
    sigaction(SIGALRM, &action, &before);
    if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0 || timer_settime(timer, 0, &often, NULL) != 0)
        abort();
}

/* ---- descriptors ---- */

int bench_descriptors(int *inherited)
{
    DIR *folder = opendir("/proc/self/fd");
    int count = 0;

    *inherited = 0;
    if (!folder)
        return -1;
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        int fd = atoi(entry->d_name);
        if (entry->d_name[0] == '.' || fd == dirfd(folder))
            continue;
        count++;
        *inherited += (fcntl(fd, F_GETFD) & FD_CLOEXEC) == 0;
    }
    closedir(folder);
    return count;
}

bool bench_descriptors_back(int count)
{
    int inherited;

    for (int i = 0; i < 500; i++) {
        if (bench_descriptors(&inherited) <= count)
            return true;
        pause_ns(10 * BENCH_MS);
    }
    return false;
}
