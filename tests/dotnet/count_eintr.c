/*
 * Counts what a program sees of signals: calls of libc that return EINTR. Preloaded; at exit appends one line a call,
 * `eintr NAME COUNT of CALLS`, to the file that COUNT_EINTR names.
 */
#include "../program.h"

#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/uio.h>

static struct count {
    const char *name;
    atomic_ulong calls, interrupted;
} counts[64];
static atomic_uint used;

static void seen(struct count *count, int error)
{
    (void)atomic_fetch_add_explicit(&count->calls, 1, memory_order_relaxed);
    if (error == EINTR)
        (void)atomic_fetch_add_explicit(&count->interrupted, 1, memory_order_relaxed);
}

static struct count *count_of(const char *name)
{
    struct count *count = &counts[atomic_fetch_add(&used, 1) % 64];

    count->name = name;
    return count;
}

/* clang-format off */
/* Calls that return -1 and set errno. */
#define COUNTED(result, name, parameters, arguments) \
    result name parameters; \
    result name parameters \
    { \
        static result (*_Atomic real) parameters; \
        static struct count *_Atomic count; \
        if (!real) { \
            count = count_of(#name); \
            *(void **)(void *)&real = dlsym(RTLD_NEXT, #name); \
        } \
        result got = real arguments; \
        seen(count, got == -1 ? errno : 0); \
        return got; \
    }
/* Calls that return the error. */
#define COUNTED_ERROR(name, parameters, arguments) \
    int name parameters; \
    int name parameters \
    { \
        static int (*_Atomic real) parameters; \
        static struct count *_Atomic count; \
        if (!real) { \
            count = count_of(#name); \
            *(void **)(void *)&real = dlsym(RTLD_NEXT, #name); \
        } \
        int got = real arguments; \
        seen(count, got); \
        return got; \
    }

COUNTED(ssize_t, read, (int fd, void *data, size_t size), (fd, data, size))
COUNTED(ssize_t, write, (int fd, const void *data, size_t size), (fd, data, size))
COUNTED(ssize_t, pread, (int fd, void *data, size_t size, off_t at), (fd, data, size, at))
COUNTED(ssize_t, pwrite, (int fd, const void *data, size_t size, off_t at), (fd, data, size, at))
COUNTED(ssize_t, pread64, (int fd, void *data, size_t size, off64_t at), (fd, data, size, at))
COUNTED(ssize_t, pwrite64, (int fd, const void *data, size_t size, off64_t at), (fd, data, size, at))
COUNTED(int, fsync, (int fd), (fd))
COUNTED(ssize_t, recv, (int fd, void *data, size_t size, int flags), (fd, data, size, flags))
COUNTED(ssize_t, send, (int fd, const void *data, size_t size, int flags), (fd, data, size, flags))
COUNTED(ssize_t, recvmsg, (int fd, struct msghdr *message, int flags), (fd, message, flags))
COUNTED(ssize_t, sendmsg, (int fd, const struct msghdr *message, int flags), (fd, message, flags))
COUNTED(int, accept, (int fd, __SOCKADDR_ARG address, socklen_t *size), (fd, address, size))
COUNTED(int, accept4, (int fd, __SOCKADDR_ARG address, socklen_t *size, int flags), (fd, address, size, flags))
COUNTED(int, connect, (int fd, __CONST_SOCKADDR_ARG address, socklen_t size), (fd, address, size))
COUNTED(int, poll, (struct pollfd *fds, nfds_t count_, int timeout), (fds, count_, timeout))
COUNTED(int, select, (int most, fd_set *in, fd_set *out, fd_set *other, struct timeval *timeout), (most, in, out, other, timeout))
COUNTED(int, epoll_wait, (int fd, struct epoll_event *events, int most, int timeout), (fd, events, most, timeout))
COUNTED(int, nanosleep, (const struct timespec *time, struct timespec *rest), (time, rest))
COUNTED(int, sem_wait, (sem_t *semaphore), (semaphore))
COUNTED(int, sem_timedwait, (sem_t *semaphore, const struct timespec *until), (semaphore, until))
COUNTED(pid_t, waitpid, (pid_t process, int *status, int options), (process, status, options))
COUNTED_ERROR(clock_nanosleep, (clockid_t clock, int flags, const struct timespec *time, struct timespec *rest), (clock, flags, time, rest))
/* clang-format on */

__attribute__((destructor)) static void tell(void)
{
    const char *path = getenv("COUNT_EINTR");
    FILE *file = path ? fopen(path, "a") : NULL;

    if (!file)
        return;
    for (unsigned i = 0; i < used && i < 64; i++)
        (void)fprintf(file, "eintr %s %lu of %lu\n", counts[i].name, (unsigned long)counts[i].interrupted,
                      (unsigned long)counts[i].calls);
    (void)fclose(file);
}
