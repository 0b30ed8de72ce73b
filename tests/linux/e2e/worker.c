/*
 * A program for server_gone.py and https.py: burns CPU for SECONDS of wall clock on two threads, profiled to the
 * endpoint given, and prints what the profiler says of itself when it has stopped.
 *
 *     worker ENDPOINT SECONDS [tls]        tls: https endpoints are set up, by EDGEPROF_TLS_*
 */

#include "../../program.h"
#include "account.h"
#include <edgeprof/tls.h>

static uint8_t memory[EP_MEMORY_DEFAULT], tls_memory[EP_TLS_MEMORY];
static time_t end;

static void *burn(void *unused)
{
    static __thread volatile unsigned sink;

    while (time(NULL) < end)
        for (int i = 0; i < 100000; i++)
            sink = sink * 1664525u + 1013904223u;
    return unused;
}

static int secure(void)
{
    struct ep_tls_config tls = {.memory = tls_memory, .memory_size = sizeof tls_memory};

    return ep_tls_config_from_env(&tls) == 0 ? ep_tls_setup(&tls) : -1;
}

int main(int argc, char **argv)
{
    struct ep_config config = {.memory = memory,
                               .memory_size = sizeof memory,
                               .service = "worker",
                               .level = EP_LEVEL_HIGH,
                               .interval_ms = 300,
                               .endpoint = argc > 1 ? argv[1] : NULL};
    pthread_t thread;

    if (argc == 4 && secure() != 0) {
        fprintf(stderr, "worker: %s\n", ep_tls_error());
        return 2;
    }
    if (argc < 3 || ep_start(&config) != 0) {
        fprintf(stderr, "worker: %s\n", ep_start_error());
        return 2;
    }
    end = time(NULL) + atoi(argv[2]);
    if (pthread_create(&thread, NULL, burn, NULL) != 0)
        return 1;
    (void)burn(NULL);
    (void)pthread_join(thread, NULL);
    int stopped = ep_stop(20000);
    print_account(stopped);
    return 0;
}
