/*
 * The spool's files on Linux: "edgeprof-00" ... in a directory used by one process at a time (a lock on its file
 * "edgeprof.lock", which ends with the process). Each call opens its file, so none stays open. Writes go through the
 * page cache: sync is fdatasync, and fsync of the directory if a file was created or deleted.
 */
#include "port/port.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static int directory, lock; /* valid while the spool is open */
static bool directory_changed;
static bool is_open, fork_hooked;

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
    int fd = openat(directory, name_of(file).text, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);

    return fd < 0 ? -errno : fd;
}

/* Closes the file. Returns `error`, or else the error of close(), which some file systems report only there. */
static int close_file(int fd, int error)
{
    return close(fd) != 0 && !error ? -errno : error;
}

/* Otherwise a child that outlives its parent would keep the lock. The parent's is not affected. */
static void store_forked(void)
{
    if (is_open)
        ep_port_store_close();
}

int ep_port_store_open(const char *dir)
{
    if (!fork_hooked)
        fork_hooked = pthread_atfork(NULL, NULL, store_forked) == 0;
    if (mkdir(dir, 0700) != 0 && errno != EEXIST && errno != EROFS)
        return -errno;
    directory = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0)
        return -errno;
    lock = openat(directory, "edgeprof.lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    int error = lock < 0 ? -errno : flock(lock, LOCK_EX | LOCK_NB) != 0 ? -errno : 0;
    if (error && lock >= 0)
        (void)close(lock);
    if (error)
        (void)close(directory);
    is_open = !error;
    return error == -EWOULDBLOCK ? -EBUSY : error;
}

void ep_port_store_close(void)
{
    (void)close(lock);
    (void)close(directory);
    is_open = false;
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
