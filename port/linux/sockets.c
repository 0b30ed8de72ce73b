/*
 * Sockets of the control and the pull endpoint.
 *
 * The path of a Unix socket: nobody else may connect from the moment it exists, an ended process' socket is replaced,
 * and a living one's is never removed.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <edgeprof/port_calls.h>

#include "linux.h"

#define TRIES      50u
#define PAUSE_NS   4000000u
#define REFUSED_NS 100000000u
#define CLOSED_MS  100u /* how often it looks whether it shall end, once the program has closed what would wake it */

struct listener {
    bool open;
    struct ep_linux_kept fd, wake;
    pid_t owner;
    struct sockaddr_un path; /* sun_path[0] is 0 if it is not a Unix socket */
    uint64_t path_device, path_inode;
};

static struct listener listeners[EP_ROLES];

/* ---- the path of a Unix socket ---- */

/* Returns a descriptor of the folder that holds the path; -EPERM: another user could replace the socket. */
static int folder_open(const struct sockaddr_un *path)
{
    char folder[sizeof path->sun_path];
    const char *end = strrchr(path->sun_path, '/');
    const size_t size = end ? (size_t)(end - path->sun_path) : 0;

    memcpy(folder, path->sun_path, size);
    memcpy(folder + size, size ? "" : "/", size ? 1 : 2);
    return ep_linux_folder_open(folder, false);
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
static int path_bind(struct listener *listener)
{
    const struct sockaddr_un *path = &listener->path;
    struct stat about;

    remove_stale(path);
    if (fchmod(ep_linux_kept(&listener->fd), S_IRUSR | S_IWUSR) != 0 ||
        bind(ep_linux_kept(&listener->fd), (const struct sockaddr *)path, sizeof *path) != 0) {
        int error = -errno;
        listener->path.sun_path[0] = 0; /* the file is another process' */
        return error;
    }
    if (lstat(path->sun_path, &about) == 0) {
        listener->path_device = (uint64_t)about.st_dev;
        listener->path_inode = (uint64_t)about.st_ino;
    }
    return 0;
}

static int path_listen(struct listener *listener, unsigned clients)
{
    int folder = folder_open(&listener->path), error = folder < 0 ? folder : 0;

    if (!error) {
        folder_lock(folder);
        error = path_bind(listener);
    }
    if (!error && listen(ep_linux_kept(&listener->fd), (int)clients) != 0)
        error = -errno;
    if (folder >= 0)
        (void)close(folder);
    return error;
}

static void path_forget(const struct listener *listener)
{
    struct stat about;

    if (listener->path.sun_path[0] && lstat(listener->path.sun_path, &about) == 0 &&
        (uint64_t)about.st_dev == listener->path_device && (uint64_t)about.st_ino == listener->path_inode)
        (void)unlink(listener->path.sun_path);
}

/* ---- listening ---- */

static int address_listen(const struct listener *listener, const struct ep_address *where, unsigned clients)
{
    union {
        struct sockaddr any;
        struct sockaddr_in four;
        struct sockaddr_in6 six;
    } address = {0};
    const int on = 1;

    if (where->ip_size == 4) {
        address.four = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(where->port)};
        memcpy(&address.four.sin_addr, where->ip, 4);
    } else {
        address.six = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons(where->port)};
        memcpy(&address.six.sin6_addr, where->ip, 16);
    }
    (void)setsockopt(ep_linux_kept(&listener->fd), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(ep_linux_kept(&listener->fd), &address.any,
             where->ip_size == 4 ? sizeof address.four : sizeof address.six) != 0)
        return -errno;
    return listen(ep_linux_kept(&listener->fd), (int)clients) == 0 ? 0 : -errno;
}

static int keep(struct ep_linux_kept *kept, int fd)
{
    if (fd < 0)
        return -errno;
    const int error = ep_linux_keep(kept, fd);
    if (error)
        (void)close(fd);
    return error;
}

