/*
 * The spool's files on Linux: "edgeprof-00" ... in a directory used by one process at a time: a lock on its file
 * "edgeprof.lock" ends with the process, and a child does not inherit it. Each call opens its file, so none stays open.
 * Writes go through the page cache: sync is fdatasync, and fsync of the directory if a file was created or deleted.
 */
#include "linux.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>

static struct ep_linux_kept directory, lock; /* valid while the spool is open */
static bool directory_changed;
static pid_t opened_by; /* 0: closed. A forked child has the number of its parent */

struct name {
    char text[sizeof "edgeprof-00"];
};

static struct name name_of(unsigned file)
{
    struct name name = {"edgeprof-00"};

    name.text[sizeof name.text - 3] = (char)('0' + file / 10 % 10);
    name.text[sizeof name.text - 2] = (char)('0' + file % 10);
    return name;
}

static int open_file(unsigned file, int flags)
{
    int fd = openat(ep_linux_kept(&directory), name_of(file).text, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);

    if (fd < 0)
        return -errno;
    const int error = ep_linux_file_check(fd);
    if (error)
        (void)close(fd);
    return error ? error : fd;
}

/* Closes the file. Returns `error`, or else the error of close(), which some file systems report only there. */
static int close_file(int fd, int error)
{
    return close(fd) != 0 && !error ? -errno : error;
}

/* A lock that a forked child does not inherit. The process loses it when it closes any descriptor of the file. */
static int lock_take(void)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int fd = openat(ep_linux_kept(&directory), "edgeprof.lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK,
                    0600);

    if (fd < 0)
        return -errno;
    int error = ep_linux_file_check(fd);
    error = error ? error : ep_linux_keep(&lock, fd);
    if (error)
        (void)close(fd);
    else if (fcntl(ep_linux_kept(&lock), F_SETLK, &whole) != 0)
        return errno == EACCES || errno == EAGAIN ? -EBUSY : -errno;
    return error;
}

static int directory_open(const char *dir)
{
    const int fd = ep_linux_folder_open(dir, true);

    if (fd < 0)
        return fd;
    const int error = ep_linux_keep(&directory, fd);
    if (error)
        (void)close(fd);
    return error;
}

int ep_port_spool_open(const char *dir)
{
    if (opened_by == getpid())
        return -EBUSY;
    if (opened_by)
        ep_port_spool_close(); /* the parent's */
    int error = directory_open(dir);
    error = error ? error : lock_take();
    if (error) {
        ep_port_spool_close();
        return error;
    }
    opened_by = getpid();
    return 0;
}

void ep_port_spool_close(void)
{
    ep_linux_kept_close(&lock);
    ep_linux_kept_close(&directory);
    opened_by = 0;
}

int64_t ep_port_spool_size(unsigned file)
{
    struct stat status;

    if (fstatat(ep_linux_kept(&directory), name_of(file).text, &status, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT ? 0 : -errno;
    return status.st_size;
}

int64_t ep_port_spool_read(unsigned file, uint64_t at, void *bytes, size_t size)
{
    int fd = open_file(file, O_RDONLY);
    size_t got = 0;
    int error = fd == -ENOENT ? 0 : fd < 0 ? fd : 0;

    while (fd >= 0 && got < size && !error) {
        ssize_t n = pread(fd, (char *)bytes + got, size - got, (off_t)(at + got));
        if (n == 0)
            break;
        if (n > 0)
            got += (size_t)n;
        else if (errno != EINTR)
            error = -errno;
    }
    if (fd >= 0)
        error = close_file(fd, error);
    return error ? error : (int64_t)got;
}

int ep_port_spool_write(unsigned file, uint64_t at, const void *bytes, size_t size)
{
    if (ep_linux_is_beyond_limit(at + size))
        return -EFBIG;
    int fd = open_file(file, O_WRONLY), error = 0;

    if (fd == -ENOENT) {
        directory_changed = true;
        fd = open_file(file, O_WRONLY | O_CREAT);
    }
    if (fd < 0)
        return fd;
    for (size_t done = 0; done < size && !error;) {
        ssize_t n = pwrite(fd, (const char *)bytes + done, size - done, (off_t)(at + done));
        if (n > 0)
            done += (size_t)n;
        else if (n == 0 || errno != EINTR)
            error = n == 0 ? -ENOSPC : -errno;
    }
    return close_file(fd, error);
}

static int sync_directory(void)
{
    if (directory_changed && fsync(ep_linux_kept(&directory)) != 0)
        return -errno;
    directory_changed = false;
    return 0;
}

int ep_port_spool_sync(unsigned file)
{
    int fd = open_file(file, O_WRONLY);

    if (fd < 0)
        return fd;
    int error = close_file(fd, fdatasync(fd) != 0 ? -errno : 0);
    return error ? error : sync_directory();
}

int ep_port_spool_cut(unsigned file, uint64_t size)
{
    if (size == 0) {
        directory_changed = true;
        return unlinkat(ep_linux_kept(&directory), name_of(file).text, 0) != 0 && errno != ENOENT ? -errno
                                                                                                  : sync_directory();
    }
    int fd = open_file(file, O_WRONLY);
    if (fd < 0)
        return fd;
    return close_file(fd, ftruncate(fd, (off_t)size) != 0 || fdatasync(fd) != 0 ? -errno : 0);
}
