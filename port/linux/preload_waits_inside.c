/*
 * Waits that the C library makes inside of other functions: reads and writes of stdio, system(), record locks, queues,
 * semaphores, and C11's threads. And jumps that leave a wait; see preload_waits.c.
 *
 * stdio waits only when its buffer is empty, so functions for one byte are marked only then.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/types.h>
#include <threads.h>
#include <unistd.h>

#include "preload_waits.h"

static inline bool is_read_empty(const FILE *file)
{
    return file->_IO_read_ptr >= file->_IO_read_end;
}

static inline enum ep_wait wait_of(FILE *file)
{
    return wait_on(fileno_unlocked(file));
}

/* clang-format off */

/* ---- stdio ---- */

WAITING(char *, fgets, wait_of(file), (char *line, int size, FILE *file), (line, size, file))
WAITING(char *, __fgets_chk, wait_of(file), (char *line, size_t room, int size, FILE *file), (line, room, size, file))
WAITING_IF(is_read_empty(file), int, fgetc, wait_of(file), (FILE *file), (file))
WAITING_IF(is_read_empty(file), int, getc, wait_of(file), (FILE *file), (file))
WAITING_IF(is_read_empty(stdin), int, getchar, wait_of(stdin), (void), ())
WAITING_IF(is_read_empty(file), int, __uflow, wait_of(file), (FILE *file), (file))
WAITING(size_t, fread, wait_of(file), (void *bytes, size_t size, size_t count, FILE *file), (bytes, size, count, file))
WAITING(size_t, __fread_chk, wait_of(file), (void *bytes, size_t room, size_t size, size_t count, FILE *file), (bytes, room, size, count, file))
WAITING(ssize_t, getline, wait_of(file), (char **line, size_t *size, FILE *file), (line, size, file))
WAITING(ssize_t, getdelim, wait_of(file), (char **line, size_t *size, int end, FILE *file), (line, size, end, file))
WAITING(ssize_t, __getdelim, wait_of(file), (char **line, size_t *size, int end, FILE *file), (line, size, end, file))
WAITING(char *, fgets_unlocked, wait_of(file), (char *line, int size, FILE *file), (line, size, file))
WAITING(void *, fgetws, wait_of(file), (void *line, int size, FILE *file), (line, size, file))
WAITING(int, fflush, file ? wait_of(file) : EP_WAIT_DISK, (FILE *file), (file))

#define SCANNING(name, through, file, arguments, first) \
    FUNCTION(int, name, arguments) \
    { \
        type_##through *next = next_##through(); \
        const bool waits = is_wanted(WAITS); \
        va_list list; \
        va_start(list, format); \
        if (waits) \
            wait_begin(wait_of(file)); \
        int value = next first; \
        if (waits) \
            ep_wait_end(); \
        va_end(list); \
        return value; \
    }
