/*
 * Interposes what starts and ends threads. pthread_create() and thrd_create() announce the new thread (thread_start.c).
 * The C library starts threads of its own for timers, queues, asynchronous input and output, and name queries, and
 * clone() makes any. The scan finds these, so edgeprof's parked threads start before them.
 */
#include <dlfcn.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>

#include "linux.h"
#include "preload.h"
#include "thread_start.h"

#include <edgeprof/hooks.h>

FUNCTION(void, pthread_exit, (void *value))
{
    ep_linux_thread_exits();
    next_pthread_exit()(value);
}

FUNCTION(void, thrd_exit, (int value))
{
    ep_linux_thread_exits();
    next_thrd_exit()(value);
}

FUNCTION(int, pthread_create,
         (pthread_t * thread, const pthread_attr_t *attributes, void *(*fn)(void *), void *argument))
{
    type_pthread_create *create = next_pthread_create();

    if (ep_preload_is_out())
        return create(thread, attributes, fn, argument);
    if (!ep_linux_is_own_start(fn))
        ep_preload_fork_hasten();
    return ep_linux_thread_create(create, thread, attributes, fn, argument);
}

FUNCTION(int, thrd_create, (thrd_t * thread, thrd_start_t fn, void *argument))
{
    type_thrd_create *create = next_thrd_create();

    if (ep_preload_is_out())
        return create(thread, fn, argument);
    ep_preload_fork_hasten();
    return ep_linux_thread_create_c11(create, thread, fn, argument);
}

/* ---- threads that are found ---- */

/* The caller is about to make a thread that nobody announces. */
static void thread_comes(void)
{
    if (ep_preload_is_out() || ep_linux_here_is_own())
        return;
    ep_preload_fork_hasten();
    ep_threads_needed();
}

/* ---- notifications by a thread ---- */

#define NOTICES 64u

/* A function that runs in a thread of its own for each notification. Places are never free again: a timer may send
 * notifications for ever, and most programs have few functions. */
static struct notice {
    enum { FREE, TAKEN, READY } _Atomic state;
    void (*fn)(union sigval);
    void *value;
} notices[NOTICES];

static void run_notice(union sigval value)
{
    const struct notice *notice = value.sival_ptr;

    ep_linux_thread_adopt();
    notice->fn((union sigval){.sival_ptr = notice->value});
}

static struct notice *notice_of(const struct sigevent *event)
{
    for (struct notice *at = notices; at < notices + NOTICES; at++) {
        int state = FREE;
        if (atomic_compare_exchange_strong(&at->state, &state, TAKEN)) {
            at->fn = event->sigev_notify_function;
            at->value = event->sigev_value.sival_ptr;
            atomic_store(&at->state, READY);
            return at;
        }
        if (state == READY && at->fn == event->sigev_notify_function && at->value == event->sigev_value.sival_ptr)
            return at;
    }
    return NULL;
}

/* The event to pass: `event`, or *announced, whose thread announces itself. */
static struct sigevent *announced(struct sigevent *event, struct sigevent *announced)
{
    if (!event || event->sigev_notify != SIGEV_THREAD || ep_preload_is_out() || ep_linux_here_is_own())
        return event;
    thread_comes();
    struct notice *notice = notice_of(event);
    if (!notice)
        return event;
    *announced = *event;
    announced->sigev_notify_function = run_notice;
    announced->sigev_value.sival_ptr = notice;
    return announced;
}

/* clang-format off */
#define NOTIFYING(name, arguments, passed) \
    FUNCTION(int, name, arguments) \
    { \
        struct sigevent own, *passed_event = announced(event, &own); \
        return next_##name() passed; \
    }

NOTIFYING(timer_create, (int clock, struct sigevent *event, void *timer), (clock, passed_event, timer))
NOTIFYING(mq_notify, (int queue, struct sigevent *event), (queue, passed_event))
NOTIFYING(getaddrinfo_a, (int mode, void *list, int count, struct sigevent *event), (mode, list, count, passed_event))
NOTIFYING(lio_listio, (int mode, void *list, int count, struct sigevent *event), (mode, list, count, passed_event))
NOTIFYING(lio_listio64, (int mode, void *list, int count, struct sigevent *event), (mode, list, count, passed_event))

#define COMING(name, arguments, passed) \
    FUNCTION(int, name, arguments) \
    { \
        thread_comes(); \
        return next_##name() passed; \
    }

COMING(aio_read, (void *block), (block))
COMING(aio_read64, (void *block), (block))
COMING(aio_write, (void *block), (block))
COMING(aio_write64, (void *block), (block))
COMING(aio_fsync, (int operation, void *block), (operation, block))
COMING(aio_fsync64, (int operation, void *block), (operation, block))
/* clang-format on */

/* The arguments after `argument` are passed as they may be there: the C library reads what the flags name. */
FUNCTION(int, clone, (int (*fn)(void *), void *stack, int flags, void *argument, ...))
{
    va_list more;

    va_start(more, argument);
    void *parent = va_arg(more, void *), *tls = va_arg(more, void *), *child = va_arg(more, void *);
    va_end(more);
    if (flags & CLONE_THREAD)
        thread_comes();
    return next_clone()(fn, stack, flags, argument, parent, tls, child);
}
