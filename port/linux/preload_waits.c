/*
 * Waits of programs built without edgeprof: interposes the C library's blocking functions and marks them by
 * ep_wait_begin() and ep_wait_end(). While the kinds are off, a call costs one more branch.
 *
 * Each function calls the real one once, so results, errno and cancellation do not change. Locks are tried first, since
 * taking a free lock is no wait. preload_waits_inside.c has functions that wait inside. Calls of edgeprof's own threads
 * do not count, nor do calls that are told not to wait (MSG_DONTWAIT, a timeout of 0). Whether a descriptor
 * is non-blocking is not known: asking takes a system call, and a note could be wrong without a sign, because other
 * processes and the C library's own calls change and close descriptors too. epoll_wait counts as [idle].
 *
 * A cancellation or an exception of C++ that leaves a wait ends it: ep_preload_unwound().
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <unistd.h>

#include "preload_waits.h"
#include "signal_calls.h"

/* clang-format off */
/* With a temporary mask: interposed even if waits are off. */
#define MASKED(name, wait, arguments, passed) \
    FUNCTION(int, name, arguments) \
    { \
        type_##name *next = next_##name(); \
        bool waits = is_wanted(WAITS); \
        sigset_t lent; \
        uint64_t kept = ep_linux_mask_lend(mask); \
        mask = ep_linux_mask_lent(mask, &lent); \
        if (waits) \
            wait_begin(wait); \
        int value = next passed; \
        if (waits) \
            ep_wait_end(); \
        ep_linux_mask_return(kept); \
        return value; \
    }

#define LOCKING(name, try, arguments, passed) LOCKING_BUSY(name, try, EBUSY, arguments, passed)

/* The mode argument is passed only if a file may be created. */
#define OPENING(name, arguments, ...) \
    FUNCTION(int, name, arguments) \
    { \
        type_##name *next = next_##name(); \
        va_list list; \
        va_start(list, flags); \
        unsigned mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(list, unsigned) : 0; \
        va_end(list); \
        if (!is_wanted(WAITS)) \
            return next(__VA_ARGS__, mode); \
        wait_begin(EP_WAIT_DISK); \
        int value = next(__VA_ARGS__, mode); \
        ep_wait_end(); \
        return value; \
    }

/* ---- locks ---- */

NEXT(int, pthread_mutex_trylock, (pthread_mutex_t *lock))
NEXT(int, pthread_rwlock_tryrdlock, (pthread_rwlock_t *lock))
NEXT(int, pthread_rwlock_trywrlock, (pthread_rwlock_t *lock))
LOCKING(pthread_mutex_lock, pthread_mutex_trylock, (pthread_mutex_t *lock), (lock))
LOCKING(pthread_mutex_timedlock, pthread_mutex_trylock, (pthread_mutex_t *lock, const void *until), (lock, until))
LOCKING(pthread_mutex_clocklock, pthread_mutex_trylock, (pthread_mutex_t *lock, int clock, const void *until), (lock, clock, until))
LOCKING(pthread_rwlock_rdlock, pthread_rwlock_tryrdlock, (pthread_rwlock_t *lock), (lock))
LOCKING(pthread_rwlock_wrlock, pthread_rwlock_trywrlock, (pthread_rwlock_t *lock), (lock))
LOCKING(pthread_rwlock_timedrdlock, pthread_rwlock_tryrdlock, (pthread_rwlock_t *lock, const void *until), (lock, until))
LOCKING(pthread_rwlock_timedwrlock, pthread_rwlock_trywrlock, (pthread_rwlock_t *lock, const void *until), (lock, until))
LOCKING(pthread_rwlock_clockrdlock, pthread_rwlock_tryrdlock, (pthread_rwlock_t *lock, int clock, const void *until), (lock, clock, until))
LOCKING(pthread_rwlock_clockwrlock, pthread_rwlock_trywrlock, (pthread_rwlock_t *lock, int clock, const void *until), (lock, clock, until))

/* ---- other threads and processes ---- */

