/*
 * Private to the preload library: which processes it profiles, and macros to interpose functions of the C library.
 */
#ifndef EP_LINUX_PRELOAD_H
#define EP_LINUX_PRELOAD_H

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <edgeprof/hooks.h>

/* True if EDGEPROF_ONLY and EDGEPROF_SKIP choose this process. Decided once, so later changes of the environment
 * have no effect. In other processes no thread, timer or handler is created, and every interposed function calls the
 * C library directly. Context: any thread. */
bool ep_preload_chosen(void);

/* True where edgeprof may make no system call: the process is not chosen, or profiling has ended because of a filter.
 * Context: any thread. */
bool ep_preload_is_out(void);

/* True if the program or one of its libraries has a sanitizer's runtime. Context: init. */
bool ep_preload_sanitized(void);

/* True if valgrind runs the program. It delivers signals late and joins them, so ticks cannot be counted one by one,
 * and it takes the memory of a parked thread for lost in a child, where that thread does not exist. Context: init. */
bool ep_preload_valgrind(void);

/* What a preload library with more hooks brings (preload_memory.c); all zero: nothing. Written before preload.c's
 * constructor runs. */
struct ep_preload_more {
    uint32_t kinds; /* also at level low, unless EDGEPROF_KINDS is set */
};
extern struct ep_preload_more ep_preload_more;

/* The preload library's code, for ep_own_text_is(). Context: any thread. */
struct ep_own_text ep_preload_own_text(void);

/* ---- the end (preload_end.c) ---- */

/* The life of this process begins, with its start or with fork(). Reads EDGEPROF_EXIT_TIMEOUT. Returns 0, or -EINVAL:
 * that is no number of ms from 0 to 600000. Context: init. */
int ep_preload_end_begins(void);
/* The ms that the process may wait at its end until the last profile is delivered: EDGEPROF_EXIT_TIMEOUT, else a tenth
 * of its life, from 100 ms to 2 s; under `edgeprof run` 2 s. Context: init. */
unsigned ep_preload_end_ms(void);

struct ep_config;

/* ---- seccomp filters (preload_filter.c) ---- */

/* Ends the profile of this process and those of its children that fork, before a filter that would end the process.
 * Context: any thread. */
void ep_preload_filter_end(void);

/* ---- OpenTelemetry's contexts (preload_context.c) ---- */

/* Does what EDGEPROF_OTEL_CONTEXT says, before ep_start(); `again` in a forked child. Context: init. */
void ep_preload_context(const struct ep_config *config);
void ep_preload_context_again(const struct ep_config *config);

/* ---- forked children (preload_fork.c) ---- */

/* From here on forked children are profiled with this configuration, which is copied, unless EDGEPROF_FORK=0 or there
 * is no endpoint. Context: init. */
void ep_preload_fork_follow(const struct ep_config *config);
/* Starts the profiler now, if this is a child that waits for its first 100 ms of CPU time. Context: any thread. */
void ep_preload_fork_hasten(void);
/* True in a child whose profiler starts or runs. Context: any thread. */
bool ep_preload_fork_started(void);
/* After ep_preload_fork_end(), in a child that has not started: no tick starts it any more. Context: any thread. */
void ep_preload_fork_disarm(void);
/* The process ends: waits for a start that has begun, and prevents later ones. Context: init. */
void ep_preload_fork_end(void);

/* ---- calls that need a process with one thread (preload_alone.c) ---- */

/* From here on such a call stops and starts the endpoints too. Context: init. */
void ep_preload_alone_begin(void);

/* Starts the control and the pull endpoint, if the environment wants them. Context: init. */
void ep_preload_endpoints(void);

/* Finds the next definition of a function. On x86-64 glibc also has obsolete condition variables under the same
 * names. */
static inline void *ep_preload_find(_Atomic(void *) *next, const char *name)
{
    void *symbol = NULL;

    if (strncmp(name, "pthread_cond_", 13) == 0)
        symbol = dlvsym(RTLD_NEXT, name, "GLIBC_2.3.2");
    if (!symbol)
        symbol = dlsym(RTLD_NEXT, name);
    atomic_store(next, symbol);
    return symbol;
}

/* Every function that is looked up, in a section of its own. */
struct ep_preload_name {
    _Atomic(void *) *next;
    const char *name;
};

/* Finds them all, at start: dlsym() waits for the loader's lock, and edgeprof's threads may not. Context: init. */
void ep_preload_find_all(void);

/* clang-format off */
/* next_NAME(): the function of that name in the next library. */
#define NEXT(result, name, arguments) \
    typedef result type_##name arguments; \
    static _Atomic(void *) place_##name; \
    static const struct ep_preload_name name_##name __attribute__((used, section("ep_next"))) = {&place_##name, #name}; \
    static inline type_##name *next_##name(void) \
    { \
        type_##name *function; \
        void *symbol = atomic_load_explicit(&place_##name, memory_order_relaxed); \
        if (!symbol) \
            symbol = ep_preload_find(&place_##name, #name); \
        memcpy(&function, &symbol, sizeof function); \
        return function; \
    }

/* Defines the interposed function. The assembler name is set explicitly, so that headers cannot redirect it. */
#define FUNCTION(result, name, arguments) \
    NEXT(result, name, arguments) \
    __attribute__((visibility("default"))) result ep_preload_##name arguments __asm__(#name); \
    result ep_preload_##name arguments
/* clang-format on */

#endif