static int sockets_open(struct listener *listener, const struct ep_address *where, unsigned clients)
{
    const int family = where->path ? AF_UNIX : where->ip_size == 4 ? AF_INET : AF_INET6;

    int error = keep(&listener->fd, socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));

    if (!error)
        error = where->path ? path_listen(listener, clients) : address_listen(listener, where, clients);
    return error ? error : keep(&listener->wake, eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
}

int ep_port_listen(enum ep_role role, const struct ep_address *where, unsigned clients)
{
    struct listener *listener = &listeners[role];
    const size_t size = where->path ? strlen(where->path) : 0;

    if (size >= sizeof listener->path.sun_path)
        return -EINVAL;
    *listener = (struct listener){.owner = getpid(), .path = {.sun_family = AF_UNIX}};
    if (where->path)
        memcpy(listener->path.sun_path, where->path, size);
    listener->open = true;
    int error = sockets_open(listener, where, clients);
    if (error)
        ep_port_listen_end(role);
    return error;
}

void ep_port_listen_end(enum ep_role role)
{
    struct listener *listener = &listeners[role];

    if (!listener->open)
        return;
    listener->open = false;
    ep_linux_kept_close(&listener->fd);
    ep_linux_kept_close(&listener->wake);
    if (listener->owner == getpid())
        path_forget(listener);
}

/* ---- clients ---- */

int ep_port_accept(enum ep_role role)
{
    int fd = accept4(ep_linux_kept(&listeners[role].fd), NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    return fd < 0 ? -errno : fd;
}

/* -EAGAIN also after a signal, which says nothing about the socket. */
static int64_t moved(ssize_t size)
{
    return size >= 0 ? size : errno == EINTR || errno == EWOULDBLOCK ? -EAGAIN : -errno;
}

int64_t ep_port_socket_read(int socket, void *bytes, size_t size)
{
    return moved(recv(socket, bytes, size, MSG_DONTWAIT));
}

int64_t ep_port_socket_write(int socket, const void *bytes, size_t size)
{
    return moved(send(socket, bytes, size, MSG_DONTWAIT | MSG_NOSIGNAL));
}

int ep_port_socket_finish(int socket)
{
    return shutdown(socket, SHUT_WR) == 0 ? 0 : -errno;
}

void ep_port_socket_close(int socket)
{
    (void)close(socket);
}

/* ---- waiting ---- */

/* Where a filter of system calls refuses poll(), clients are not served, and this must not become a busy loop. */
static void wait_refused(void)
{
    const struct timespec pause = {.tv_nsec = REFUSED_NS};

    (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
}

bool ep_port_sockets_wait(enum ep_role role, struct ep_socket_wait *sockets, unsigned count, bool accept,
                          uint64_t timeout_ns)
{
    static const short events[] = {[EP_SOCKET_BYTES] = POLLIN, [EP_SOCKET_ROOM] = POLLOUT, [EP_SOCKET_END] = POLLRDHUP};
    struct pollfd polled[EP_PORT_CLIENTS + 2];
    const int wake = ep_linux_kept(&listeners[role].wake);
    uint64_t ms = timeout_ns / 1000000u + 1;

    if (wake < 0 && ms > CLOSED_MS)
        ms = CLOSED_MS;
    for (unsigned i = 0; i < count; i++)
        polled[i] = (struct pollfd){.fd = sockets[i].socket, .events = events[sockets[i].want]};
    polled[count] = (struct pollfd){.fd = accept ? ep_linux_kept(&listeners[role].fd) : -1, .events = POLLIN};
    polled[count + 1] = (struct pollfd){.fd = wake, .events = POLLIN};
    int ready = poll(polled, count + 2, timeout_ns == 0 ? 0 : ms > INT32_MAX ? -1 : (int)ms);
    if (ready < 0 && errno != EINTR)
        wait_refused();
    for (unsigned i = 0; i < count; i++)
        sockets[i].ready = ready > 0 && polled[i].revents != 0;
    return ready > 0 && polled[count].revents != 0;
}

void ep_port_sockets_wake(enum ep_role role)
{
    const uint64_t one = 1;

    (void)!write(ep_linux_kept(&listeners[role].wake), &one, sizeof one);
}
