/*
 * ep_stop() while a message is on its way to a server that takes it and never answers: the library as it is shipped,
 * on the real port. The send has ten seconds, the stop has a fifth of one.
 */

#include "tests/unit/test.h"
#include "tests/program.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <edgeprof/edgeprof.h>

#define BEGIN_SECONDS 60
#define STOP_MS       200
#define STOP_SECONDS  3 /* far from the send's ten, far from what a busy machine makes of 0.2 */

static _Alignas(16) uint8_t memory[EP_MEMORY_DEFAULT];
static atomic_bool has_request;

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Takes one connection and what comes on it until it closes. */
static void *swallow(void *listening)
{
    static char bytes[65536];
    int fd = accept(*(int *)listening, NULL, NULL);

    while (recv(fd, bytes, sizeof bytes, 0) > 0)
        atomic_store(&has_request, true);
    close(fd);
    return NULL;
}

static int listen_somewhere(char *endpoint, size_t size)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(fd, 8), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &length), 0);
    snprintf(endpoint, size, "http://127.0.0.1:%u", ntohs(a.sin_port));
    return fd;
}

/* Uses CPU until the server has the beginning of a request. */
static void burn_until_sending(void)
{
    volatile unsigned work = 0;
    double give_up = seconds() + BEGIN_SECONDS;

    while (!atomic_load(&has_request)) {
        for (unsigned i = 0; i < 100000; i++)
            work = work + i;
        assert_true(seconds() < give_up);
    }
}

TEST(test_silent_server)
{
    char endpoint[64];
    pthread_t server;
    struct ep_stats stats;

    int fd = listen_somewhere(endpoint, sizeof endpoint);
    assert_int_equal(pthread_create(&server, NULL, swallow, &fd), 0);
    struct ep_config config = {.memory = memory,
                               .memory_size = sizeof memory,
                               .level = EP_LEVEL_HIGH,
                               .interval_ms = 100,
                               .endpoint = endpoint};
    assert_int_equal(ep_start(&config), 0);
    burn_until_sending();
    double before = seconds();
    int result = ep_stop(STOP_MS);
    double took = seconds() - before;
    print_message("ep_stop(%d) took %.0f ms\n", STOP_MS, took * 1000);
    assert_true(took < STOP_SECONDS);
    assert_int_equal(result, -ETIMEDOUT);
    pthread_join(server, NULL);
    close(fd);

    /* Nothing has arrived, so everything that was captured is lost, and for this reason. */
    assert_int_equal(ep_stats_get(&stats), 0);
    assert_true(stats.messages > 0 && stats.samples > 0);
    assert_int_equal(stats.delivered, 0);
    assert_int_equal(stats.last_error, -ETIMEDOUT);
    assert_int_equal(stats.lost_count[EP_LOSS_STOPPED], stats.samples);
    assert_string_equal(ep_loss_name(EP_LOSS_STOPPED), "stopped");
}

TEST_MAIN
