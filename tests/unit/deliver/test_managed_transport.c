/*
 * port/nativeaot/managed_transport.c with threads: what send does when the program's half is late or away.
 */
#include "unit.h"

#include <pthread.h>
#include <time.h>

static int read_clock(clockid_t clock, struct timespec *now);
static uint64_t uptime_ns(void);
#define clock_gettime     read_clock
#define ep_port_uptime_ns uptime_ns
/* The header's asks the simulated port, whose clock stands still. */
#define ep_deadline_passed is_over
static bool is_over(const struct ep_deadline *deadline);
#include "port/nativeaot/managed_transport.c"
#undef clock_gettime
#undef ep_port_uptime_ns
#undef ep_deadline_passed

#define SECOND UINT64_C(1000000000)

static atomic_bool set_back; /* the device's clock is an hour ahead until just after it was read */

static int read_clock(clockid_t clock, struct timespec *now)
{
    const int result = clock_gettime(clock, now);

    if (clock == CLOCK_REALTIME && atomic_load(&set_back))
        now->tv_sec += 3600;
    return result;
}

static uint64_t uptime_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * SECOND + (uint64_t)now.tv_nsec;
}

static bool is_over(const struct ep_deadline *deadline)
{
    return uptime_ns() >= ep_deadline_ns(deadline);
}

static void *send_one(void *result)
{
    static const uint8_t data[] = "a profile";
    const struct ep_message message = {.data = data, .size = sizeof data};
    struct ep_deadline deadline = {.at_ns = uptime_ns() + SECOND / 5};
    uint64_t retry_ns = 0;

    *(int *)result = ep_dotnet_transport.send(NULL, &message, &deadline, &retry_ns);
    return NULL;
}

/* Stop waits for send. */
TEST(a_clock_that_is_set_back_does_not_delay_the_deadline)
{
    struct timespec until;
    pthread_t thread;
    int result = 0;

    assert_int_equal(ep_dotnet_transport.open(NULL, NULL), 0);
    atomic_store(&set_back, true);
    assert_int_equal(pthread_create(&thread, NULL, send_one, &result), 0);
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 20;
    assert_int_equal(pthread_timedjoin_np(thread, NULL, &until), 0);
    assert_int_equal(result, -ETIMEDOUT);
    atomic_store(&set_back, false);
    ep_dotnet_transport.close(NULL);
}

static void *take_and_answer(void *run)
{
    struct ep_dotnet_message about;
    uint8_t buffer[64];

    while (ep_dotnet_message_take(*(const uint32_t *)run, &about, buffer, sizeof buffer) > 0)
        ep_dotnet_message_done(*(const uint32_t *)run, -ESTALE, 0);
    return NULL;
}

TEST(the_other_halfs_result_is_sends)
{
    pthread_t thread;
    int result = 0;

    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(ep_dotnet_transport.open(NULL, NULL), 0);
        uint32_t run = ep_dotnet_message_run();
        assert_int_equal(pthread_create(&thread, NULL, take_and_answer, &run), 0);
        do
            (void)send_one(&result);
        while (result == -ETIMEDOUT); /* the other thread may be late */
        assert_int_equal(result, -ESTALE);
        ep_dotnet_transport.close(NULL);
        assert_int_equal(pthread_join(thread, NULL), 0);
    }
}

TEST_MAIN