WAITING(int, pthread_cond_wait, EP_WAIT_OTHER, (void *condition, void *mutex), (condition, mutex))
WAITING(int, pthread_cond_timedwait, EP_WAIT_OTHER, (void *condition, void *mutex, const void *until), (condition, mutex, until))
WAITING(int, pthread_cond_clockwait, EP_WAIT_OTHER, (void *condition, void *mutex, int clock, const void *until), (condition, mutex, clock, until))
WAITING(int, pthread_barrier_wait, EP_WAIT_OTHER, (void *barrier), (barrier))
WAITING(int, pthread_join, EP_WAIT_OTHER, (pthread_t thread, void **result), (thread, result))
WAITING(int, pthread_timedjoin_np, EP_WAIT_OTHER, (pthread_t thread, void **result, const void *until), (thread, result, until))
WAITING(int, pthread_clockjoin_np, EP_WAIT_OTHER, (pthread_t thread, void **result, int clock, const void *until), (thread, result, clock, until))
WAITING(int, sem_wait, EP_WAIT_OTHER, (void *semaphore), (semaphore))
WAITING(int, sem_timedwait, EP_WAIT_OTHER, (void *semaphore, const void *until), (semaphore, until))
WAITING(int, sem_clockwait, EP_WAIT_OTHER, (void *semaphore, int clock, const void *until), (semaphore, clock, until))
WAITING(pid_t, wait, EP_WAIT_OTHER, (int *status), (status))
WAITING(pid_t, waitpid, EP_WAIT_OTHER, (pid_t pid, int *status, int options), (pid, status, options))
WAITING(pid_t, wait3, EP_WAIT_OTHER, (int *status, int options, void *usage), (status, options, usage))
WAITING(pid_t, wait4, EP_WAIT_OTHER, (pid_t pid, int *status, int options, void *usage), (pid, status, options, usage))
WAITING(int, waitid, EP_WAIT_OTHER, (int type, unsigned id, void *info, int options), (type, id, info, options))

/* ---- time ---- */

WAITING(unsigned, sleep, EP_WAIT_SLEEP, (unsigned seconds), (seconds))
WAITING(int, usleep, EP_WAIT_SLEEP, (unsigned microseconds), (microseconds))
WAITING(int, nanosleep, EP_WAIT_SLEEP, (const void *time, void *left), (time, left))
WAITING(int, clock_nanosleep, EP_WAIT_SLEEP, (int clock, int flags, const void *time, void *left), (clock, flags, time, left))

/* ---- events on descriptors ---- */

WAITING_IF(timeout != 0, int, poll, count ? EP_WAIT_NETWORK : EP_WAIT_SLEEP, (void *events, unsigned long count, int timeout), (events, count, timeout))
MASKED(ppoll, count ? EP_WAIT_NETWORK : EP_WAIT_SLEEP, (void *events, unsigned long count, const void *timeout, const void *mask), (events, count, timeout, mask))
MASKED(__ppoll_chk, count ? EP_WAIT_NETWORK : EP_WAIT_SLEEP, (void *events, unsigned long count, const void *timeout, const void *mask, size_t room), (events, count, timeout, mask, room))
WAITING_IF(timeout != 0, int, __poll_chk, count ? EP_WAIT_NETWORK : EP_WAIT_SLEEP, (void *events, unsigned long count, int timeout, size_t room), (events, count, timeout, room))
WAITING(int, select, count ? EP_WAIT_NETWORK : EP_WAIT_SLEEP, (int count, void *in, void *out, void *bad, void *timeout), (count, in, out, bad, timeout))
MASKED(pselect, count ? EP_WAIT_NETWORK : EP_WAIT_SLEEP, (int count, void *in, void *out, void *bad, const void *timeout, const void *mask), (count, in, out, bad, timeout, mask))
WAITING_IF(timeout != 0, int, epoll_wait, EP_WAIT_IDLE, (int fd, void *events, int count, int timeout), (fd, events, count, timeout))
MASKED(epoll_pwait, EP_WAIT_IDLE, (int fd, void *events, int count, int timeout, const void *mask), (fd, events, count, timeout, mask))
MASKED(epoll_pwait2, EP_WAIT_IDLE, (int fd, void *events, int count, const void *timeout, const void *mask), (fd, events, count, timeout, mask))

/* ---- network ---- */

