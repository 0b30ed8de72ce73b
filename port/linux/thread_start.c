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

#include <pthread.h>
#include <unistd.h>

#define STARTS 64
#define PAGE   4096u
/* What the C library takes out of a stack's size: guard, thread block, static TLS. Generous: a stack pointer in this
 * stretch is taken as foreign, which costs a sample's callers, while the opposite could fault. */
#define STACK_MARGIN (4 * PAGE)
/* The thread block lies above the first frame in the same mapping, on glibc and musl; this far at most. */
#define THREAD_BLOCK_FAR (64 * 1024u)

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

static void thread_ends(void *value)
{
    (void)value;
    ep_linux_thread_ends();
}

static void prepare(void)
{
    pthread_attr_t attributes;

    end_key_made = pthread_key_create(&end_key, thread_ends) == 0;
    if (pthread_attr_init(&attributes) == 0) {
        (void)pthread_attr_getstacksize(&attributes, &default_stack);
        (void)pthread_attr_destroy(&attributes);
    }
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

static struct ep_linux_bounds bounds_here(const struct start *start)
{
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    uintptr_t block = (uintptr_t)__builtin_thread_pointer();
    uintptr_t end = block - here < THREAD_BLOCK_FAR ? block : (here | (PAGE - 1)) + 1;
    uintptr_t low = start->stack_start;

    if (!low)
        low = here - (start->stack_size < here ? start->stack_size : here) + STACK_MARGIN;
    return (struct ep_linux_bounds){.start = low, .end = end, .root = here};
}

static void *entry(void *argument)
{
    struct start *start = argument;
    void *(*fn)(void *) = start->fn;
    void *fn_argument = start->argument;
    struct ep_linux_bounds bounds = bounds_here(start);

    atomic_store(&start->used, 0);
    if (end_key_made)
        (void)pthread_setspecific(end_key, &starts);
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
    start->fn = fn;
    start->argument = argument;
    stack_of(attributes, start);
    int error = create(thread, attributes, entry, start);
    if (error)
        atomic_store(&start->used, 0);
    return error;
}
