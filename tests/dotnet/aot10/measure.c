/*
 * Two threads that call the library's function, each as a worker of Node's.
 *
 *   measure LIBRARY MS     until each thread has used MS milliseconds of CPU time
 *
 * With -DLINKED edgeprof is linked in, and EDGEPROF_ENDPOINT and so on say where profiles go; without, nothing here
 * knows of it. Prints how many calls there were; each throws once.
 */
#include "../../program.h"
#include "host.h"

#ifdef LINKED
#include <edgeprof/edgeprof.h>

static uint8_t memory[EP_MEMORY_DEFAULT];

static int profiler_start(void)
{
    struct ep_config config = {.memory = memory, .memory_size = sizeof memory};
    int error = ep_config_from_env(&config);

    if (error >= 0)
        error = ep_start(&config);
    if (error < 0)
        fprintf(stderr, "measure: the profiler does not start: %s %s\n", strerror(-error), ep_start_error());
    return error < 0;
}

static int profiler_stop(void)
{
    return ep_stop(10000) < 0;
}
#else
static int profiler_start(void)
{
    return 0;
}

static int profiler_stop(void)
{
    return 0;
}
#endif

static long cpu_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (long)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static unsigned long call(long ms)
{
    unsigned long calls = 0;

    for (; cpu_ms() < ms; calls++)
        host_call();
    return calls;
}

struct worker {
    long ms;
    unsigned long calls;
};

static void *work(void *argument)
{
    struct worker *worker = argument;

    if (host_join() != 0)
        abort();
    worker->calls = call(worker->ms);
    return NULL;
}

int main(int argc, char **argv)
{
    struct worker worker = {.ms = argc == 3 ? atol(argv[2]) : 0};
    pthread_t thread;

    if (worker.ms < 1) {
        fprintf(stderr, "usage: measure LIBRARY MS\n");
        return 2;
    }
    if (host_load(argv[1]) != 0 || profiler_start() != 0 || pthread_create(&thread, NULL, work, &worker) != 0)
        return 1;
    unsigned long calls = call(worker.ms);
    if (pthread_join(thread, NULL) != 0 || profiler_stop() != 0)
        return 1;
    calls += worker.calls;
    printf("%lu calls, %lu threw\n", calls, host_throws());
    return host_throws() == calls ? 0 : 1;
}
