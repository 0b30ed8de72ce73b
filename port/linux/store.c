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

static int directory, lock; /* valid while the spool is open */
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

static bool is_trusted(const struct stat *status)
{
    return status->st_uid == geteuid() || status->st_uid == 0;
}

static int open_file(unsigned file, int flags)
{
    int fd = openat(directory, name_of(file).text, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    struct stat status;

    if (fd < 0)
        return -errno;
    int error = fstat(fd, &status) != 0 ? -errno : is_trusted(&status) && S_ISREG(status.st_mode) ? 0 : -EPERM;
    if (error)
        (void)close(fd);
    return error ? error : fd;
}

/* Closes the file. Returns `error`, or else the error of close(), which some file systems report only there. */
static int close_file(int fd, int error)
{
    return close(fd) != 0 && !error ? -errno : error;
}

int ep_linux_dir_check(int fd)
{
    struct stat status;

    if (fstat(fd, &status) != 0)
        return -errno;
    return is_trusted(&status) && (status.st_mode & (S_IWOTH | S_ISVTX)) != S_IWOTH ? 0 : -EPERM;
}

/* A lock that a forked child does not inherit. The process loses it when it closes any descriptor of the file. */
static int lock_take(void)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int fd = openat(directory, "edgeprof.lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);

    if (fd < 0)
        return -errno;
    if (fcntl(fd, F_SETLK, &whole) == 0)
        return fd;
    int error = errno == EACCES || errno == EAGAIN ? -EBUSY : -errno;
    (void)close(fd);
    return error;
}

int ep_port_store_open(const char *dir)
{
    if (opened_by == getpid())
        return -EBUSY;
    if (opened_by)
        ep_port_store_close(); /* the parent's */
    if (mkdir(dir, 0700) != 0 && errno != EEXIST && errno != EROFS)
        return -errno;
    directory = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0)
        return -errno;
    int error = ep_linux_dir_check(directory);
    lock = error ? error : lock_take();
    if (lock < 0) {
        (void)close(directory);
        return lock;
    }
    opened_by = getpid();
    return 0;
}

void ep_port_store_close(void)
{
    (void)close(lock);
    (void)close(directory);
    opened_by = 0;
}

int64_t ep_port_store_size(unsigned file)
{
    struct stat status;

    if (fstatat(directory, name_of(file).text, &status, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT ? 0 : -errno;
    return status.st_size;
}

int64_t ep_port_store_read(unsigned file, uint64_t at, void *bytes, size_t size)
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

int ep_port_store_write(unsigned file, uint64_t at, const void *bytes, size_t size)
{
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
    if (directory_changed && fsync(directory) != 0)
        return -errno;
    directory_changed = false;
    return 0;
}

int ep_port_store_sync(unsigned file)
{
    int fd = open_file(file, O_WRONLY);

    if (fd < 0)
        return fd;
    int error = close_file(fd, fdatasync(fd) != 0 ? -errno : 0);
    return error ? error : sync_directory();
}

int ep_port_store_cut(unsigned file, uint64_t size)
{
    if (size == 0) {
        directory_changed = true;
        return unlinkat(directory, name_of(file).text, 0) != 0 && errno != ENOENT ? -errno : sync_directory();
    }
    int fd = open_file(file, O_WRONLY);
    if (fd < 0)
        return fd;
    return close_file(fd, ftruncate(fd, (off_t)size) != 0 || fdatasync(fd) != 0 ? -errno : 0);
}
