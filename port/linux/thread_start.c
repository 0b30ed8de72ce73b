/*
 * Threads that announce themselves: pthread_create() and thrd_create(), redirected by the linker (link.opt) or
 * interposed by the preload library.
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
    union {
        void *(*fn)(void *);
        int (*fn_c11)(void *);
    };
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

/* base: the start routine's frame. */
static void thread_begins(struct start *start, const void *base)
{
    const int state = ep_linux_cancel_off();
    struct ep_linux_bounds bounds = ep_linux_stack_bounds(start->stack_start, start->stack_size, (uintptr_t)base);

    ep_linux_signals_born();
    atomic_store(&start->used, 0);
    if (end_key_made)
        (void)pthread_setspecific(end_key, starts);
    ep_linux_thread_begins(bounds);
    ep_linux_cancel_back(state);
}

static void *thread_entry(void *argument)
{
    struct start *start = argument;
    void *(*fn)(void *) = start->fn;
    void *fn_argument = start->argument;

    thread_begins(start, __builtin_frame_address(0));
    return fn(fn_argument);
}

static int thread_entry_c11(void *argument)
{
    struct start *start = argument;
    int (*fn)(void *) = start->fn_c11;
    void *fn_argument = start->argument;

    thread_begins(start, __builtin_frame_address(0));
    return fn(fn_argument);
}

void ep_linux_thread_adopt(void)
{
    const int signal = ep_linux_signal();

    (void)pthread_once(&once, prepare_once);
    if (signal)
        (void)ep_linux_mask_raw(SIG_UNBLOCK, UINT64_C(1) << (signal - 1));
    if (end_key_made && pthread_setspecific(end_key, starts) == 0)
        (void)atomic_fetch_add(&more_than_one, 1);
    ep_linux_thread_begins(ep_linux_stack_bounds(0, default_stack, (uintptr_t)__builtin_frame_address(0)));
}

/* NULL: the thread starts unannounced. */
static struct start *announce(const pthread_attr_t *attributes, bool is_own)
{
    (void)pthread_once(&once, prepare_once);
    const bool apart = is_own || ep_linux_here_is_own() || ep_linux_filter_met();
    struct start *start = apart ? NULL : start_take();

    if (!apart) {
        const int state = ep_linux_cancel_off();
        ep_threads_needed();
        ep_linux_cancel_back(state);
    }
    if (!start)
        return NULL;
    atomic_store_explicit(&announced, 1, memory_order_relaxed);
    (void)atomic_fetch_add(&more_than_one, 1);
    stack_of(attributes, start);
    return start;
}

/* The new thread inherits this mask for its first instructions: it must include what this thread believes to be
 * blocked. Returns the signals to unblock afterwards. */
static uint64_t mask_lend(void)
{
    uint64_t believed = ep_linux_believed();

    return believed ? believed & ~ep_linux_mask_raw(SIG_BLOCK, believed) : 0;
}

static void created(struct start *start, uint64_t lent, bool failed)
{
    if (lent)
        (void)ep_linux_mask_raw(SIG_UNBLOCK, lent);
    if (!failed)
        return;
    (void)atomic_fetch_sub(&more_than_one, 1);
    atomic_store(&start->used, 0);
}

int ep_linux_thread_create(ep_linux_create *create, pthread_t *thread, const pthread_attr_t *attributes,
                           void *(*fn)(void *), void *argument)
{
    struct start *start = announce(attributes, ep_linux_is_own_start(fn));

    if (!start)
        return create(thread, attributes, fn, argument);
    start->fn = fn;
    start->argument = argument;
    uint64_t lent = mask_lend();
    int error = create(thread, attributes, thread_entry, start);
    created(start, lent, error != 0);
    return error;
}

int ep_linux_thread_create_c11(ep_linux_create_c11 *create, thrd_t *thread, thrd_start_t fn, void *argument)
{
    struct start *start = announce(NULL, false);

    if (!start)
        return create(thread, fn, argument);
    start->fn_c11 = fn;
    start->argument = argument;
    uint64_t lent = mask_lend();
    int result = create(thread, thread_entry_c11, start);
    created(start, lent, result != thrd_success);
    return result;
}
