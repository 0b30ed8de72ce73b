/*
 * Starts and stops the profiler while 80 threads wait, lock and burn CPU time, and takes its memory away in between.
 *
 *   stop_storm STOPS [THREADS]
 *
 * Level high: every kind has hooks or signals on their way when a stop begins. A share of the starts is made to fail
 * late (the transport cannot open) while hooks run. The profiler's memory is filled with a pattern after each stop, so
 * a thread that still uses the profiler crashes or spoils the pattern. Ends with 0 when nothing of that happened.
 */

#include "../../program.h"

#include <edgeprof/edgeprof.h>
#include <edgeprof/transport.h>

#define THREADS_MOST 512
#define DEEP         8
#define BURN_STEPS   20000u
#define PATTERN      0xa5
#define FAIL_ONE_IN  7
#define STOP_MS      20000

static _Alignas(16) uint8_t memory[EP_MEMORY_DEFAULT];
static atomic_bool over;
static atomic_uint waits;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static bool open_fails;

static int storm_open(void *state, const struct ep_target *target)
{
    (void)state;
    (void)target;
    return open_fails ? -ECONNREFUSED : 0;
}

static int storm_send(void *state, const struct ep_message *message, const struct ep_deadline *deadline,
                      uint64_t *retry_after_ns)
{
    (void)state;
    (void)message;
    (void)deadline;
    (void)retry_after_ns;
    return 0;
}

static const struct ep_transport transport = {.name = "storm", .open = storm_open, .send = storm_send};

static __attribute__((noinline)) void wait_here(unsigned ms)
{
    ep_wait_begin(EP_WAIT_OTHER);
    (void)poll(NULL, 0, (int)ms);
    ep_wait_end();
    (void)atomic_fetch_add(&waits, 1);
}

/* A walk takes longer from a deeper stack: more stops meet one. */
static __attribute__((noinline)) unsigned wait_deep(unsigned depth)
{
    if (depth == 0) {
        wait_here(3);
        return 1;
    }
    unsigned below = wait_deep(depth - 1);
    __asm__ volatile("" : "+r"(below));
    return below + 1;
}

static void burn(void)
{
    for (volatile unsigned i = 0; i < BURN_STEPS; i++)
        ;
}

static void lock_shared(void)
{
    ep_wait_begin(EP_WAIT_LOCK);
    (void)pthread_mutex_lock(&mutex);
    ep_wait_end();
    (void)pthread_mutex_unlock(&mutex);
}

static void *worker(void *argument)
{
    unsigned number = (unsigned)(uintptr_t)argument;

    while (!atomic_load(&over)) {
        (void)wait_deep(DEEP + number % DEEP);
        if (number % 8 == 0)
            burn();
        if (number % 4 == 0)
            lock_shared();
    }
    return NULL;
}

static bool memory_untouched(void)
{
    for (size_t i = 0; i < sizeof memory; i++)
        if (memory[i] != PATTERN)
            return false;
    return true;
}

static void sleep_ms(unsigned ms)
{
    const struct timespec time = {.tv_nsec = (long)ms * 1000000};

    (void)nanosleep(&time, NULL);
}

/* A thread that writes to the memory while it is somebody else's is seen when the next round begins. */
static int storm_round(unsigned round)
{
    const struct ep_config config = {.memory = memory,
                                     .memory_size = sizeof memory,
                                     .service = "storm",
                                     .level = EP_LEVEL_HIGH,
                                     .interval_ms = 100,
                                     .transport = &transport};

    if (round && !memory_untouched()) {
        (void)fprintf(stderr, "stop_storm: the memory was written to after stop %u\n", round);
        return 1;
    }
    open_fails = round % FAIL_ONE_IN == FAIL_ONE_IN - 1;
    int error = ep_start(&config);
    if (open_fails ? error >= 0 : error != 0) {
        (void)fprintf(stderr, "stop_storm: start %u: %d: %s\n", round, error, ep_start_error());
        return 1;
    }
    if (!open_fails) {
        sleep_ms(round % 4);
        error = ep_stop(STOP_MS);
    }
    if (!open_fails && error != 0) {
        (void)fprintf(stderr, "stop_storm: stop %u: %d\n", round, error);
        return 1;
    }
    memset(memory, PATTERN, sizeof memory);
    return 0;
}

int main(int argc, char **argv)
{
    unsigned stops = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 2000;
    unsigned threads = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 80;
    static pthread_t thread[THREADS_MOST];
    int status = 0;

    threads = threads < THREADS_MOST ? threads : THREADS_MOST;
    for (unsigned i = 0; i < threads; i++)
        if (pthread_create(&thread[i], NULL, worker, (void *)(uintptr_t)i) != 0)
            return 1;
    for (unsigned round = 0; round < stops && status == 0; round++) {
        status = storm_round(round);
        if (round % 1000 == 999)
            (void)printf("stop_storm: %u stops\n", round + 1), (void)fflush(stdout);
    }
    atomic_store(&over, true);
    for (unsigned i = 0; i < threads; i++)
        (void)pthread_join(thread[i], NULL);
    if (status == 0)
        (void)printf("stop_storm: %u stops, %u threads, %u waits: nothing crashed\n", stops, threads,
                     atomic_load(&waits));
    return status;
}
