/*
 * Blocking calls of every kind that a signal could interrupt, from threads that use the CPU in between; for
 * interrupted.py, which counts those that return EINTR. With an argument, an endpoint, the program is profiled at the
 * level that EDGEPROF_LEVEL says.
 */
#include "../../program.h"

#include <sys/epoll.h>
#include <sys/select.h>

#include <edgeprof/edgeprof.h>

#define SECONDS 8
#define US      2000 /* of each wait */

static uint8_t memory[EP_MEMORY_DEFAULT];
static volatile sig_atomic_t stopping;

static void work(unsigned rounds)
{
    volatile unsigned sink = rounds;

    for (unsigned i = 0; i < rounds * 1000; i++)
        sink = sink * 1664525u + 1013904223u;
}

static void wait_poll(int fd)
{
    struct pollfd none = {.fd = fd, .events = POLLIN};
    (void)poll(&none, 1, US / 1000);
}

static void wait_select(int fd)
{
    struct timeval timeout = {.tv_usec = US};
    fd_set in;

    FD_ZERO(&in);
    FD_SET(fd, &in);
    (void)select(fd + 1, &in, NULL, NULL, &timeout);
}

static void wait_epoll(int fd)
{
    struct epoll_event none;
    static _Thread_local int epoll;

    (void)fd;
    if (epoll == 0)
        epoll = epoll_create1(0);
    (void)epoll_wait(epoll, &none, 1, US / 1000);
}

static void wait_sleep(int fd)
{
    struct timespec pause = {.tv_nsec = 1000L * US};

    (void)fd;
    (void)nanosleep(&pause, NULL);
}

static void wait_semaphore(int fd)
{
    static sem_t never;
    struct timespec until;

    (void)fd;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 1000L * US;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    (void)sem_timedwait(&never, &until);
}

static void wait_receive(int fd)
{
    struct timeval timeout = {.tv_usec = US};
    char byte;

    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    (void)recv(fd, &byte, 1, 0);
}

static void (*const waits[])(int) = {wait_poll, wait_select, wait_epoll, wait_sleep, wait_semaphore, wait_receive};

#define WAITS (sizeof waits / sizeof waits[0])

static void *thread(void *index)
{
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0)
        return NULL;
    for (unsigned i = 0; !stopping; i++) {
        waits[*(const unsigned *)index](pair[0]);
        work(i % 7 * 100);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    struct ep_config config = {.memory = memory, .memory_size = sizeof memory, .endpoint = argc > 1 ? argv[1] : NULL};
    struct timespec rest = {.tv_sec = SECONDS};
    struct ep_stats stats = {0};
    pthread_t threads[WAITS];
    unsigned index[WAITS];

    if (argc > 1 && (ep_config_from_env(&config) < 0 || ep_start(&config) != 0)) {
        fprintf(stderr, "blocking: %s\n", ep_start_error());
        return 2;
    }
    for (unsigned i = 0; i < WAITS; i++) {
        index[i] = i;
        if (pthread_create(&threads[i], NULL, thread, &index[i]) != 0)
            return 1;
    }
    (void)nanosleep(&rest, NULL);
    stopping = 1;
    for (unsigned i = 0; i < WAITS; i++)
        (void)pthread_join(threads[i], NULL);
    if (argc > 1) {
        (void)ep_stop(1000);
        (void)ep_stats_get(&stats);
    }
    fprintf(stderr, "samples %llu\n", (unsigned long long)stats.samples);
    return 0;
}
