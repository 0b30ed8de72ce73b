/*
 * A program that takes for granted that it is alone. coexist.py runs each row with and without edgeprof.
 *
 *   coexist raw-exit        the only thread ends by the system call exit, with 3
 *   coexist pthread-exit    main leaves by pthread_exit(), the last thread is one of thrd_create()
 *   coexist thrd-exit       main leaves by thrd_exit(), likewise
 *   coexist constructor SO  a plug-in's constructor works, and calls exit(5) inside of dlopen()
 *   coexist unshare-work    unshare(CLONE_NEWUSER) when all threads of edgeprof run
 *   coexist unshare-join    the same after a thread was joined
 *   coexist file-size       work after a limit of no bytes for files
 *   coexist filter-..., strict-...     seccomp filters: coexist_filter.c
 */
#include "../../program.h"
#include "coexist.h"

#include <sys/resource.h>
#include <threads.h>

static void burn(double seconds)
{
    const clock_t end = clock() + (clock_t)(seconds * CLOCKS_PER_SEC);

    while (clock() < end) {
        for (volatile int i = 0; i < 100000; i++) {
        }
    }
}

void coexist_count(void)
{
    for (volatile unsigned long i = 0; i < 120000000ul; i++) {
    }
}

static int worker(void *unused)
{
    (void)unused;
    burn(0.4);
    thrd_exit(0);
}

static void start_worker(void)
{
    thrd_t thread;

    if (thrd_create(&thread, worker, NULL) != thrd_success)
        exit(9);
}

static void *burn_once(void *unused)
{
    burn(0.3);
    return unused;
}

/* The preload library starts its threads at the first sample after 3 s. */
static void work_until_profiled(void)
{
    const bool profiled = getenv("EDGEPROF_ENDPOINT") != NULL;
    int rounds = 0;

    burn(0.3);
    do {
        (void)usleep(100000);
        burn(0.005);
    } while (own_ns("edgeprof-coll") == 0 && profiled && ++rounds < 60);
}

static int enter_namespace(void)
{
    if (unshare(CLONE_NEWUSER) != 0) {
        perror("unshare");
        return 6;
    }
    burn(0.3);
    return 4;
}

#ifdef LINKED
#include <edgeprof/edgeprof.h>
#include <edgeprof/transport.h>

static void say(const char *line)
{
    fprintf(stderr, "%s\n", line);
}

/* The program stops it only by its end. */
static int start_profiler(void)
{
    static uint8_t memory[EP_MEMORY_DEFAULT];
    const struct ep_config config = {.memory = memory,
                                     .memory_size = sizeof memory,
                                     .service = "coexist",
                                     .level = EP_LEVEL_HIGH,
                                     .endpoint = "file:///dev/null"};
    ep_notice_to(say);
    const int error = ep_start(&config);

    return error == -EPERM ? 0 : error;
}

static int send_never(void *state, const struct ep_message *message, const struct ep_deadline *deadline,
                      uint64_t *retry_ns)
{
    (void)state, (void)message, (void)deadline, (void)retry_ns;
    while (pause() != 0) {
    }
    return 0;
}

/* A transport that never returns: ep_stop() gives it up. */
static int never_sent(void)
{
    static const struct ep_transport stuck = {.name = "stuck", .send = send_never};
    static uint8_t memory[EP_MEMORY_DEFAULT];
    const struct ep_config config = {.memory = memory,
                                     .memory_size = sizeof memory,
                                     .service = "stuck",
                                     .level = EP_LEVEL_HIGH,
                                     .transport = &stuck};

    if (ep_start(&config) != 0)
        return 9;
    burn(0.5);
    if (ep_stop(100) != -EBUSY || ep_start(&config) != -EBUSY)
        return 8;
    fprintf(stderr, "%s\n", ep_start_error());
    return 4;
}

/* Beside the preloaded profiler, which counts the CPU time of this process. */
static int twice(void)
{
    struct ep_stats stats;

    burn(0.5);
    if (ep_stop(2000) < 0 || ep_stats_get(&stats) != 0)
        return 9;
    printf("cpu %llu\n", (unsigned long long)stats.samples);
    return 4;
}
#endif

int main(int argc, char **argv)
{
    const char *row = argc > 1 ? argv[1] : "";
    pthread_t thread;

#ifdef LINKED
    if (strcmp(row, "never-sent") == 0)
        return never_sent();
    if (start_profiler() != 0)
        return 7;
#endif
#ifdef LINKED
    if (strcmp(row, "twice") == 0)
        return twice();
#endif
    if (strncmp(row, "filter-", 7) == 0 || strncmp(row, "strict-", 7) == 0)
        return coexist_filter(row);
    if (strcmp(row, "raw-exit") == 0) {
        burn(0.4);
        (void)syscall(SYS_exit, 3);
    } else if (strcmp(row, "pthread-exit") == 0) {
        start_worker();
        pthread_exit(NULL);
    } else if (strcmp(row, "thrd-exit") == 0) {
        start_worker();
        thrd_exit(0);
    } else if (strcmp(row, "constructor") == 0 && argc > 2) {
        if (!dlopen(argv[2], RTLD_NOW))
            fprintf(stderr, "%s\n", dlerror());
    } else if (strcmp(row, "file-size") == 0) {
        const struct rlimit none = {0, 0};
        if (setrlimit(RLIMIT_FSIZE, &none) != 0)
            return 9;
        burn(0.4);
        return 4;
    } else if (strcmp(row, "unshare-work") == 0) {
        work_until_profiled();
        return enter_namespace();
    } else if (strcmp(row, "unshare-join") == 0) {
        if (pthread_create(&thread, NULL, burn_once, NULL) != 0 || pthread_join(thread, NULL) != 0)
            return 9;
        return enter_namespace();
    }
    return 8;
}
