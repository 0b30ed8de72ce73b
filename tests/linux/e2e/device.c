/*
 * A device for statuses.py, configured by EDGEPROF_* variables: works a little (2 ms in 20) until standard input ends,
 * prints each line of ep_notice_to() to standard error, and its account at the end.
 */

#include "../../program.h"

#include <edgeprof/edgeprof.h>
#include <edgeprof/tls.h>

static uint8_t memory[EP_MEMORY_DEFAULT], tls_memory[EP_TLS_MEMORY];
static atomic_bool ending;

static void *work(void *unused)
{
    static __thread volatile unsigned sink;
    struct timespec pause = {.tv_nsec = 18000000};

    while (!atomic_load(&ending)) {
        for (uint64_t end = now_ns() + 2000000; now_ns() < end;)
            sink = sink * 1664525u + 1013904223u;
        nanosleep(&pause, NULL);
    }
    return unused;
}

static void say(const char *line)
{
    char text[600];
    int size = snprintf(text, sizeof text, "%s\n", line);

    if (size > 0 && write(STDERR_FILENO, text, (size_t)size) < 0)
        atomic_store(&ending, true);
}

static void print_account(int stopped)
{
    struct ep_stats s;
    uint64_t lost = 0, lost_ns = 0;

    if (ep_stats_get(&s) != 0)
        return;
    for (unsigned i = 0; i < EP_LOSS_REASONS; i++) {
        lost += s.lost_count[i];
        lost_ns += s.lost_ns[i];
    }
    printf("{\"stop\": %d, \"samples\": %llu, \"measured_ns\": %llu, \"lost\": %llu, \"lost_ns\": %llu, "
           "\"failures\": %llu, \"status\": %u}\n",
           stopped, (unsigned long long)s.samples, (unsigned long long)(s.weight_ns + s.thread_exit_ns),
           (unsigned long long)lost, (unsigned long long)lost_ns, (unsigned long long)s.delivery_failures,
           s.last_status);
}

int main(void)
{
    struct ep_config config = {.memory = memory, .memory_size = sizeof memory};
    struct ep_tls_config tls = {.memory = tls_memory, .memory_size = sizeof tls_memory};
    pthread_t thread;
    char byte;

    ep_notice_to(say);
    if (ep_config_from_env(&config) != 1 || ep_tls_config_from_env(&tls) != 0 || ep_tls_setup(&tls) != 0 ||
        ep_start(&config) != 0 || pthread_create(&thread, NULL, work, NULL) != 0) {
        fprintf(stderr, "device: %s %s\n", ep_start_error(), ep_tls_error());
        return 2;
    }
    while (read(STDIN_FILENO, &byte, 1) > 0) {
    }
    atomic_store(&ending, true);
    (void)pthread_join(thread, NULL);
    print_account(ep_stop(20000));
    return 0;
}
