/*
 * One TCP connection as an ep_stream. It never blocks beyond its deadline, never raises SIGPIPE, and closes on exec. It
 * never touches a file of the program, whatever that does with the number of its descriptor.
 *
 * The last working address is kept and tried first, so a name is looked up again only after a failure. getaddrinfo()
 * allocates and blocks: its deadline is the system resolver's, which is set to one second a server; it is not started
 * after the deadline. Numeric addresses are never looked up. Waiting is done in slices, since a deadline may be
 * shortened.
 *
 *   tcp_connect -> connect_address -> wait_for             kept or numeric address
 *               -> connect_by_name -> lookup, connect_address ...
 */
#include <edgeprof/transport.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <resolv.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <edgeprof/port.h>

#define LOOK_AGAIN_NS 100000000u
#define KEPT_FROM     512 /* the lowest number of the kept descriptor, where the limit permits it */
#define NO_LIMIT      UINT64_MAX

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

struct tcp {
    int fd_plus_1; /* zeroed memory is a closed stream */
    dev_t device;  /* which socket it is */
    ino_t inode;
    socklen_t size;
    union address address; /* size > 0: the last working address */
};

/* The time until the deadline or the limit, whichever is first; 0: it has passed. */
static uint64_t time_left(const struct ep_deadline *deadline, uint64_t limit_ns)
{
    uint64_t now = ep_port_uptime_ns(), end = ep_deadline_ns(deadline);

    if (end > limit_ns)
        end = limit_ns;
    return end > now ? end - now : 0;
}

/* Waits for events on fd. Returns 0, -ETIMEDOUT or the error of ppoll(). */
static int wait_for(int fd, short events, const struct ep_deadline *deadline, uint64_t limit_ns)
{
    for (;;) {
        uint64_t left = time_left(deadline, limit_ns);
        struct timespec timeout = {.tv_nsec = (long)(left < LOOK_AGAIN_NS ? left : LOOK_AGAIN_NS)};
        struct pollfd poll_fd = {.fd = fd, .events = events};
        int n = ppoll(&poll_fd, 1, &timeout, NULL);
        if (n > 0)
            return 0;
        if (n < 0 && errno != EINTR)
            return -errno;
        if (n == 0 && left == 0)
            return -ETIMEDOUT;
    }
}

/* Programs count on the lowest free number for the next file. */
static int move_up(int fd)
{
    struct rlimit limit = {0};

    (void)getrlimit(RLIMIT_NOFILE, &limit);
    const int from = limit.rlim_cur / 2 < KEPT_FROM ? (int)(limit.rlim_cur / 2) : KEPT_FROM;
    const int high = fd < from ? fcntl(fd, F_DUPFD_CLOEXEC, from) : -1;
    if (high < 0)
        return fd;
    close(fd);
    return high;
}

static int keep(struct tcp *tcp, int fd)
{
    struct stat status;

    if (fstat(fd, &status) != 0)
        return -errno;
    tcp->fd_plus_1 = fd + 1;
    tcp->device = status.st_dev;
    tcp->inode = status.st_ino;
    return 0;
}

/* The program may have closed all descriptors, and have this number for a file of its own. Returns the descriptor if it
 * is still the stream's, else -EBADF. */
static int kept(const struct tcp *tcp)
{
    struct stat status;
    const int fd = tcp->fd_plus_1 - 1;

    return fd >= 0 && fstat(fd, &status) == 0 && status.st_dev == tcp->device && status.st_ino == tcp->inode ? fd
                                                                                                             : -EBADF;
}

static void tcp_close(void *state)
{
    struct tcp *tcp = state;
    const int fd = kept(tcp);

    if (fd >= 0)
        close(fd);
    tcp->fd_plus_1 = 0;
}

static int connect_result(int fd)
{
    int so_error = 0;
    socklen_t length = sizeof so_error;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &so_error, &length) != 0)
        return -errno;
    return -so_error;
}

static int connect_address(struct tcp *tcp, const struct sockaddr *address, socklen_t size,
                           const struct ep_deadline *deadline, uint64_t limit_ns)
{
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP);
    if (fd < 0)
        return -errno;
    fd = move_up(fd);
    int err = keep(tcp, fd);
    if (err) {
        close(fd);
        return err;
    }
    /* A request is written in few large pieces: Nagle's algorithm would only delay the last one. */
    int on = 1;
    err = setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0 ? 0 : -errno;
    if (!err && connect(fd, address, size) != 0)
        err = -errno;
    if (err == -EINPROGRESS)
        err = wait_for(fd, POLLOUT, deadline, limit_ns);
    if (!err)
        err = connect_result(kept(tcp));
    if (err) {
        tcp_close(tcp);
        return err;
    }
    if (address != &tcp->address.any)
        memcpy(&tcp->address, address, size);
    tcp->size = size;
    return 0;
}

