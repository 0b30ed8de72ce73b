/*
 * The path of a unix socket: nobody else may connect from the moment it exists, an ended process' socket is replaced,
 * and a living one's is never removed.
 */
#include "serve.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define TRIES    50u
#define PAUSE_NS 4000000u

/* Returns a descriptor of the folder that holds the path. */
static int folder_open(const struct sockaddr_un *path)
{
    char folder[sizeof path->sun_path];
    const char *end = strrchr(path->sun_path, '/');
    const size_t size = end ? (size_t)(end - path->sun_path) : 0;

    memcpy(folder, path->sun_path, size);
    memcpy(folder + size, size ? "" : "/", size ? 1 : 2);
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

/* Where everybody may rename what others made, no path can be trusted. */
static int folder_judge(int fd)
{
    struct stat about;

    if (fstat(fd, &about) != 0)
        return -errno;
    return about.st_mode & S_IWOTH && !(about.st_mode & S_ISVTX) ? -EPERM : 0;
}

/* Without the lock, another process could remove the socket that we have just made because it saw the stale one. Who
 * keeps the folder locked for long prevents nothing but that. */
static void folder_lock(int fd)
{
    const struct timespec pause = {.tv_nsec = PAUSE_NS};

    for (unsigned i = 0; i < TRIES && flock(fd, LOCK_EX | LOCK_NB) != 0; i++)
        (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
}

/* Removes a unix socket on which nobody listens. */
static void remove_stale(const struct sockaddr_un *path)
{
    struct stat about;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return;
    if (lstat(path->sun_path, &about) == 0 && S_ISSOCK(about.st_mode) &&
        connect(fd, (const struct sockaddr *)path, sizeof *path) != 0 && errno == ECONNREFUSED)
        (void)unlink(path->sun_path);
    (void)close(fd);
}

/* bind() gives the file the mode of the socket, so there is no moment at which others may connect. */
static int socket_make(struct ep_linux_server *server, const struct sockaddr_un *path)
{
    struct stat about;

    remove_stale(path);
    if (fchmod(server->listener, S_IRUSR | S_IWUSR) != 0 ||
        bind(server->listener, (const struct sockaddr *)path, sizeof *path) != 0)
        return -errno;
    server->path = *path;
    server->path_device = server->path_inode = 0;
    if (lstat(path->sun_path, &about) == 0) {
        server->path_device = (uint64_t)about.st_dev;
        server->path_inode = (uint64_t)about.st_ino;
    }
    return listen(server->listener, (int)server->clients) == 0 ? 0 : -errno;
}

int ep_linux_path_listen(struct ep_linux_server *server, const struct sockaddr_un *path)
{
    int folder = folder_open(path), error = folder < 0 ? folder : folder_judge(folder);

    if (!error) {
        folder_lock(folder);
        error = socket_make(server, path);
    }
    if (folder >= 0)
        (void)close(folder);
    return error;
}

void ep_linux_path_forget(struct ep_linux_server *server)
{
    struct stat about;

    if (server->path.sun_path[0] && lstat(server->path.sun_path, &about) == 0 &&
        (uint64_t)about.st_dev == server->path_device && (uint64_t)about.st_ino == server->path_inode)
        (void)unlink(server->path.sun_path);
    server->path.sun_path[0] = 0;
}
