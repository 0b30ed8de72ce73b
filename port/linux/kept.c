/*
 * Descriptors that stay open between calls. Programs count on the lowest free number for the next file, and close all
 * numbers that they did not open: what is then behind a number of edgeprof's is a file of the program, which edgeprof
 * must not touch.
 */
#include "linux.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define FROM 512 /* the lowest number, where the limit permits it */

int ep_linux_keep(struct ep_linux_kept *kept, int fd)
{
    struct rlimit limit = {0};
    struct stat status;

    *kept = (struct ep_linux_kept){0};
    if (fstat(fd, &status) != 0)
        return -errno;
    (void)getrlimit(RLIMIT_NOFILE, &limit);
    const int from = limit.rlim_cur / 2 < FROM ? (int)(limit.rlim_cur / 2) : FROM;
    const int high = fd < from ? fcntl(fd, F_DUPFD_CLOEXEC, from) : -1;
    if (high >= 0)
        (void)close(fd);
    *kept = (struct ep_linux_kept){
        .fd_plus_1 = (high >= 0 ? high : fd) + 1, .device = (uint64_t)status.st_dev, .inode = (uint64_t)status.st_ino};
    return 0;
}

int ep_linux_kept(const struct ep_linux_kept *kept)
{
    struct stat status;
    const int fd = kept->fd_plus_1 - 1;

    return fd >= 0 && fstat(fd, &status) == 0 && (uint64_t)status.st_dev == kept->device &&
                   (uint64_t)status.st_ino == kept->inode
               ? fd
               : -1;
}

void ep_linux_kept_close(struct ep_linux_kept *kept)
{
    const int fd = ep_linux_kept(kept);

    if (fd >= 0)
        (void)close(fd);
    *kept = (struct ep_linux_kept){0};
}
