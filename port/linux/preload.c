/*
 * The profiler as a shared object for LD_PRELOAD: starts before main() when EDGEPROF_ENDPOINT or EDGEPROF_PULL is set,
 * stops when the program exits, and sees new threads by interposing pthread_create. For programs that were built
 * without edgeprof.
 *
 * A program that is killed or calls _exit() loses its last interval. Children inherit the environment and are profiled
 * as well. Bad settings give one line on standard error; the program runs on, unprofiled.
 */
#include "thread_start.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/edgeprof.h"
#include "transport/tls.h"

#define STOP_MS 2000

static uint8_t memory[EP_MEMORY_DEFAULT], tls_memory[EP_TLS_MEMORY], pull_memory[EP_PULL_MEMORY_DEFAULT];
static uint64_t spool_memory[EP_SPOOL_MEMORY / 8];

static void say(const char *what, const char *why)
{
    char line[256];
    int size = snprintf(line, sizeof line, "edgeprof: %s: %s\n", what, why);

    if (size > 0 && write(STDERR_FILENO, line, (size_t)size < sizeof line ? (size_t)size : sizeof line - 1) < 0)
        return;
}

/* A child has what its parent listens on. */
static void said_of(const char *what, int error)
{
    if (error < 0 && error != -EADDRINUSE)
        say(what, strerror(-error));
}

static int start_secure(const struct ep_config *config)
{
    struct ep_tls_config tls = {.memory = tls_memory, .memory_size = sizeof tls_memory};

    if (!config->endpoint || strncmp(config->endpoint, "https://", 8) != 0)
        return 0;
    int error = ep_tls_config_from_env(&tls);
    return error ? error : ep_tls_setup(&tls);
}

__attribute__((constructor)) static void begin(void)
{
    const struct ep_pull_config pull = {.memory = pull_memory, .memory_size = sizeof pull_memory};
    struct ep_config config = {.memory = memory, .memory_size = sizeof memory};
    struct ep_spool_config spool = {.memory = spool_memory, .memory_size = sizeof spool_memory};
    int wanted = ep_config_from_env(&config);

    if (wanted == 0)
        return;
    ep_linux_here_set_own(true);
    int secure = wanted < 0 ? 0 : start_secure(&config);
    int spools = wanted < 0 ? wanted : secure ? secure : ep_spool_from_env(&spool);
    int error = spools > 0 ? ep_spool_start(&spool) : spools;
    error = error ? error : ep_start(&config);
    int control = error ? 0 : ep_control_start(NULL, NULL), pulled = error ? 0 : ep_pull_start(&pull);
    ep_linux_here_set_own(false);
    if (error)
        say("not profiling", secure ? ep_tls_error() : ep_start_error()[0] ? ep_start_error() : strerror(-error));
    said_of("no control endpoint, see EDGEPROF_CONTROL", control);
    said_of("no pull endpoint, see EDGEPROF_PULL", pulled);
}

__attribute__((destructor)) static void end(void)
{
    ep_linux_here_set_own(true);
    (void)ep_pull_stop();
    (void)ep_control_stop();
    int stopped = ep_stop(STOP_MS);
    ep_linux_here_set_own(false);
    if (stopped == -ETIMEDOUT && ep_tls_error()[0])
        say("profiles were not delivered", ep_tls_error());
}

__attribute__((visibility("default"))) int pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                                                          void *(*fn)(void *), void *argument)
{
    static _Atomic(ep_linux_create *) next;
    ep_linux_create *create = atomic_load(&next);

    if (!create) {
        void *symbol = dlsym(RTLD_NEXT, "pthread_create");
        memcpy(&create, &symbol, sizeof create);
        atomic_store(&next, create);
    }
    return ep_linux_thread_create(create, thread, attributes, fn, argument);
}