/* Programs of C90, C99 and C23 have names of their own. */
#define SCANNING_ALL(of) \
    WAITING(int, of##vfscanf, wait_of(file), (FILE *file, const char *format, va_list list), (file, format, list)) \
    WAITING(int, of##vscanf, wait_of(stdin), (const char *format, va_list list), (format, list)) \
    SCANNING(of##fscanf, of##vfscanf, file, (FILE *file, const char *format, ...), (file, format, list)) \
    SCANNING(of##scanf, of##vfscanf, stdin, (const char *format, ...), (stdin, format, list))
SCANNING_ALL()
SCANNING_ALL(__isoc99_)
SCANNING_ALL(__isoc23_)

/* ---- processes ---- */

WAITING(int, system, EP_WAIT_OTHER, (const char *command), (command))

/* ---- record locks ---- */

/* The argument is passed as it may be there. F_SETLKW of 32-bit offsets has another number on 32 bits. */
#define CONTROL(name) \
    FUNCTION(int, name, (int fd, int command, ...)) \
    { \
        type_##name *next = next_##name(); \
        va_list list; \
        va_start(list, command); \
        void *argument = va_arg(list, void *); \
        va_end(list); \
        bool waits = command == F_SETLKW || command == F_OFD_SETLKW; \
        if (!waits || !is_wanted(WAITS)) \
            return next(fd, command, argument); \
        wait_begin(EP_WAIT_OTHER); \
        int value = next(fd, command, argument); \
        ep_wait_end(); \
        return value; \
    }
CONTROL(fcntl)
CONTROL(fcntl64)
WAITING_IF(command == F_LOCK, int, lockf, EP_WAIT_OTHER, (int fd, int command, long size), (fd, command, size))
WAITING_IF(command == F_LOCK, int, lockf64, EP_WAIT_OTHER, (int fd, int command, int64_t size), (fd, command, size))

/* ---- queues, semaphores, signals, terminals, files ---- */

WAITING(ssize_t, mq_receive, EP_WAIT_OTHER, (int queue, char *bytes, size_t size, unsigned *priority), (queue, bytes, size, priority))
WAITING(ssize_t, mq_timedreceive, EP_WAIT_OTHER, (int queue, char *bytes, size_t size, unsigned *priority, const void *until), (queue, bytes, size, priority, until))
WAITING(int, mq_send, EP_WAIT_OTHER, (int queue, const char *bytes, size_t size, unsigned priority), (queue, bytes, size, priority))
WAITING(int, mq_timedsend, EP_WAIT_OTHER, (int queue, const char *bytes, size_t size, unsigned priority, const void *until), (queue, bytes, size, priority, until))
WAITING(ssize_t, msgrcv, EP_WAIT_OTHER, (int queue, void *bytes, size_t size, long type, int flags), (queue, bytes, size, type, flags))
WAITING(int, msgsnd, EP_WAIT_OTHER, (int queue, const void *bytes, size_t size, int flags), (queue, bytes, size, flags))
WAITING(int, semop, EP_WAIT_OTHER, (int set, void *operations, size_t count), (set, operations, count))
WAITING(int, semtimedop, EP_WAIT_OTHER, (int set, void *operations, size_t count, const void *timeout), (set, operations, count, timeout))
WAITING(int, pause, EP_WAIT_SLEEP, (void), ())
WAITING(int, tcdrain, EP_WAIT_OTHER, (int fd), (fd))
WAITING(ssize_t, preadv, EP_WAIT_DISK, (int fd, const void *vectors, int count, long offset), (fd, vectors, count, offset))
WAITING(ssize_t, splice, EP_WAIT_OTHER, (int from, void *from_at, int to, void *to_at, size_t size, unsigned flags), (from, from_at, to, to_at, size, flags))
WAITING(int, aio_suspend, EP_WAIT_DISK, (const void *list, int count, const void *timeout), (list, count, timeout))
WAITING(int, gai_suspend, EP_WAIT_NETWORK, (const void *list, int count, const void *timeout), (list, count, timeout))
WAITING(void *, gethostbyname, EP_WAIT_NETWORK, (const char *name), (name))
WAITING(int, getnameinfo, EP_WAIT_NETWORK, (const void *address, unsigned size, char *host, unsigned host_size, char *service, unsigned service_size, int flags), (address, size, host, host_size, service, service_size, flags))

/* ---- C11's threads ---- */

NEXT(int, mtx_trylock, (void *lock))
LOCKING_BUSY(mtx_lock, mtx_trylock, thrd_busy, (void *lock), (lock))
LOCKING_BUSY(mtx_timedlock, mtx_trylock, thrd_busy, (void *lock, const void *until), (lock, until))
WAITING(int, thrd_join, EP_WAIT_OTHER, (unsigned long thread, int *result), (thread, result))
WAITING(int, thrd_sleep, EP_WAIT_SLEEP, (const void *time, void *left), (time, left))
WAITING(int, cnd_wait, EP_WAIT_OTHER, (void *condition, void *mutex), (condition, mutex))
WAITING(int, cnd_timedwait, EP_WAIT_OTHER, (void *condition, void *mutex, const void *until), (condition, mutex, until))

/* ---- jumps: a handler leaves the wait that it has interrupted ---- */

#define JUMPING(name) \
    FUNCTION(void, name, (void *place, int value)) \
    { \
        if (is_wanted(LOCKS)) \
            ep_wait_leave(); \
        next_##name()(place, value); \
    }
JUMPING(longjmp)
JUMPING(_longjmp)
JUMPING(siglongjmp)
JUMPING(__longjmp_chk)
/* clang-format on */
