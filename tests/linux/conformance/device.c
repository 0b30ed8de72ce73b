/*
 * A C program that measures what a C program can, set up by the environment: work under tags and a span, locks, waits,
 * a dump of all threads; some names are no UTF-8. Ends after SECONDS and tells what became of its messages.
 *
 *   device SECONDS
 */

#include "../../program.h"

#include <edgeprof/edgeprof.h>

static uint8_t memory[EP_MEMORY_DEFAULT];
static double seconds;
static double started;
static double sink;

static double now(void)
{
    return (double)now_ns() / 1e9;
}

static int by_value(const void *a, const void *b)
{
    return (*(const int *)a > *(const int *)b) - (*(const int *)a < *(const int *)b);
}

/* Exported: the dynamic symbols have it, and libc's qsort() under it. */
__attribute__((noinline, visibility("default"))) void exported_burn(void);
void exported_burn(void)
{
    static __thread int values[5000];

    for (int i = 0; i < 5000; i++)
        values[i] = rand() % 1000;
    qsort(values, 5000, sizeof values[0], by_value);
    sink += values[2500];
}

__attribute__((noinline)) static void hidden_burn(void)
{
    for (int i = 1; i < 200000; i++)
        sink += 1.0 / i;
}

static void wait_as(enum ep_wait wait)
{
    ep_wait_begin(wait);
    usleep(20000);
    ep_wait_end();
}

static void work(const char *step)
{
    (void)ep_tag_push("step", step);
    ep_span_set(0xabcdef, 1, 2);
    exported_burn();
    hidden_burn();
    wait_as(EP_WAIT_LOCK);
    wait_as(EP_WAIT_NETWORK);
    ep_span_set(0, 0, 0);
    ep_tag_pop();
}

static void *worker(void *name)
{
    prctl(PR_SET_NAME, name);
    while (now() - started < seconds)
        work(name);
    return NULL;
}

int main(int argc, char **argv)
{
    struct ep_config config = {.memory = memory, .memory_size = sizeof memory};
    struct ep_stats stats;
    pthread_t threads[2];

    seconds = argc == 2 ? atof(argv[1]) : 0;
    if (seconds <= 0 || ep_config_from_env(&config) < 0 || ep_pprof_from_env(&config) != 1 || ep_pprof_start() != 0 ||
        ep_start(&config) != 0) {
        fprintf(stderr, "device: %s\n", seconds > 0 ? ep_start_error() : "usage: device SECONDS");
        return 1;
    }
    started = now();
    pthread_create(&threads[0], NULL, worker, "sound");
    pthread_create(&threads[1], NULL, worker, "un\xc3sound\xff");
    usleep((useconds_t)(seconds * 500000));
    (void)ep_threads_dump();
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    int stopped = ep_stop(10000);
    (void)ep_stats_get(&stats);
    printf("messages %llu delivered %llu failures %llu refused %llu stopped %d\n", (unsigned long long)stats.messages,
           (unsigned long long)stats.delivered, (unsigned long long)stats.delivery_failures,
           (unsigned long long)stats.lost_count[EP_LOSS_REFUSED], stopped);
    return 0;
}
