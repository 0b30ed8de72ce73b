/*
 * The hooks' bodies, for write_wrap.c, preload_next_write.c and preload_writes.c, which define before:
 *
 *   HOOK(result, name, arguments)  the hook's head
 *   REAL(name)                     the function that it stands before
 *   MARK(wait)                     begins to mark a wait of that class, if waits are marked here
 *   MARK_FULL(file)                the same, if the buffer is full
 *   UNMARK()                       ends that
 *   WAIT_ON(fd)                    the class of a wait for the descriptor
 */
#ifndef EP_LINUX_WRITE_HOOKS_H
#define EP_LINUX_WRITE_HOOKS_H

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "write.h"

/* Of the functions without a 64 in their names, whatever _FILE_OFFSET_BITS is here. */
#ifdef __GLIBC__
typedef long ep_write_offset;
#else
typedef int64_t ep_write_offset;
#endif

/* clang-format off */

/* ---- system calls that write; fd: where to ---- */

#define WRITE_HOOK(name, wait, arguments, passed) \
    HOOK(ssize_t, name, arguments) \
    { \
        MARK(wait) \
        ssize_t done = REAL(name) passed; \
        UNMARK() \
        ep_write_note(fd, done); \
        return done; \
    }

WRITE_HOOK(write, WAIT_ON(fd), (int fd, const void *bytes, size_t size), (fd, bytes, size))
WRITE_HOOK(writev, WAIT_ON(fd), (int fd, const struct iovec *vectors, int count), (fd, vectors, count))
WRITE_HOOK(pwrite, EP_WAIT_DISK, (int fd, const void *bytes, size_t size, ep_write_offset offset), (fd, bytes, size, offset))
WRITE_HOOK(pwritev, EP_WAIT_DISK, (int fd, const struct iovec *vectors, int count, ep_write_offset offset), (fd, vectors, count, offset))
WRITE_HOOK(sendfile, EP_WAIT_NETWORK, (int fd, int from, ep_write_offset *offset, size_t size), (fd, from, offset, size))
WRITE_HOOK(copy_file_range, EP_WAIT_DISK, (int from, int64_t *from_at, int fd, int64_t *at, size_t size, unsigned flags), (from, from_at, fd, at, size, flags))
#ifdef __GLIBC__
WRITE_HOOK(pwrite64, EP_WAIT_DISK, (int fd, const void *bytes, size_t size, int64_t offset), (fd, bytes, size, offset))
WRITE_HOOK(pwritev64, EP_WAIT_DISK, (int fd, const struct iovec *vectors, int count, int64_t offset), (fd, vectors, count, offset))
WRITE_HOOK(pwritev2, EP_WAIT_DISK, (int fd, const struct iovec *vectors, int count, ep_write_offset offset, int flags), (fd, vectors, count, offset, flags))
WRITE_HOOK(pwritev64v2, EP_WAIT_DISK, (int fd, const struct iovec *vectors, int count, int64_t offset, int flags), (fd, vectors, count, offset, flags))
WRITE_HOOK(sendfile64, EP_WAIT_NETWORK, (int fd, int from, int64_t *offset, size_t size), (fd, from, offset, size))
#endif

/* ---- stdio: what enters the buffer. written: the bytes, from `done`. A C library may use one of these in another. ---- */

#define STDIO_HOOK(result, name, mark, written, arguments, passed) \
    HOOK(result, name, arguments) \
    { \
        const bool inside = ep_write_mine.inside; \
        ep_write_mine.inside = true; \
        mark \
        result done = REAL(name) passed; \
        UNMARK() \
        ep_write_mine.inside = inside; \
        ep_write_note(fileno_unlocked(file), (ssize_t)(written)); \
        return done; \
    }

STDIO_HOOK(size_t, fwrite, MARK(WAIT_ON(fileno_unlocked(file))), done * size, (const void *bytes, size_t size, size_t count, FILE *file), (bytes, size, count, file))
STDIO_HOOK(size_t, fwrite_unlocked, MARK(WAIT_ON(fileno_unlocked(file))), done * size, (const void *bytes, size_t size, size_t count, FILE *file), (bytes, size, count, file))
STDIO_HOOK(int, fputs, MARK(WAIT_ON(fileno_unlocked(file))), done < 0 ? 0 : strlen(text), (const char *text, FILE *file), (text, file))
STDIO_HOOK(int, fputs_unlocked, MARK(WAIT_ON(fileno_unlocked(file))), done < 0 ? 0 : strlen(text), (const char *text, FILE *file), (text, file))
STDIO_HOOK(int, fputc, MARK_FULL(file), done >= 0, (int byte, FILE *file), (byte, file))
STDIO_HOOK(int, putc, MARK_FULL(file), done >= 0, (int byte, FILE *file), (byte, file))
STDIO_HOOK(int, vfprintf, MARK(WAIT_ON(fileno_unlocked(file))), done, (FILE *file, const char *format, va_list list), (file, format, list))
#ifdef __GLIBC__
STDIO_HOOK(int, __vfprintf_chk, MARK(WAIT_ON(fileno_unlocked(file))), done, (FILE *file, int flag, const char *format, va_list list), (file, flag, format, list))
#endif

