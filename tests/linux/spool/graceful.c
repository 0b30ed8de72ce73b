/*
 * A device that is told to end: profiles itself until SIGTERM, then has two seconds; or until its spool is empty, after
 * SIGUSR1, and then has a minute. Says what it has measured.
 *
 * usage: graceful ENDPOINT   (EDGEPROF_SPOOL says where its spool is; other variables of ep_config_from_env() count
 * too)
 */

#include "../../program.h"

#include <edgeprof/edgeprof.h>

static volatile sig_atomic_t ended, drains;

static void on_signal(int number)
{
    if (number == SIGTERM)
        ended = 1;
    else
        drains = 1;
}

static void say(const char *line)
{
    fprintf(stderr, "%s\n", line);
}

static bool is_drained(void)
{
    struct ep_stats stats;

    return drains && ep_stats_get(&stats) == 0 && stats.replayed > 0 && stats.spool_messages == 0;
}

int main(int argc, char **argv)
{
    static uint64_t memory[EP_MEMORY_DEFAULT / 8], spool_memory[EP_SPOOL_MEMORY / 8];
    struct ep_spool_config spool = {.memory = spool_memory,
                                    .memory_size = sizeof spool_memory,
                                    .link_share_pct = 100,
                                    .sync_ms = argc > 2 ? (uint32_t)atoi(argv[2]) : 0};
    struct ep_config config = {.memory = memory,
                               .memory_size = sizeof memory,
                               .service = "graceful",
                               .level = EP_LEVEL_HIGH,
                               .kinds = EP_KIND_BIT(EP_KIND_CPU),
                               .interval_ms = getenv("EDGEPROF_INTERVAL") ? 0 : 200,
                               .endpoint = argc > 1 ? argv[1] : NULL};
    const struct sigaction action = {.sa_handler = on_signal};
    struct ep_stats stats;
    double sum = 1;

    if (getenv("EDGEPROF_OUTLIVE"))
        ep_notice_to(say);
    if (ep_config_from_env(&config) < 0 || (ep_pprof_from_env(&config) > 0 && ep_pprof_start() != 0) ||
        ep_spool_from_env(&spool) != 1 || ep_spool_start(&spool) != 0 || ep_outlive_start(&config, NULL) < 0 ||
        ep_start(&config) != 0) {
        fprintf(stderr, "graceful: %s\n", ep_start_error());
        return 1;
    }
    (void)sigaction(SIGTERM, &action, NULL);
    (void)sigaction(SIGUSR1, &action, NULL);
    puts("ready");
    (void)fflush(stdout);
    while (!ended && !is_drained())
        for (int i = 0; i < 1000000; i++)
            sum = sum * 1.0000001 + 1;
    struct timespec begin, end;
    (void)clock_gettime(CLOCK_MONOTONIC, &begin);
    int stop = ep_stop(drains ? 60000 : 2000);
    (void)clock_gettime(CLOCK_MONOTONIC, &end);
    (void)ep_stats_get(&stats);
    uint64_t lost = 0;
    for (unsigned i = 0; i < EP_LOSS_REASONS; i++)
        lost += stats.lost_ns[i];
    printf(
        "{\"stop\": %d, \"ms\": %lld, \"measured_ns\": %llu, \"lost_ns\": %llu, \"spooled\": %llu, \"replayed\": %llu, "
        "\"left\": %llu, \"written\": %llu, \"failures\": %llu, \"refused\": %llu}\n",
        stop, (long long)(end.tv_sec - begin.tv_sec) * 1000 + (end.tv_nsec - begin.tv_nsec) / 1000000,
        (unsigned long long)(stats.weight_ns + stats.thread_exit_ns), (unsigned long long)lost,
        (unsigned long long)stats.spooled, (unsigned long long)stats.replayed, (unsigned long long)stats.spool_messages,
        (unsigned long long)stats.spool_written, (unsigned long long)stats.delivery_failures,
        (unsigned long long)stats.lost_count[EP_LOSS_DAMAGED]);
    return sum > 0 ? 0 : 1;
}
