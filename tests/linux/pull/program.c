/*
 * A program for pull.py whose profiles are known: two threads use CPU half of the time, in functions of 60, 30 and 10
 * %; two more contend for a lock that is held for 5 ms at a time; one sleeps for good in a function of its own. The
 * pull endpoint is as EDGEPROF_PULL says, profiles are pushed as EDGEPROF_ENDPOINT says.
 *
 *   program SECONDS     stops after so long, or when its standard input ends; prints one line of JSON:
 *                       what was measured, delivered and lost, and what the slowest of the sleeps that a thread makes
 *                       all along was late, as a service's request would be
 */
#include <pthread.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <edgeprof/edgeprof.h>

#define NOINLINE __attribute__((noinline))
#define MS       1000000L

static uint8_t memory[EP_MEMORY_DEFAULT], pull_memory[EP_PULL_MEMORY_DEFAULT];
static atomic_bool stopping;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static _Atomic long long delay_ns;
static _Atomic unsigned long contentions;

static long long clock_ns(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (long long)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void pause_ns(long ns)
{
    const struct timespec pause = {.tv_nsec = ns};

    nanosleep(&pause, NULL);
}

/* Uses that much CPU time; the callers are what a profile tells apart. */
#define BURNS(name)                                                                                                    \
    static NOINLINE void name(long long ns)                                                                            \
    {                                                                                                                  \
        static __thread volatile unsigned sink;                                                                        \
        for (long long end = clock_ns(CLOCK_THREAD_CPUTIME_ID) + ns; clock_ns(CLOCK_THREAD_CPUTIME_ID) < end;)         \
            for (int i = 0; i < 20000; i++)                                                                            \
                sink = sink * 1664525u + 1013904223u;                                                                  \
    }
BURNS(burn_heavy)
BURNS(burn_medium)
BURNS(burn_light)

static NOINLINE void *burner(void *unused)
{
    unsigned seed = 7;

    while (!atomic_load(&stopping)) {
        long unit = (long)(rand_r(&seed) % 1000) * 2000;
        burn_heavy(6 * unit);
        burn_medium(3 * unit);
        burn_light(unit);
        pause_ns(10 * unit); /* as a service; two processors are free for the clients half of the time */
    }
    return unused;
}

static NOINLINE void take_lock(void)
{
    if (pthread_mutex_trylock(&mutex) == 0)
        return;
    long long start = clock_ns(CLOCK_MONOTONIC);
    ep_wait_begin(EP_WAIT_LOCK);
    pthread_mutex_lock(&mutex);
    ep_wait_end();
    atomic_fetch_add(&delay_ns, clock_ns(CLOCK_MONOTONIC) - start);
    atomic_fetch_add(&contentions, 1);
}

static NOINLINE void *contender(void *unused)
{
    while (!atomic_load(&stopping)) {
        take_lock();
        pause_ns(5 * MS);
        pthread_mutex_unlock(&mutex);
        pause_ns(MS / 10);
    }
    return unused;
}

static NOINLINE void *sleeper(void *unused)
{
    while (!atomic_load(&stopping)) {
        ep_wait_begin(EP_WAIT_SLEEP);
        pause_ns(100 * MS);
        ep_wait_end();
    }
    return unused;
}

static void report(int stopped)
{
    struct ep_stats stats;
    uint64_t lost = 0;

    (void)ep_stats_get(&stats);
    for (unsigned i = 0; i < EP_LOSS_REASONS; i++)
        lost += i == EP_LOSS_TREE_FULL || i == EP_LOSS_ENTRIES_FULL ? 0 : stats.lost_ns[i];
    printf("{\"stop\": %d, \"measured_ns\": %llu, \"lost_ns\": %llu, \"messages\": %llu, \"delivered\": %llu, "
           "\"process_ns\": %lld, \"wakeups\": %llu, \"lock_delay_ns\": %lld, \"contentions\": %lu}\n",
           stopped, (unsigned long long)(stats.weight_ns + stats.thread_exit_ns), (unsigned long long)lost,
           (unsigned long long)stats.messages, (unsigned long long)stats.delivered, clock_ns(CLOCK_PROCESS_CPUTIME_ID),
           (unsigned long long)stats.wakeups, atomic_load(&delay_ns), atomic_load(&contentions));
}

static int begin(void)
{
    struct ep_config config = {.memory = memory, .memory_size = sizeof memory, .service = "pulled"};
    const struct ep_pull_config pull = {.memory = pull_memory, .memory_size = sizeof pull_memory};
    int wanted = ep_config_from_env(&config), error = wanted < 0 ? wanted : ep_start(&config);

    if (error) {
        fprintf(stderr, "program: %s\n", ep_start_error());
        return 1;
    }
    error = ep_pull_start(&pull);
    if (error < 0)
        fprintf(stderr, "program: EDGEPROF_PULL: %s\n", strerror(-error));
    return error < 0;
}

int main(int argc, char **argv)
{
    static void *(*const bodies[])(void *) = {burner, burner, contender, contender, sleeper};
    pthread_t thread[sizeof bodies / sizeof bodies[0]];
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    const unsigned count = sizeof bodies / sizeof bodies[0];

    if (argc != 2 || begin() != 0)
        return 2;
    for (unsigned i = 0; i < count; i++)
        if (pthread_create(&thread[i], NULL, bodies[i], NULL) != 0)
            return 1;
    puts("ready");
    fflush(stdout);
    (void)poll(&input, 1, atoi(argv[1]) * 1000);
    atomic_store(&stopping, true);
    for (unsigned i = 0; i < count; i++)
        (void)pthread_join(thread[i], NULL);
    (void)ep_pull_stop();
    report(ep_stop(20000));
    return 0;
}
