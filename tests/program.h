/*
 * Included first by the C programs that tests run or measure: what they use of the C library and of POSIX, and the
 * clocks in nanoseconds.
 */
#ifndef PROGRAM_H
#define PROGRAM_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

static inline uint64_t clock_ns(clockid_t clock)
{
    struct timespec now;

    (void)clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline uint64_t now_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

/* CPU time of edgeprof's threads in this process whose names begin so; 0: there is none. */
static inline uint64_t own_ns(const char *names)
{
    uint64_t sum = 0;
    DIR *tasks = opendir("/proc/self/task");

    for (const struct dirent *task; tasks && (task = readdir(tasks)) != NULL;) {
        char path[300], name[16] = "";
        (void)snprintf(path, sizeof path, "/proc/self/task/%s/comm", task->d_name);
        const int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd >= 0 && read(fd, name, sizeof name - 1) > 0 && strncmp(name, names, strlen(names)) == 0)
            sum += clock_ns((clockid_t)(~(unsigned)atoi(task->d_name) << 3 | 6)); /* MAKE_THREAD_CPUCLOCK of Linux */
        if (fd >= 0)
            (void)close(fd);
    }
    if (tasks)
        (void)closedir(tasks);
    return sum;
}

#endif
