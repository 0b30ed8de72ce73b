/*
 * A service with one slow request in 10,000, for the reason that its argument names: lock, sleep, cpu or disk. After
 * each slow request it waits until the incident is on its way, so that nothing here depends on the machine's speed.
 *
 *   slow REASON SLOW_REQUESTS [TAIL_MS]
 */

#include "../../program.h"

#include <edgeprof/edgeprof.h>

#define EVERY   10000u
#define SLOW_MS 400u

static uint64_t memory[EP_MEMORY_DEFAULT / 8], history[EP_INCIDENT_MEMORY / 8];
static pthread_mutex_t table = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool hold, held, done;
static int late[2]; /* stands for a disk */
static volatile unsigned sink;

static void pause_ms(unsigned ms)
{
    const struct timespec time = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000L};

    (void)nanosleep(&time, NULL);
}

/* Holds the lock, or lets the disk answer, for SLOW_MS when it is asked to. */
static void *helper(void *reason)
{
    while (!atomic_load(&done)) {
        pause_ms(1);
        if (!atomic_load(&hold))
            continue;
        if (strcmp(reason, "lock") == 0)
            (void)pthread_mutex_lock(&table);
        atomic_store(&held, true);
        pause_ms(SLOW_MS);
        if (strcmp(reason, "lock") == 0)
            (void)pthread_mutex_unlock(&table);
        else
            (void)!write(late[1], "x", 1);
        atomic_store(&hold, false);
    }
    return NULL;
}

static void hold_begin(void)
{
    atomic_store(&held, false);
    atomic_store(&hold, true);
    while (!atomic_load(&held))
        pause_ms(1);
}

static __attribute__((noinline)) void slow_lock(void)
{
    hold_begin();
    ep_wait_begin(EP_WAIT_LOCK);
    (void)pthread_mutex_lock(&table);
    ep_wait_end();
    (void)pthread_mutex_unlock(&table);
}

static __attribute__((noinline)) void slow_disk(void)
{
    char byte;

    hold_begin();
    ep_wait_begin(EP_WAIT_DISK);
    (void)!read(late[0], &byte, 1);
    ep_wait_end();
}

static __attribute__((noinline)) void slow_sleep(void)
{
    ep_wait_begin(EP_WAIT_SLEEP);
    pause_ms(SLOW_MS);
    ep_wait_end();
}

static __attribute__((noinline)) void slow_cpu(void)
{
    const uint64_t end = clock_ns(CLOCK_THREAD_CPUTIME_ID) + SLOW_MS * 1000000u;

    while (clock_ns(CLOCK_THREAD_CPUTIME_ID) < end)
        for (unsigned i = 0; i < 10000; i++)
            sink += i;
}

static void be_slow(const char *reason)
{
    if (strcmp(reason, "lock") == 0)
        slow_lock();
    else if (strcmp(reason, "disk") == 0)
        slow_disk();
    else if (strcmp(reason, "sleep") == 0)
        slow_sleep();
    else
        slow_cpu();
}

static void wait_for_incident(uint64_t before)
{
    struct ep_incident_stats stats;

    for (unsigned i = 0; i < 3000; i++) {
        ep_incident_stats_get(&stats);
        if (stats.captured + stats.lost > before)
            return;
        pause_ms(10);
    }
    printf("not captured: %llu captured, %llu suppressed, %llu lost\n", (unsigned long long)stats.captured,
           (unsigned long long)stats.suppressed, (unsigned long long)stats.lost);
}

static void request(unsigned number, const char *reason)
{
    const bool slow = number % EVERY == EVERY - 1;
    struct ep_incident_stats before;
    char name[32];

    ep_incident_stats_get(&before);
    (void)snprintf(name, sizeof name, "request %u", number);
    uint32_t span = ep_incident_span_begin(name, SLOW_MS * 3 / 4);
    for (unsigned i = 0; i < 2000; i++)
        sink += i * number;
    if (slow)
        be_slow(reason);
    ep_incident_span_end(span);
    if (slow)
        wait_for_incident(before.captured + before.lost);
}

int main(int argc, char **argv)
{
    struct ep_config config = {.memory = memory, .memory_size = sizeof memory, .interval_ms = 1000};
    struct ep_incident_config incident = {.memory = history, .memory_size = sizeof history};
    pthread_t thread;

    if (argc < 3 || ep_config_from_env(&config) <= 0 || pipe(late) != 0)
        return 2;
    incident.gap_ms = 1;
    incident.per_day = 1000;
    incident.tail_ms = argc > 3 ? (uint32_t)atoi(argv[3]) : 100;
    if (ep_incident_start(&incident) != 0 || ep_start(&config) != 0) {
        fprintf(stderr, "%s\n", ep_start_error());
        return 1;
    }
    (void)pthread_create(&thread, NULL, helper, argv[1]);
    for (unsigned i = 0, count = (unsigned)atoi(argv[2]) * EVERY; i < count; i++)
        request(i, argv[1]);
    atomic_store(&done, true);
    (void)pthread_join(thread, NULL);
    return ep_stop(10000) == 0 ? 0 : 1;
}