WAITING(int, connect, EP_WAIT_NETWORK, (int fd, const void *address, unsigned size), (fd, address, size))
WAITING(int, accept, EP_WAIT_NETWORK, (int fd, void *address, void *size), (fd, address, size))
WAITING(int, accept4, EP_WAIT_NETWORK, (int fd, void *address, void *size, int flags), (fd, address, size, flags))
WAITING_IF(!(flags & MSG_DONTWAIT), ssize_t, recv, EP_WAIT_NETWORK, (int fd, void *bytes, size_t size, int flags), (fd, bytes, size, flags))
WAITING_IF(!(flags & MSG_DONTWAIT), ssize_t, __recv_chk, EP_WAIT_NETWORK, (int fd, void *bytes, size_t size, size_t room, int flags), (fd, bytes, size, room, flags))
WAITING_IF(!(flags & MSG_DONTWAIT), ssize_t, recvfrom, EP_WAIT_NETWORK, (int fd, void *bytes, size_t size, int flags, void *from, void *from_size), (fd, bytes, size, flags, from, from_size))
WAITING_IF(!(flags & MSG_DONTWAIT), ssize_t, recvmsg, EP_WAIT_NETWORK, (int fd, void *message, int flags), (fd, message, flags))
WAITING_IF(!(flags & MSG_DONTWAIT), int, recvmmsg, EP_WAIT_NETWORK, (int fd, void *messages, unsigned count, int flags, void *timeout), (fd, messages, count, flags, timeout))
WAITING_IF(!(flags & MSG_DONTWAIT), ssize_t, send, EP_WAIT_NETWORK, (int fd, const void *bytes, size_t size, int flags), (fd, bytes, size, flags))
WAITING_IF(!(flags & MSG_DONTWAIT), ssize_t, sendto, EP_WAIT_NETWORK, (int fd, const void *bytes, size_t size, int flags, const void *to, unsigned to_size), (fd, bytes, size, flags, to, to_size))
WAITING_IF(!(flags & MSG_DONTWAIT), ssize_t, sendmsg, EP_WAIT_NETWORK, (int fd, const void *message, int flags), (fd, message, flags))
WAITING_IF(!(flags & MSG_DONTWAIT), int, sendmmsg, EP_WAIT_NETWORK, (int fd, void *messages, unsigned count, int flags), (fd, messages, count, flags))
WAITING(int, getaddrinfo, EP_WAIT_NETWORK, (const char *node, const char *service, const void *hints, void *result), (node, service, hints, result))

/* ---- files and other reads and writes ---- */

WAITING(ssize_t, read, wait_on(fd), (int fd, void *bytes, size_t size), (fd, bytes, size))
WAITING(ssize_t, __read_chk, wait_on(fd), (int fd, void *bytes, size_t size, size_t room), (fd, bytes, size, room))
WAITING(ssize_t, readv, wait_on(fd), (int fd, const void *vectors, int count), (fd, vectors, count))
WAITING(ssize_t, pread, EP_WAIT_DISK, (int fd, void *bytes, size_t size, long offset), (fd, bytes, size, offset))
WAITING(ssize_t, pread64, EP_WAIT_DISK, (int fd, void *bytes, size_t size, int64_t offset), (fd, bytes, size, offset))
WAITING(int, flock, EP_WAIT_DISK, (int fd, int operation), (fd, operation))
OPENING(open, (const char *path, int flags, ...), path, flags)
OPENING(open64, (const char *path, int flags, ...), path, flags)
OPENING(openat, (int folder, const char *path, int flags, ...), folder, path, flags)
OPENING(openat64, (int folder, const char *path, int flags, ...), folder, path, flags)

/* ---- the same with a 64-bit time_t, where the other names have one of 32 bits ---- */

