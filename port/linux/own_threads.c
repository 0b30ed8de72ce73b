/*
 * edgeprof's own threads, and events to wait on (futexes).
 *
 * All signals are blocked before a thread is made, so that it is born with them blocked: no signal of the service
 * ever ends up here, and no profiling signal either.
 */
#include "linux.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NS 1000000000u

/* Room for TLS handshakes and name lookups on the deliver thread; address space, touched only when used. */
#define STACK_BYTES  (256 * 1024)
#define DELIVER_NICE 10

static struct {
    pthread_t thread;
    void (*fn)(void);
    struct ep_event ready; /* counts starts: the thread is known as ours */
} own[EP_ROLES];

static void *own_main(void *argument)
{
    static const char name[EP_ROLES][16] = {"edgeprof-coll", "edgeprof-dlvr", "edgeprof-ctrl", "edgeprof-pull"};
    unsigned role = (unsigned)(uintptr_t)argument;

    ep_linux_thread_own((enum ep_role)role);
    ep_port_wake(&own[role].ready);
    (void)prctl(PR_SET_NAME, name[role]);
    if (role == EP_ROLE_DELIVER) /* Linux: nice is a thread's own */
        (void)setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), DELIVER_NICE);
    own[role].fn();
    return NULL;
}

bool ep_linux_is_own_start(void *(*start)(void *))
{
    return start == own_main;
}

int ep_port_thread_start(enum ep_role role, void (*fn)(void))
{
    sigset_t all, before;
    pthread_attr_t attributes;

    own[role].fn = fn;
    unsigned seen = atomic_load(&own[role].ready.value);
    (void)sigfillset(&all);
    int error = pthread_attr_init(&attributes);
    if (error)
        return -error;
    (void)pthread_attr_setstacksize(&attributes, STACK_BYTES);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(&own[role].thread, &attributes, own_main, (void *)(uintptr_t)role);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)pthread_attr_destroy(&attributes);
    while (!error && atomic_load(&own[role].ready.value) == seen)
        ep_port_wait(&own[role].ready, seen, NS);
    return -error;
}

int ep_port_thread_join(enum ep_role role)
{
    return -pthread_join(own[role].thread, NULL);
}

void ep_port_wait(struct ep_event *event, unsigned seen, uint64_t timeout_ns)
{
    /* The kernel's struct, whatever size time_t has in this C library. */
    const long timeout[2] = {(long)(timeout_ns / NS), (long)(timeout_ns % NS)};

    (void)syscall(SYS_futex, &event->value, FUTEX_WAIT_PRIVATE, seen, timeout, NULL, 0);
}

void ep_port_wake(struct ep_event *event)
{
    int kept = errno;

    (void)atomic_fetch_add(&event->value, 1);
    (void)syscall(SYS_futex, &event->value, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
    errno = kept;
}
