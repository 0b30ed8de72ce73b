/*
 * The roles' threads as co-routines over ucontext, and their events.
 *
 *   run_ready        resumes each role that can run, until none can
 *   ep_sim_run       calls run_ready, advances the clock to the next deadline, and repeats
 *   ep_port_wait     in a role: switches back to the caller; elsewhere: advances the clock and runs the roles
 */
#include "sim.h"

#include <errno.h>
#include <ucontext.h>

#define STACK_BYTES (256 * 1024)
#define CHILDREN    4u

struct role {
    void (*fn)(void);
    bool alive, parked;
    struct ep_event *event; /* the event that it waits for, NULL: none */
    unsigned seen;
    uint64_t until_ns;
    ucontext_t context;
    _Alignas(16) uint8_t stack[STACK_BYTES];
};

static struct role roles[EP_ROLES];
static struct role *current_role;
static ucontext_t outside;
static void (*children[CHILDREN])(void);

void ep_sim_reset(void)
{
    ep_sim_defaults();
    ep_sim_sockets_reset();
    for (unsigned i = 0; i < EP_ROLES; i++)
        roles[i].alive = false;
    current_role = NULL;
}

static void role_main(void)
{
    current_role->fn();
    current_role->alive = false;
    (void)swapcontext(&current_role->context, &outside);
}

static const char *const start_name[EP_ROLES] = {"thread_start collect", "thread_start deliver", "thread_start control",
                                                 "thread_start pull", "thread_start start"};
static const char *const join_name[EP_ROLES] = {"thread_join collect", "thread_join deliver", "thread_join control",
                                                "thread_join pull", "thread_join start"};

int ep_port_thread_start(enum ep_role role, void (*fn)(void))
{
    struct role *r = &roles[role];
    int error = ep_sim_fails(start_name[role]);

    if (error)
        return error;
    r->fn = fn;
    r->event = NULL;
    r->alive = true;
    r->parked = false;
    (void)getcontext(&r->context);
    r->context.uc_stack.ss_sp = r->stack;
    r->context.uc_stack.ss_size = sizeof r->stack;
    r->context.uc_link = &outside;
    makecontext(&r->context, role_main, 0);
    ep_sim.starts[role]++;
    return 0;
}

static bool ready(const struct role *r)
{
    return r->alive && !r->parked &&
           (!r->event || atomic_load(&r->event->value) != r->seen || ep_sim.uptime_ns >= r->until_ns);
}

static bool run_ready(void)
{
    bool any = false;

    for (unsigned i = 0; i < EP_ROLES; i++) {
        if (!ready(&roles[i]))
            continue;
        current_role = &roles[i];
        current_role->event = NULL;
        (void)swapcontext(&outside, &current_role->context);
        current_role = NULL;
        any = true;
    }
    return any;
}

/* Advances the clock to the next time at which a role is ready, at most to `limit`. */
static void advance(uint64_t limit)
{
    for (unsigned i = 0; i < EP_ROLES; i++)
        if (roles[i].alive && !roles[i].parked && roles[i].event && roles[i].until_ns < limit)
            limit = roles[i].until_ns;
    if (limit > ep_sim.uptime_ns)
        ep_sim.uptime_ns = limit;
}

void ep_sim_run(uint64_t ns)
{
    uint64_t end = ep_sim.uptime_ns + ns;

    while (run_ready()) {
    }
    while (ep_sim.uptime_ns < end) {
        advance(end);
        while (run_ready()) {
        }
    }
}

bool ep_sim_alive(enum ep_role role)
{
    return roles[role].alive;
}

int ep_port_thread_park(enum ep_role role, void (*fn)(void))
{
    int error = ep_port_thread_start(role, fn);

    roles[role].parked = !error;
    return error;
}

int ep_port_thread_resume(enum ep_role role)
{
    int error = ep_sim_fails("thread_resume");

    if (!error)
        roles[role].parked = false;
    return error;
}

int ep_port_thread_join(enum ep_role role, uint64_t until_ns)
{
    roles[role].alive &= !roles[role].parked;
    while (roles[role].alive) {
        if (run_ready())
            continue;
        if (ep_port_uptime_ns() >= until_ns)
            return -ETIMEDOUT;
        advance(until_ns);
    }
    ep_sim.joins[role]++;
    return ep_sim_fails(join_name[role]);
}

void ep_port_wait(struct ep_event *event, unsigned seen, uint64_t timeout_ns)
{
    struct role *r = current_role;
    uint64_t until = timeout_ns < UINT64_MAX - ep_sim.uptime_ns ? ep_sim.uptime_ns + timeout_ns : UINT64_MAX;

    if (atomic_load(&event->value) != seen)
        return;
    if (!r) {
        if (ep_sim.on_wait)
            ep_sim.on_wait();
        ep_sim_run(timeout_ns);
        return;
    }
    r->event = event;
    r->seen = seen;
    r->until_ns = until;
    (void)swapcontext(&r->context, &outside);
}

void ep_port_wake(struct ep_event *event)
{
    (void)atomic_fetch_add(&event->value, 1);
    ep_sim.wakes++;
}

/* As in a real process, nothing unregisters a function, so it survives ep_sim_reset(). */
int ep_port_forks(void (*child)(void))
{
    int error = ep_sim_fails("forks");
    unsigned i = 0;

    while (i < CHILDREN && children[i] && children[i] != child)
        i++;
    if (error || i == CHILDREN)
        return error ? error : -ENOMEM;
    children[i] = child;
    return 0;
}

void ep_sim_fork(void)
{
    for (unsigned i = 0; i < EP_ROLES; i++)
        roles[i].alive = false;
    ep_sim.sampling = false;
    ep_sim.identity.pid++;
    for (unsigned i = 0; i < CHILDREN && children[i]; i++)
        children[i]();
    ep_forked();
}