/* These write to stdout, or have no list. first: the arguments before the list. */
#define TEXT_HOOK(name, target, through, last, arguments, first) \
    HOOK(int, name, arguments) \
    { \
        const bool inside = ep_write_mine.inside; \
        va_list list; \
        ep_write_mine.inside = true; \
        va_start(list, last); \
        MARK(WAIT_ON(target)) \
        int done = through(first, list); \
        UNMARK() \
        va_end(list); \
        ep_write_mine.inside = inside; \
        ep_write_note(target, done); \
        return done; \
    }
#define FIRST(...) __VA_ARGS__

TEXT_HOOK(fprintf, fileno_unlocked(file), REAL(vfprintf), format, (FILE *file, const char *format, ...), FIRST(file, format))
TEXT_HOOK(printf, fileno_unlocked(stdout), REAL(vfprintf), format, (const char *format, ...), FIRST(stdout, format))
#ifdef __GLIBC__
TEXT_HOOK(__fprintf_chk, fileno_unlocked(file), REAL(__vfprintf_chk), format, (FILE *file, int flag, const char *format, ...), FIRST(file, flag, format))
TEXT_HOOK(__printf_chk, fileno_unlocked(stdout), REAL(__vfprintf_chk), format, (int flag, const char *format, ...), FIRST(stdout, flag, format))
#endif

HOOK(int, puts, (const char *text))
{
    const bool inside = ep_write_mine.inside;

    ep_write_mine.inside = true;
    MARK(WAIT_ON(fileno_unlocked(stdout)))
    int done = REAL(puts)(text);
    UNMARK()
    ep_write_mine.inside = inside;
    ep_write_note(fileno_unlocked(stdout), done < 0 ? 0 : (ssize_t)strlen(text) + 1);
    return done;
}

/* ---- syncs ---- */

#define SYNC_HOOK(name, of, arguments, passed) \
    HOOK(int, name, arguments) \
    { \
        const uint64_t from = ep_write_sync_begins(); \
        MARK(EP_WAIT_DISK) \
        int done = REAL(name) passed; \
        UNMARK() \
        if (from) \
            ep_write_synced(of, from); \
        return done; \
    }

SYNC_HOOK(fsync, fd, (int fd), (fd))
SYNC_HOOK(fdatasync, fd, (int fd), (fd))
SYNC_HOOK(syncfs, fd, (int fd), (fd))
SYNC_HOOK(msync, -1, (void *start, size_t size, int flags), (start, size, flags))

/* ---- the end of a descriptor ---- */

#define CLOSE_HOOK(result, name, from, to, arguments, passed) \
    HOOK(result, name, arguments) \
    { \
        const int first = from, last = to; \
        MARK(EP_WAIT_DISK) \
        result done = REAL(name) passed; \
        UNMARK() \
        ep_write_closed((unsigned)first, (unsigned)last); \
        return done; \
    }

CLOSE_HOOK(int, fclose, fileno_unlocked(file), first, (FILE *file), (file))
CLOSE_HOOK(int, pclose, fileno_unlocked(file), first, (FILE *file), (file))
CLOSE_HOOK(FILE *, freopen, fileno_unlocked(file), first, (const char *path, const char *mode, FILE *file), (path, mode, file))
#ifdef __GLIBC__
CLOSE_HOOK(FILE *, freopen64, fileno_unlocked(file), first, (const char *path, const char *mode, FILE *file), (path, mode, file))
#endif

/* These do not wait. */
#undef MARK
#undef UNMARK
#define MARK(wait)
#define UNMARK()
CLOSE_HOOK(int, close, fd, first, (int fd), (fd))
CLOSE_HOOK(int, dup2, to, first, (int from_fd, int to), (from_fd, to))
CLOSE_HOOK(int, dup3, to, first, (int from_fd, int to, int flags), (from_fd, to, flags))
#ifdef __GLIBC__
CLOSE_HOOK(int, close_range, (int)from_fd, (int)to, (unsigned from_fd, unsigned to, int flags), (from_fd, to, flags))
#endif
/* clang-format on */

#endif
