/*
 * Folders and files that no other user can replace, as root's programs meet them in /tmp. Each folder of a path, and
 * each symbolic link on the way, must belong to this user, to root, or to the owner of the root folder, who is root
 * where a user namespace does not show it. A folder that everybody may write to must be sticky.
 *
 *   ep_linux_folder_open -> folder_enter -> is_folder_safe
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "linux.h"

static bool is_trusted(const struct stat *status)
{
    struct stat root;

    return status->st_uid == geteuid() || status->st_uid == 0 ||
           (fstatat(AT_FDCWD, "/", &root, 0) == 0 && status->st_uid == root.st_uid);
}

static bool is_folder_safe(const struct stat *status)
{
    return is_trusted(status) && (status->st_mode & (S_IWOTH | S_ISVTX)) != S_IWOTH;
}

bool ep_linux_is_beyond_limit(uint64_t end)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && end > limit.rlim_cur;
}

int ep_linux_file_check(int fd)
{
    struct stat status;

    if (fstat(fd, &status) != 0)
        return -errno;
    return is_trusted(&status) && S_ISREG(status.st_mode) && status.st_nlink <= 1 ? 0 : -EPERM;
}

/* Opens a folder inside of `parent` and closes that. A link of a trusted user is followed: only its owner can replace
 * it, because `parent` is safe. Returns the descriptor or an error. */
static int folder_enter(int parent, const char *name, int flags)
{
    struct stat status;
    int fd = -1, error = fstatat(parent, name, &status, AT_SYMLINK_NOFOLLOW) != 0 ? -errno : 0;

    if (!error && !is_trusted(&status))
        error = -EPERM;
    if (!error && (fd = openat(parent, name, flags | O_DIRECTORY | O_CLOEXEC)) < 0)
        error = -errno;
    if (!error && fstat(fd, &status) != 0)
        error = -errno;
    if (!error && !is_folder_safe(&status))
        error = -EPERM;
    if (parent != AT_FDCWD)
        (void)close(parent);
    if (error && fd >= 0)
        (void)close(fd);
    return error ? error : fd;
}

int ep_linux_folder_open(const char *path, bool make)
{
    char name[NAME_MAX + 1];
    int fd = folder_enter(AT_FDCWD, path[0] == '/' ? "/" : ".", O_PATH);

    for (path += strspn(path, "/"); fd >= 0 && *path;) {
        const size_t size = strcspn(path, "/"), next = size + strspn(path + size, "/");
        if (size > NAME_MAX) {
            (void)close(fd);
            return -ENAMETOOLONG;
        }
        memcpy(name, path, size);
        name[size] = 0;
        path += next;
        if (make && !*path)
            (void)mkdirat(fd, name, 0700); /* ignored: if it is still missing, it cannot be entered */
        fd = folder_enter(fd, name, *path ? O_PATH : O_RDONLY);
    }
    return fd;
}
