/*
 * The profiler as a shared object for LD_PRELOAD, for programs built without edgeprof. It starts before main() if
 * EDGEPROF_ENDPOINT or EDGEPROF_PULL is set, and stops when the program exits.
 *
 * A killed program loses its last interval, or its first seconds while threads are parked, unless EDGEPROF_OUTLIVE
 * names a folder for its memory, as `edgeprof run` does (preload_outlive.c). Forked children without exec profile
 * themselves (preload_fork.c). Other children inherit the environment and are profiled too; EDGEPROF_ONLY and
 * EDGEPROF_SKIP choose among them (preload_choice.c). Invalid settings give one line on standard error, and the program
 * runs unprofiled.
 */
#include "filter.h"
#include "linux.h"
#include "preload.h"
#include "preload_lines.h"
#include "preload_outlive.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <edgeprof/edgeprof.h>
#include <edgeprof/hooks.h>
#include <edgeprof/tls.h>

#define PULL_REFUSED "its token would cross the network unencrypted; put TLS in front, or set EDGEPROF_PULL_INSECURE=1"

/* Programs have as many threads as they like. A page that is not needed costs nothing, unless it is shared with
 * `edgeprof run` (preload_outlive.c). */
#define MEMORY EP_MEMORY_FOR_THREADS(1536)

static _Alignas(EP_OUTLIVE_PAGE) uint8_t memory[EP_OUTLIVE_ROOM(MEMORY)];
static uint8_t tls_memory[EP_TLS_MEMORY], pull_memory[EP_PULL_MEMORY_DEFAULT];
static uint64_t spool_memory[EP_SPOOL_MEMORY / 8];
static pid_t started; /* the profiled process */

struct ep_preload_more ep_preload_more;

/* -EADDRINUSE is not reported: in a child the parent has the address. */
static void report_endpoint(const char *what, int error)
{
    if (error < 0 && error != -EADDRINUSE)
        ep_preload_say(what, strerror(-error));
}

static int start_secure(const struct ep_config *config)
{
    struct ep_tls_config tls = {.memory = tls_memory, .memory_size = sizeof tls_memory};

    if (!ep_tls_is_needed(config->endpoint))
        return 0;
    int error = ep_tls_config_from_env(&tls);
    return error ? error : ep_tls_setup(&tls);
}

/* Medium and high have the kinds already. */
static void add_more(struct ep_config *config)
{
    if (ep_preload_more.kinds && !config->kinds && config->level <= EP_LEVEL_LOW)
        config->kinds = EP_KIND_BIT(EP_KIND_CPU) | ep_preload_more.kinds;
}

/* The linker's names for the bounds of that section. */
#define BOUND(name, symbol) extern const char name[] __asm__(symbol) __attribute__((visibility("hidden")))
BOUND(calls_start, "__start_ep_calls");
BOUND(calls_end, "__stop_ep_calls");

struct ep_own_text ep_preload_own_text(void)
{
    return (struct ep_own_text){(uintptr_t)ep_preload_own_text, (uintptr_t)calls_start, (uintptr_t)calls_end};
}

/* The profiler runs without if that fails. -EBUSY is not reported: in a child the parent has the file. */
static void crash_begin(void)
{
    struct ep_crash_config crash = {0};
    int error = ep_crash_from_env(&crash);

    if (error > 0)
        error = ep_crash_start(&crash);
    if (error < 0 && error != -EBUSY)
        ep_preload_say_error("no crash records", ep_start_error(), error);
}

static void incident_begin(void)
{
    static _Alignas(8) uint8_t history[EP_INCIDENT_MEMORY];
    struct ep_incident_config incident = {.memory = history, .memory_size = sizeof history};
    int error = ep_incident_from_env(&incident);

    if (error > 0)
        error = ep_incident_start(&incident);
    if (error < 0)
        ep_preload_say_error("no incidents", ep_start_error(), error);
}

/* The section of NEXT()'s names. */
extern const struct ep_preload_name __start_ep_next[] __attribute__((visibility("hidden")));
extern const struct ep_preload_name __stop_ep_next[] __attribute__((visibility("hidden")));

void ep_preload_find_all(void)
{
    for (const struct ep_preload_name *at = __start_ep_next; at < __stop_ep_next; at++)
        if (!atomic_load_explicit(at->next, memory_order_relaxed))
            (void)ep_preload_find(at->next, at->name);
}

void ep_preload_endpoints(void)
{
    const struct ep_pull_config pull = {.memory = pull_memory, .memory_size = sizeof pull_memory};
    const int control = ep_control_start(NULL, NULL), pulled = ep_pull_start(&pull);

    report_endpoint("no control endpoint, see EDGEPROF_CONTROL", control);
    if (pulled == -EACCES)
        ep_preload_say("no pull endpoint, see EDGEPROF_PULL", PULL_REFUSED);
    else
        report_endpoint("no pull endpoint, see EDGEPROF_PULL", pulled);
}

