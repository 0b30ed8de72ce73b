/*
 * The file of crash records: "edgeprof-crash" in the spool's or another directory. Its descriptor is open from the
 * start on, and every byte of it was written once, so a full disk or a full table of descriptors cannot prevent a
 * record.
 */
#include "linux.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_NAME "edgeprof-crash"
#define ZEROS     4096u

static struct ep_linux_kept file;

int64_t ep_port_crash_read(uint64_t at, void *bytes, size_t size)
{
    size_t got = 0;

    while (got < size) {
        ssize_t n = pread(ep_linux_kept(&file), (char *)bytes + got, size - got, (off_t)(at + got));
        if (n < 0 && errno != EINTR)
            return -errno;
        if (n == 0)
            break;
        got += n > 0 ? (size_t)n : 0;
    }
    return (int64_t)got;
}

int ep_port_crash_write(uint64_t at, const void *bytes, size_t size)
{
    if (ep_linux_is_beyond_limit(at + size))
        return -EFBIG;
    for (size_t done = 0; done < size;) {
        ssize_t n = pwrite(ep_linux_kept(&file), (const char *)bytes + done, size - done, (off_t)(at + done));
        if (n == 0 || (n < 0 && errno != EINTR))
            return n == 0 ? -ENOSPC : -errno;
        done += n > 0 ? (size_t)n : 0;
    }
    return 0;
}

int ep_port_crash_sync(void)
{
    return fdatasync(ep_linux_kept(&file)) != 0 ? -errno : 0;
}

/* Fills the file up; what it has stays. 1: it was shorter. */
static int fill(size_t size)
{
    static const char zeros[ZEROS];
    struct stat status;

    if (fstat(ep_linux_kept(&file), &status) != 0)
        return -errno;
    for (size_t at = (size_t)status.st_size; at < size;) {
        size_t part = size - at < sizeof zeros ? size - at : sizeof zeros;
        int error = ep_port_crash_write(at, zeros, part);
        if (error)
            return error;
        at += part;
    }
    if ((size_t)status.st_size >= size)
        return 0;
    return fsync(ep_linux_kept(&file)) != 0 ? -errno : 1;
}

/* The lock is of the process: a forked child does not inherit it. */
static int file_open(int directory, size_t size)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

    const int fd = openat(directory, FILE_NAME, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (fd < 0)
        return -errno;
    int error = ep_linux_file_check(fd);
    error = error ? error : ep_linux_keep(&file, fd);
    if (error) {
        (void)close(fd);
        return error;
    }
    if (fcntl(ep_linux_kept(&file), F_SETLK, &whole) != 0)
        return errno == EACCES || errno == EAGAIN ? -EBUSY : -errno;
    int filled = fill(size);
    return filled > 0 && fsync(directory) != 0 ? -errno : filled < 0 ? filled : 0;
}

int ep_port_crash_open(const char *dir, size_t size)
{
    const int directory = ep_linux_folder_open(dir, true);
    if (directory < 0)
        return directory;
    const int error = file_open(directory, size);
    (void)close(directory);
    if (error)
        ep_port_crash_close();
    return error;
}

void ep_port_crash_close(void)
{
    ep_linux_kept_close(&file);
}
