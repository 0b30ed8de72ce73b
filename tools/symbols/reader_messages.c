/* See reader_messages.h. */
#include "tools/symbols/reader_messages.h"
#include "tools/lib/time_text.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SLICE_MS = 100 }; /* how often a wait looks whether it is to end */

static int orders = -1;
static pthread_mutex_t orders_lock = PTHREAD_MUTEX_INITIALIZER;
static bool ended; /* and reported */

bool et_reader_runs(void)
{
    return orders >= 0;
}

int et_reader_start(bool confined)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
        return -errno;
    }
    pid_t process = fork();
    if (process == 0) {
        close(ends[0]);
        et_reader_process(ends[1], confined);
    }
    int err = process < 0 ? -errno : 0;
    close(ends[1]);
    if (err) {
        close(ends[0]);
        return err;
    }
    orders = ends[0];
    return 0;
}

/* The answer, and its descriptor or -1. False: there is none. */
static bool receive_done(struct et_order_done *done, int *fd)
{
    union {
        struct cmsghdr header; /* alignment */
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec part = {.iov_base = done, .iov_len = sizeof *done};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    ssize_t got;
    do {
        got = recvmsg(orders, &message, MSG_CMSG_CLOEXEC);
    } while (got < 0 && errno == EINTR);
    struct cmsghdr *header = got == sizeof *done ? CMSG_FIRSTHDR(&message) : NULL;
    *fd = -1;
    if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS) {
        memcpy(fd, CMSG_DATA(header), sizeof *fd);
    }
    return got == sizeof *done;
}

struct et_order_done et_reader_order(const struct et_order *order, int *fd)
{
    struct et_order_done done = {0};
    size_t size = offsetof(struct et_order, path) + strlen(order->path) + 1;
    pthread_mutex_lock(&orders_lock);
    bool answered = send(orders, order, size, MSG_NOSIGNAL) == (ssize_t)size && receive_done(&done, fd);
    if (!answered) {
        done = (struct et_order_done){.error = -EPIPE};
        *fd = -1;
    }
    if (!answered && !ended) {
        et_error("symbols: the process that opens symbol files has ended; restart the server");
        ended = true;
    }
    pthread_mutex_unlock(&orders_lock);
    return done;
}

/* Waits for a moment. Returns 1: the socket is ready; 0: not yet; or the error that ends the wait. */
static int wait_a_while(const struct et_reader_waiting *waiting, short wanted)
{
    struct pollfd ready = {.fd = waiting->socket, .events = wanted};
    int events = poll(&ready, 1, SLICE_MS);
    if (waiting->stopping && *waiting->stopping) {
        return -ECANCELED;
    }
    return et_monotonic() > waiting->until_ns ? -ETIMEDOUT : events > 0;
}

int et_reader_receive(const struct et_reader_waiting *waiting, void *bytes, size_t size)
{
    for (size_t got = 0; got < size;) {
        int ready = wait_a_while(waiting, POLLIN);
        if (ready < 0) {
            return ready;
        }
        ssize_t more = ready ? recv(waiting->socket, (char *)bytes + got, size - got, 0) : 0;
        if (ready && (more == 0 || (more < 0 && errno != EINTR))) {
            return -EPIPE;
        }
        got += more > 0 ? (size_t)more : 0;
    }
    return 0;
}

int et_reader_send(int socket, const struct et_question *question)
{
    for (size_t sent = 0; sent < sizeof *question;) {
        ssize_t more = send(socket, (const char *)question + sent, sizeof *question - sent,
                            MSG_NOSIGNAL | MSG_DONTWAIT); /* it has no other question, so there is room */
        if (more < 0 && errno != EINTR) {
            return -EPIPE;
        }
        sent += more > 0 ? (size_t)more : 0;
    }
    return 0;
}

int et_reader_send_bytes(const struct et_reader_waiting *waiting, const void *bytes, size_t size)
{
    for (size_t sent = 0; sent < size;) {
        int ready = wait_a_while(waiting, POLLOUT);
        if (ready < 0) {
            return ready;
        }
        ssize_t more =
            ready ? send(waiting->socket, (const char *)bytes + sent, size - sent, MSG_NOSIGNAL | MSG_DONTWAIT) : 0;
        if (more < 0 && errno != EINTR && errno != EAGAIN) {
            return -EPIPE;
        }
        sent += more > 0 ? (size_t)more : 0;
    }
    return 0;
}

struct et_reader_waiting et_reader_wait(int socket, int seconds, const atomic_bool *stopping)
{
    return (struct et_reader_waiting){
        .socket = socket, .until_ns = et_monotonic() + (int64_t)seconds * 1000000000, .stopping = stopping};
}