/* Says it only if the filter permits the calls that say it, which are the first on the list after those of ticks. */
static bool is_filtered(void)
{
    const char *call = ep_linux_filter_begin();
    char line[160];

    if (!call)
        return false;
    (void)snprintf(line, sizeof line, "the seccomp filter that the program starts with does not permit %s()", call);
    if (strcmp(call, "write") != 0 && strcmp(call, "getppid") != 0 && strcmp(call, "kill") != 0)
        ep_preload_say("not profiling", line);
    return true;
}

/* Returns 1, or the error. */
static int pprof_begin(struct ep_config *config)
{
    const int wanted = ep_pprof_from_env(config), error = wanted > 0 ? ep_pprof_start() : wanted;

    return error ? error : 1;
}

__attribute__((constructor)) static void preload_begin(void)
{
    struct ep_config config = {.memory = memory, .memory_size = MEMORY, .flags = EP_ZERO_MEMORY};
    struct ep_spool_config spool = {.memory = spool_memory, .memory_size = sizeof spool_memory};
    const struct ep_own_text own_text = ep_preload_own_text();

    ep_preload_outlived();
    int wanted = ep_config_from_env(&config);
    if (wanted > 0)
        wanted = pprof_begin(&config);
    if (wanted == 0 || is_filtered() || !ep_preload_chosen())
        return;
    if (ep_preload_end_begins() < 0) {
        ep_preload_say("not profiling", "EDGEPROF_EXIT_TIMEOUT: must be a number of ms from 0 to 600000");
        return;
    }
    ep_preload_find_all();
    ep_linux_here_set_own(true);
    ep_own_text_is(&own_text);
    add_more(&config);
    if (!ep_preload_sanitized())
        config.flags |= EP_LAZY_THREADS;
    if (ep_preload_valgrind() && !(config.flags & EP_CLOCKS))
        config.flags |= EP_CLOCK_TIMERS;
    int secure = wanted < 0 ? 0 : start_secure(&config);
    int old = wanted < 0 ? wanted : secure ? secure : ep_endpoint_old(&config, NULL);
    int spools = old < 0 ? old : ep_spool_from_env(&spool);
    int error = spools > 0 ? ep_spool_start(&spool) : spools;
    if (!error) {
        crash_begin();
        incident_begin();
        ep_preload_context(&config);
    }
    ep_notice_to(ep_preload_say_line);
    error = error ? error : ep_preload_outlive(&config, !(config.flags & EP_LAZY_THREADS));
    error = error ? error : ep_waits_watch_start();
    error = error ? error : ep_start(&config);
    started = error ? 0 : getpid();
    if (started) {
        ep_preload_alone_begin();
        ep_preload_fork_follow(&config);
        ep_preload_endpoints();
    }
    ep_linux_here_set_own(false);
    if (error && secure)
        ep_preload_say("not profiling", ep_tls_error());
    else if (error == -EINVAL && ep_start_error()[0])
        ep_preload_say("not profiling", ep_start_error());
    else if (error)
        ep_preload_say_error("not profiling", ep_start_error(), error);
}

static int stop_all(void)
{
    ep_linux_here_set_own(true);
    (void)ep_pull_stop();
    (void)ep_control_stop();
    int stopped = ep_stop(ep_preload_end_ms());
    ep_crash_stop();
    ep_linux_here_set_own(false);
    return stopped;
}

void ep_preload_filter_end(void)
{
    const bool profiled = ep_preload_fork_started() || (started && getpid() == started);

    ep_preload_fork_end();
    if (profiled)
        (void)stop_all();
    else
        ep_preload_fork_disarm();
    started = 0;
}

bool ep_preload_is_out(void)
{
    return !ep_preload_chosen() || ep_linux_filter_met() || ep_linux_filter_is_here();
}

__attribute__((destructor)) static void preload_end(void)
{
    struct ep_stats stats;

    if (ep_preload_is_out())
        return;
    ep_preload_fork_end();
    int stopped = stop_all();
    if (stopped == -EBUSY)
        ep_preload_say("not stopped", ep_start_error());
    if (stopped != -ETIMEDOUT)
        return;
    if (ep_tls_error()[0])
        ep_preload_say("profiles were not delivered", ep_tls_error());
    else if (ep_stats_get(&stats) == 0 && stats.last_error)
        ep_preload_say_error("profiles were not delivered", "", stats.last_error);
}

/* A program that ends without exit() would lose its last interval, which may be all it has. A child of vfork() gets
 * here too, in its parent's memory. */
static void exit_early(void)
{
    if (!ep_preload_is_out() && (ep_preload_fork_started() || (started && getpid() == started)))
        preload_end();
}

/* Looked up at start, since another thread may hold the loader's lock for ever. */
/* clang-format off */
#define EXIT_EARLY(name) \
    NEXT(void, name, (int)) \
    __attribute__((visibility("default"), noreturn)) void name(int status) \
    { \
        exit_early(); \
        next_##name()(status); \
        __builtin_unreachable(); \
    }
/* clang-format on */

EXIT_EARLY(_exit)
EXIT_EARLY(_Exit)