/* Fills tcp->address from a numeric host, without getaddrinfo, which would allocate. */
static bool address_parse(struct tcp *tcp, const char *host, const char *port)
{
    in_port_t number = htons((uint16_t)strtoul(port, NULL, 10));

    memset(&tcp->address, 0, sizeof tcp->address);
    if (inet_pton(AF_INET, host, &tcp->address.v4.sin_addr) == 1) {
        tcp->address.v4.sin_family = AF_INET;
        tcp->address.v4.sin_port = number;
        tcp->size = sizeof tcp->address.v4;
        return true;
    }
    if (inet_pton(AF_INET6, host, &tcp->address.v6.sin6_addr) == 1) {
        tcp->address.v6.sin6_family = AF_INET6;
        tcp->address.v6.sin6_port = number;
        tcp->size = sizeof tcp->address.v6;
        return true;
    }
    return false;
}

static int lookup_error(int code)
{
    switch (code) {
    case EAI_SYSTEM:
        return -errno;
    case EAI_MEMORY:
        return -ENOMEM;
    case EAI_AGAIN:
        return -ENETUNREACH;
    default:
        return -EHOSTUNREACH;
    }
}

/* Calls getaddrinfo() with short timeouts. The resolver's settings belong to this thread and are restored. */
static int lookup(const char *host, const char *port, struct addrinfo **list)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    int ready = res_init();
    int retrans = _res.retrans, retry = _res.retry;

    if (ready == 0) {
        _res.retrans = 1;
        _res.retry = 1;
    }
    int code = getaddrinfo(host, port, &hints, list);
    int err = code == 0 ? 0 : lookup_error(code);
    _res.retrans = retrans;
    _res.retry = retry;
    return err;
}

/* Each address gets an equal share of the remaining time, since the first one may never answer. */
static int connect_by_name(struct tcp *tcp, const char *host, const char *port, const struct ep_deadline *deadline)
{
    struct addrinfo *list;
    int err = time_left(deadline, NO_LIMIT) > 0 ? lookup(host, port, &list) : -ETIMEDOUT;
    if (err)
        return err;

    unsigned count = 0;
    for (const struct addrinfo *a = list; a; a = a->ai_next)
        count++;
    err = -EHOSTUNREACH;
    for (const struct addrinfo *a = list; a; a = a->ai_next, count--) {
        uint64_t share = time_left(deadline, NO_LIMIT) / count;
        if (a->ai_addrlen > sizeof tcp->address)
            continue;
        err = connect_address(tcp, a->ai_addr, a->ai_addrlen, deadline, ep_port_uptime_ns() + share);
        if (!err)
            break;
    }
    freeaddrinfo(list);
    return err;
}

static int tcp_connect(void *state, const char *host, const char *port, const struct ep_deadline *deadline)
{
    struct tcp *tcp = state;
    int err = -EHOSTUNREACH;

    tcp_close(tcp);
    if (tcp->size > 0 || address_parse(tcp, host, port))
        err = connect_address(tcp, &tcp->address.any, tcp->size, deadline, NO_LIMIT);
    else
        return connect_by_name(tcp, host, port, deadline);
    if (err)
        tcp->size = 0; /* look it up next time */
    return err;
}

/* Called after a failed call. Returns 0 if the call should be repeated. */
static int before_repeat(int fd, short events, const struct ep_deadline *deadline)
{
    if (errno == EINTR)
        return 0;
    return errno == EAGAIN ? wait_for(fd, events, deadline, NO_LIMIT) : -errno;
}

static long tcp_read(void *state, void *bytes, size_t size, const struct ep_deadline *deadline)
{
    int err = 0;

    while (err == 0) {
        const int fd = kept(state);
        ssize_t n = recv(fd, bytes, size, 0);
        if (n >= 0)
            return n;
        err = before_repeat(fd, POLLIN, deadline);
    }
    return err;
}

static long tcp_write(void *state, const void *bytes, size_t size, const struct ep_deadline *deadline)
{
    int err = 0;

    while (err == 0) {
        const int fd = kept(state);
        ssize_t n = send(fd, bytes, size, MSG_NOSIGNAL);
        if (n >= 0)
            return n;
        err = before_repeat(fd, POLLOUT, deadline);
    }
    return err;
}

const struct ep_stream ep_stream_tcp = {
    .state_size = sizeof(struct tcp),
    .connect = tcp_connect,
    .read = tcp_read,
    .write = tcp_write,
    .close = tcp_close,
};
