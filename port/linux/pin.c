/*
 * Modules that can no longer be unloaded, so that handlers may read their tables.
 *
 * dlopen() with RTLD_NODELETE pins a module, and waits for the loader's lock, which a program holds while it runs the
 * constructors of what it loads: for seconds, or until exit(). At start the thread that calls ep_start() pins. Later a
 * thread that exists only for that does it, for whom the collect thread waits AWAIT_NS at most: so collect never takes
 * that lock. A module is reported once it is pinned.
 */
#include "linux.h"
#include "namespaces.h"
#include "own_signal.h"
#include "own_threads.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>

#define PINNED_MOST 256u
#define AWAIT_NS    20000000u
#define SETTLE_NS   500000000u
#define STACK_BYTES (128u * 1024)

static struct {
    uintptr_t bias[PINNED_MOST]; /* of pinned modules: their addresses stay theirs */
    atomic_uint count;
    atomic_bool busy;
    struct ep_event done;
} pins;

bool ep_linux_is_pinned(uintptr_t bias)
{
    const unsigned count = atomic_load_explicit(&pins.count, memory_order_acquire);

    for (unsigned i = 0; i < count; i++)
        if (pins.bias[i] == bias)
            return true;
    return false;
}

/* A handle is the link map, in glibc and musl. One thread at a time. */
static void pin(const char *path, uintptr_t bias)
{
    const unsigned count = atomic_load_explicit(&pins.count, memory_order_relaxed);

    if (!path[0] || count == PINNED_MOST || ep_linux_is_pinned(bias))
        return;
    const struct link_map *map = dlopen(path, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
    if (!map || map->l_addr != bias)
        return;
    pins.bias[count] = bias;
    atomic_store_explicit(&pins.count, count + 1, memory_order_release);
}

static void *pin_all(void *unused)
{
    ep_linux_thread_own(EP_LINUX_ROLE_PIN);
    ep_linux_modules_each(pin);
    ep_linux_namespaces_pin();
    ep_linux_thread_ends_own(EP_LINUX_ROLE_PIN);
    atomic_store(&pins.busy, false);
    ep_port_wake(&pins.done);
    return unused;
}

static int pin_thread(void)
{
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all;
    int error = pthread_attr_init(&attributes);

    if (error)
        return -error;
    (void)pthread_attr_setstacksize(&attributes, STACK_BYTES);
    (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    (void)sigfillset(&all);
    const uint64_t before = ep_linux_mask_raw(SIG_SETMASK, ep_linux_set_bits(&all));
    error = pthread_create(&thread, &attributes, pin_all, NULL);
    (void)ep_linux_mask_raw(SIG_SETMASK, before);
    (void)pthread_attr_destroy(&attributes);
    return -error;
}

void ep_linux_pin(void)
{
    if (!ep_linux_here_is(EP_ROLE_COLLECT)) {
        ep_linux_modules_each(pin);
        ep_linux_namespaces_pin();
        return;
    }
    const unsigned seen = atomic_load(&pins.done.value);
    if (atomic_exchange(&pins.busy, true))
        return;
    if (pin_thread() != 0)
        atomic_store(&pins.busy, false);
    else
        ep_port_wait(&pins.done, seen, AWAIT_NS);
}

void ep_linux_pins_settle(void)
{
    const unsigned seen = atomic_load(&pins.done.value);

    if (atomic_load(&pins.busy))
        ep_port_wait(&pins.done, seen, SETTLE_NS);
}

void ep_linux_pins_forked(void)
{
    atomic_store(&pins.busy, false);
}
