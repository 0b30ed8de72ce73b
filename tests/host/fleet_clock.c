/*
 * LD_PRELOAD: `edgeprof serve` with a simulated wall clock. SIMULATED_CLOCK names a file with a struct simulated, which
 * the test changes (fleet.py has the same layout). CLOCK_REALTIME is real time plus `ahead`, and CLOCK_BOOTTIME plus
 * `passed`. The keeper's pauses between two steps take no time, and its long pause ends when the test begins another
 * turn. While it lasts, `rested` is the turn in which the keeper found nothing to do. The disk syncs at once.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { BINS = 40 };

struct simulated {
    _Atomic int64_t ahead;
    _Atomic uint64_t turn, rested;
    _Atomic uint64_t steps, nanoseconds, longest; /* of the keeper */
    _Atomic uint64_t bins[BINS];                  /* steps of 2^i to 2^(i+1) microseconds */
    _Atomic int64_t passed;
};

static const int64_t SECOND = 1000000000, LOOK = 10000000000; /* LOOK: of keeper.c */

static struct simulated none, *simulated = &none;
static int (*real_gettime)(clockid_t clock, struct timespec *now);
static int (*real_wait)(pthread_cond_t *condition, pthread_mutex_t *lock, const struct timespec *until);
static _Thread_local int64_t begun; /* of the keeper's step; 0: another thread */
static _Thread_local uint64_t seen; /* turn in which the step began */

__attribute__((constructor)) static void begin_simulation(void)
{
    const char *path = getenv("SIMULATED_CLOCK");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    void *there = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof *simulated, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    real_gettime = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    real_wait = (int (*)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *))dlsym(RTLD_NEXT,
                                                                                             "pthread_cond_timedwait");
    simulated = there == MAP_FAILED ? &none : there;
    if (fd >= 0) {
        close(fd);
    }
}

static struct timespec time_of(int64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / SECOND), .tv_nsec = (long)(ns % SECOND)};
}

static int64_t ns_of(const struct timespec *time)
{
    return (int64_t)time->tv_sec * SECOND + time->tv_nsec;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int code = real_gettime ? real_gettime(clock, now) : -1;
    if (code == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_BOOTTIME)) {
        _Atomic int64_t *more = clock == CLOCK_REALTIME ? &simulated->ahead : &simulated->passed;
        *now = time_of(ns_of(now) + atomic_load_explicit(more, memory_order_relaxed));
    }
    return code;
}

static int64_t monotonic(void)
{
    struct timespec now;
    (void)real_gettime(CLOCK_MONOTONIC, &now);
    return ns_of(&now);
}

static void note_step(int64_t ns)
{
    uint64_t took = (uint64_t)ns;
    int bin = 0;
    while (bin < BINS - 1 && took / 1000 >> (bin + 1)) {
        bin++;
    }
    atomic_fetch_add(&simulated->steps, 1);
    atomic_fetch_add(&simulated->nanoseconds, took);
    atomic_fetch_add(&simulated->bins[bin], 1);
    if (took > atomic_load(&simulated->longest)) {
        atomic_store(&simulated->longest, took);
    }
}

static int rest(pthread_cond_t *condition, pthread_mutex_t *lock, int64_t end)
{
    static const int64_t SLICE = 1000000;
    int code = 0;
    atomic_store(&simulated->rested, seen);
    do {
        int64_t now = monotonic();
        if (now >= end || seen != atomic_load(&simulated->turn)) {
            return ETIMEDOUT;
        }
        struct timespec slice = time_of(now + SLICE);
        code = real_wait(condition, lock, &slice);
    } while (code == ETIMEDOUT);
    return code;
}

int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *lock, const struct timespec *until)
{
    int64_t now = monotonic(), end = ns_of(until);
    bool is_long = end - now > LOOK - SECOND && end - now <= LOOK;
    if (begun) {
        note_step(now - begun);
    }
    int code = is_long ? rest(condition, lock, end) : begun ? ETIMEDOUT : real_wait(condition, lock, until);
    begun = is_long || begun ? monotonic() : 0;
    seen = atomic_load(&simulated->turn);
    return code;
}

int fdatasync(int fd)
{
    (void)fd;
    return 0;
}

int fsync(int fd)
{
    (void)fd;
    return 0;
}
