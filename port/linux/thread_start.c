/*
 * Threads that announce themselves: pthread_create(), redirected by the linker (-Wl,--wrap=pthread_create
 * -Wl,-u,__wrap_pthread_create) or interposed by the preload library.
 *
 * The new thread runs `thread_entry`. It notes its stack bounds, arms the thread and calls the program's start routine.
 * A thread-specific key's destructor settles its CPU time at the end, also after pthread_exit() or cancellation. A
 * fixed pool of start records passes the arguments; if it is empty, the thread starts unannounced and the scan finds
 * it.
 */
#include "thread_start.h"

#include <limits.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "filter.h"
#include "own_signal.h"

#define STARTS 64

struct start {
    atomic_uint used;
    void *(*fn)(void *);
    void *argument;
    uintptr_t stack_start; /* 0: unknown, use stack_size */
    size_t stack_size;
};

static struct start starts[STARTS];
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t end_key;
static bool end_key_made;
static size_t default_stack;
static atomic_uint announced;
/* Number of the program's known threads (announced ones and the main thread), minus one. */
static atomic_int more_than_one;

/* Runs after the program's own destructors, which may take several rounds; but not in the last round, in which
 * sanitizers and allocators free their per-thread state. */
static void thread_ends(void *value)
{
    const struct start *round = value;

    if (round < &starts[PTHREAD_DESTRUCTOR_ITERATIONS - 2] && pthread_setspecific(end_key, round + 1) == 0)
        return;
    if (ep_linux_filter_met() || ep_linux_filter_is_here())
        return;
    ep_linux_thread_ends();
    if (atomic_fetch_sub(&more_than_one, 1) == 0)
        ep_linux_thread_ended();
}

static void prepare_once(void)
{
    pthread_attr_t attributes;

    ep_linux_stack_prepare();
    end_key_made = pthread_key_create(&end_key, thread_ends) == 0;
    if (pthread_attr_init(&attributes) == 0) {
        (void)pthread_attr_getstacksize(&attributes, &default_stack);
        (void)pthread_attr_destroy(&attributes);
    }
}

void ep_linux_threads_forked(void)
{
    atomic_store(&more_than_one, 0);
    for (unsigned i = 0; i < STARTS; i++)
        atomic_store(&starts[i].used, 0);
}

void ep_linux_thread_exits(void)
{
    if (ep_linux_filter_met() || ep_linux_filter_is_here() || (pid_t)syscall(SYS_gettid) != getpid())
        return;
    (void)pthread_once(&once, prepare_once);
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
        /* Without an address glibc returns 0 - size. */
        if (address && (uintptr_t)address + size > size)
            start->stack_start = (uintptr_t)address;
    }
}

static void *thread_entry(void *argument)
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
    (void)pthread_once(&once, prepare_once);
    const bool apart = ep_linux_is_own_start(fn) || ep_linux_here_is_own() || ep_linux_filter_met();
    struct start *start = apart ? NULL : start_take();
    if (!start)
        return create(thread, attributes, fn, argument);

    atomic_store_explicit(&announced, 1, memory_order_relaxed);
    (void)atomic_fetch_add(&more_than_one, 1);
    ep_threads_needed();
    start->fn = fn;
    start->argument = argument;
    stack_of(attributes, start);
    /* The new thread inherits this mask for its first instructions: it must include what this thread believes to be
     * blocked. */
    uint64_t believed = ep_linux_believed(), blocked = believed ? ep_linux_mask_raw(SIG_BLOCK, believed) : 0;
    int error = create(thread, attributes, thread_entry, start);
    if (believed)
        (void)ep_linux_mask_raw(SIG_UNBLOCK, believed & ~blocked);
    if (error) {
        (void)atomic_fetch_sub(&more_than_one, 1);
        atomic_store(&start->used, 0);
    }
    return error;
}