#ifdef __arm__
LOCKING(__pthread_mutex_timedlock64, pthread_mutex_trylock, (pthread_mutex_t *lock, const void *until), (lock, until))
LOCKING(__pthread_mutex_clocklock64, pthread_mutex_trylock, (pthread_mutex_t *lock, int clock, const void *until), (lock, clock, until))
LOCKING(__pthread_rwlock_timedrdlock64, pthread_rwlock_tryrdlock, (pthread_rwlock_t *lock, const void *until), (lock, until))
LOCKING(__pthread_rwlock_timedwrlock64, pthread_rwlock_trywrlock, (pthread_rwlock_t *lock, const void *until), (lock, until))
LOCKING(__pthread_rwlock_clockrdlock64, pthread_rwlock_tryrdlock, (pthread_rwlock_t *lock, int clock, const void *until), (lock, clock, until))
LOCKING(__pthread_rwlock_clockwrlock64, pthread_rwlock_trywrlock, (pthread_rwlock_t *lock, int clock, const void *until), (lock, clock, until))
WAITING(int, __pthread_cond_timedwait64, EP_WAIT_OTHER, (void *condition, void *mutex, const void *until), (condition, mutex, until))
WAITING(int, __pthread_cond_clockwait64, EP_WAIT_OTHER, (void *condition, void *mutex, int clock, const void *until), (condition, mutex, clock, until))
WAITING(int, __pthread_timedjoin_np64, EP_WAIT_OTHER, (pthread_t thread, void **result, const void *until), (thread, result, until))
WAITING(int, __pthread_clockjoin_np64, EP_WAIT_OTHER, (pthread_t thread, void **result, int clock, const void *until), (thread, result, clock, until))
WAITING(int, __sem_timedwait64, EP_WAIT_OTHER, (void *semaphore, const void *until), (semaphore, until))
WAITING(int, __sem_clockwait64, EP_WAIT_OTHER, (void *semaphore, int clock, const void *until), (semaphore, clock, until))
WAITING(pid_t, __wait3_time64, EP_WAIT_OTHER, (int *status, int options, void *usage), (status, options, usage))
WAITING(pid_t, __wait4_time64, EP_WAIT_OTHER, (pid_t pid, int *status, int options, void *usage), (pid, status, options, usage))
WAITING(int, __nanosleep64, EP_WAIT_SLEEP, (const void *time, void *left), (time, left))
WAITING(int, __clock_nanosleep_time64, EP_WAIT_SLEEP, (int clock, int flags, const void *time, void *left), (clock, flags, time, left))
MASKED(__ppoll64, count ? EP_WAIT_NETWORK : EP_WAIT_SLEEP, (void *events, unsigned long count, const void *timeout, const void *mask), (events, count, timeout, mask))
WAITING(int, __select64, count ? EP_WAIT_NETWORK : EP_WAIT_SLEEP, (int count, void *in, void *out, void *bad, void *timeout), (count, in, out, bad, timeout))
MASKED(__pselect64, count ? EP_WAIT_NETWORK : EP_WAIT_SLEEP, (int count, void *in, void *out, void *bad, const void *timeout, const void *mask), (count, in, out, bad, timeout, mask))
MASKED(__epoll_pwait2_time64, EP_WAIT_IDLE, (int fd, void *events, int count, const void *timeout, const void *mask), (fd, events, count, timeout, mask))
WAITING_IF(!(flags & MSG_DONTWAIT), int, __recvmmsg64, EP_WAIT_NETWORK, (int fd, void *messages, unsigned count, int flags, void *timeout), (fd, messages, count, flags, timeout))
WAITING_IF(!(flags & MSG_DONTWAIT), ssize_t, __recvmsg64, EP_WAIT_NETWORK, (int fd, void *message, int flags), (fd, message, flags))
WAITING_IF(!(flags & MSG_DONTWAIT), ssize_t, __sendmsg64, EP_WAIT_NETWORK, (int fd, const void *message, int flags), (fd, message, flags))
WAITING_IF(!(flags & MSG_DONTWAIT), int, __sendmmsg64, EP_WAIT_NETWORK, (int fd, void *messages, unsigned count, int flags), (fd, messages, count, flags))
#endif
/* clang-format on */

_Unwind_Reason_Code ep_preload_unwound(int version, _Unwind_Action actions, _Unwind_Exception_Class kind,
                                       struct _Unwind_Exception *exception, struct _Unwind_Context *context)
{
    (void)version;
    (void)kind;
    (void)exception;
    (void)context;
    if (actions & _UA_CLEANUP_PHASE)
        ep_wait_leave();
    return _URC_CONTINUE_UNWIND;
}
