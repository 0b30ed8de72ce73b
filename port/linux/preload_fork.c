/*
 * Children that continue without exec profile themselves.
 *
 *   fork(), daemon() interposed: park a thread in the parent, of which each child has a copy
 *   forked          in the child: arms one timer, on the CPU time of its only thread; most children end before it
 *   (the handler)   after 100 ms of CPU time: resumes the parked thread
 *   start_in_child  on that thread: ep_start() with the parent's settings, and the tag pid
 *
 * A child has no spool, no control endpoint and no pull endpoint: the parent has them. The settings are a copy, since
 * many servers clear their environment or write their title over it. A child that uses less than 100 ms of CPU time is
 * not profiled; one that uses more loses nothing (EP_SINCE_FORK).
 */
#include "filter.h"
#include "own_threads.h"
#include "preload.h"
#include "preload_outlive.h"
#include "thread_start.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <edgeprof/edgeprof.h>

#define WAITS   2000u /* of a ms */
#define STRINGS (2 * EP_STRINGS_BYTES)

enum state { IDLE, STARTING, RUNS, FAILED, ENDED };

static struct ep_config kept;
static _Alignas(64) uint8_t stack[256 * 1024]; /* with the C library's thread block */
static char strings[STRINGS], tags[EP_STRINGS_BYTES];
static size_t strings_used;
static atomic_bool following, making, parked;
static atomic_int child_state;
static _Atomic(pid_t) child; /* the process that child_state is about */

static bool keep(const char **text)
{
    size_t size = *text ? strlen(*text) + 1 : 0;

    if (size > sizeof strings - strings_used)
        return false;
    if (size)
        *text = memcpy(strings + strings_used, *text, size);
    strings_used += size;
    return true;
}

static bool in_child(void)
{
    return atomic_load(&child) == getpid();
}

static void pause_ms(void)
{
    const struct timespec moment = {.tv_nsec = 1000000};

    (void)nanosleep(&moment, NULL);
}

/* ---- the child ---- */

static void start_in_child(void)
{
    int idle = IDLE;

    if (!in_child() || !atomic_compare_exchange_strong(&child_state, &idle, STARTING))
        return;
    ep_linux_here_set_own(true);
    ep_linux_fork_disarm();
    struct ep_config config = kept;
    int size = snprintf(tags, sizeof tags, "%s%spid=%d", kept.tags ? kept.tags : "", kept.tags && *kept.tags ? "," : "",
                        (int)getpid());
    config.tags = size < (int)sizeof tags ? tags : kept.tags;
    ep_preload_context_again(&config);
    ep_preload_outlive_forked(&config);
    int error = ep_start(&config);
    atomic_store(&child_state, error ? FAILED : RUNS);
}

static void forked(void)
{
    atomic_store(&child, 0);
    if (!atomic_load(&following) || !atomic_load(&parked))
        return;
    ep_linux_threads_forked();
    atomic_store(&child_state, IDLE);
    (void)ep_preload_end_begins();
    if (ep_linux_thread_settled(EP_ROLE_START) && ep_linux_fork_arm() == 0)
        atomic_store(&child, getpid());
}

void ep_preload_fork_hasten(void)
{
    if (in_child() && atomic_load(&child_state) == IDLE)
        (void)ep_port_thread_resume(EP_ROLE_START);
}

bool ep_preload_fork_started(void)
{
    int state = atomic_load(&child_state);

    return in_child() && (state == STARTING || state == RUNS);
}

void ep_preload_fork_end(void)
{
    int idle = IDLE;

    atomic_store(&following, false);
    if (!in_child() || atomic_compare_exchange_strong(&child_state, &idle, ENDED))
        return;
    for (unsigned i = 0; i < WAITS && atomic_load(&child_state) == STARTING; i++)
        pause_ms();
}

void ep_preload_fork_disarm(void)
{
    if (in_child())
        ep_linux_fork_disarm();
    atomic_store(&child, 0);
}

/* ---- the parent ---- */

void ep_preload_fork_follow(const struct ep_config *config)
{
    const char *wanted = secure_getenv("EDGEPROF_FORK");

    if ((wanted && strcmp(wanted, "0") == 0) || !config->endpoint || ep_preload_sanitized() || ep_preload_valgrind())
        return;
    kept = *config;
    kept.flags = (config->flags & ~(uint32_t)(EP_LAZY_THREADS | EP_ZERO_MEMORY)) | EP_SINCE_FORK;
    if (!keep(&kept.service) || !keep(&kept.tags) || !keep(&kept.endpoint) || !keep(&kept.headers))
        return;
    atomic_store(&following, pthread_atfork(NULL, NULL, forked) == 0);
}

/* A child that forks waits until its own start is over. */
static void fork_ready(void)
{
    bool no = false;

    if (!atomic_load(&parked) && atomic_compare_exchange_strong(&making, &no, true))
        atomic_store(&parked, ep_linux_start_park(stack, sizeof stack, start_in_child) == 0);
    for (unsigned i = 0; i < WAITS && atomic_load(&parked) && in_child() && !ep_linux_thread_settled(EP_ROLE_START);
         i++)
        pause_ms();
}

FUNCTION(pid_t, fork, (void))
{
    if (atomic_load(&following) && !ep_linux_filter_is_here())
        fork_ready();
    return next_fork()();
}

FUNCTION(int, daemon, (int keep_directory, int keep_output))
{
    if (atomic_load(&following) && !ep_linux_filter_is_here())
        fork_ready();
    return next_daemon()(keep_directory, keep_output);
}
