/*
 * Threads that announce themselves: __wrap_pthread_create, for programs linked with
 * -Wl,--wrap=pthread_create -Wl,-u,__wrap_pthread_create (or the preload library, which interposes the function).
 *
 * The new thread runs `entry`, which notes where its stack lies, arms it, runs the program's own start routine and, by
 * a thread-specific key's destructor, settles its CPU time at the end (also after pthread_exit or cancellation).
 * What has to reach the new thread travels in a fixed pool of start records; when that is empty the thread starts
 * unannounced and is found by the scan.
 */
#include "thread_start.h"

#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "own_signal.h"

#define STARTS      64
#define LAST_TRIALS 100

struct start {
    atomic_uint used;
    void *(*fn)(void *);
    void *argument;
    uintptr_t stack_start; /* 0: unknown, stack_size counts */
    size_t stack_size;
};

static struct start starts[STARTS];
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t end_key;
static bool end_key_made;
static size_t default_stack;
static atomic_uint announced;
/* The program's threads that are known, those that announced themselves and the main thread, less one. */
static atomic_int more_than_one;
static atomic_uint others; /* counted by is_last() */

static bool is_ended_main(uint32_t tid)
{
    char text[192];
    const char *state;

    return tid == (uint32_t)getpid() && ep_linux_task_read(tid, "/stat", text, sizeof text) > 0 &&
           (state = strrchr(text, ')')) != NULL && strncmp(state, ") Z", 3) == 0;
}

static void count_other(uint32_t tid)
{
    if (tid != (uint32_t)syscall(SYS_gettid) && !ep_linux_thread_is_own(tid) && !is_ended_main(tid))
        (void)atomic_fetch_add(&others, 1);
}

/* A main thread that has just called pthread_exit() takes a moment. */
static bool is_last(void)
{
    const struct timespec moment = {.tv_nsec = 1000000};

    for (unsigned i = 0; i < LAST_TRIALS; i++) {
        atomic_store(&others, 0);
        if (ep_linux_tasks(count_other) != 0)
            return false;
        if (atomic_load(&others) == 0)
            return true;
        (void)nanosleep(&moment, NULL);
    }
    return false;
}

/* The C library ends the process with its last thread, and counts edgeprof's threads as well: we do what it would do.
 */
static void end_with_last_thread(void)
{
    if (atomic_fetch_sub(&more_than_one, 1) != 0 || !ep_enter())
        return;
    ep_leave();
    if (is_last())
        exit(0);
}

/* Called in several rounds, so that the program's own destructors have run; not in the last one, in which sanitizers
 * and allocators take their own state of the thread away. */
static void thread_ends(void *value)
{
    const struct start *round = value;

    if (round < &starts[PTHREAD_DESTRUCTOR_ITERATIONS - 2] && pthread_setspecific(end_key, round + 1) == 0)
        return;
    ep_linux_thread_ends();
    end_with_last_thread();
}

static void prepare(void)
{
    pthread_attr_t attributes;

    ep_linux_stack_prepare();
    end_key_made = pthread_key_create(&end_key, thread_ends) == 0;
    if (pthread_attr_init(&attributes) == 0) {
        (void)pthread_attr_getstacksize(&attributes, &default_stack);
        (void)pthread_attr_destroy(&attributes);
    }
}

void ep_linux_thread_exits(void)
{
    if ((pid_t)syscall(SYS_gettid) != getpid())
        return;
    (void)pthread_once(&once, prepare);
    if (end_key_made)
        (void)pthread_setspecific(end_key, starts);
}

int ep_port_threads_announced(void)
{
    return atomic_load_explicit(&announced, memory_order_relaxed) != 0;
}

static struct start *start_take(void)
{
    for (unsigned i = 0; i < STARTS; i++) {
        unsigned unused = 0;
        if (atomic_compare_exchange_strong(&starts[i].used, &unused, 1))
            return &starts[i];
    }
    return NULL;
}

static void stack_of(const pthread_attr_t *attributes, struct start *start)
{
    void *address = NULL;
    size_t size = 0;

    start->stack_start = 0;
    start->stack_size = default_stack;
    if (attributes && pthread_attr_getstack(attributes, &address, &size) == 0) {
        if (size)
            start->stack_size = size;
        /* Without an address glibc gives 0 - size. */
        if (address && (uintptr_t)address + size > size)
            start->stack_start = (uintptr_t)address;
    }
}

static void *entry(void *argument)
{
    struct start *start = argument;
    void *(*fn)(void *) = start->fn;
    void *fn_argument = start->argument;
    struct ep_linux_bounds bounds =
        ep_linux_stack_bounds(start->stack_start, start->stack_size, (uintptr_t)__builtin_frame_address(0));

    ep_linux_signals_born();
    atomic_store(&start->used, 0);
    if (end_key_made)
        (void)pthread_setspecific(end_key, starts);
    ep_linux_thread_begins(bounds);
    return fn(fn_argument);
}

int ep_linux_thread_create(ep_linux_create *create, pthread_t *thread, const pthread_attr_t *attributes,
                           void *(*fn)(void *), void *argument)
{
    (void)pthread_once(&once, prepare);
    struct start *start = ep_linux_is_own_start(fn) ? NULL : start_take();
    if (!start)
        return create(thread, attributes, fn, argument);

    atomic_store_explicit(&announced, 1, memory_order_relaxed);
    (void)atomic_fetch_add(&more_than_one, 1);
    ep_threads_needed();
    start->fn = fn;
    start->argument = argument;
    stack_of(attributes, start);
    /* The new thread is born with what this one believes to be blocked, for its first instructions. */
    uint64_t believed = ep_linux_believed(), blocked = believed ? ep_linux_mask_raw(SIG_BLOCK, believed) : 0;
    int error = create(thread, attributes, entry, start);
    if (believed)
        (void)ep_linux_mask_raw(SIG_UNBLOCK, believed & ~blocked);
    if (error) {
        (void)atomic_fetch_sub(&more_than_one, 1);
        atomic_store(&start->used, 0);
    }
    return error;
}
