/*
 * The simulated port: every function of port/port.h, scripted by a test.
 *
 * What the port reports is what stands in `ep_sim`; what the core did to the port can be read there. The clock moves
 * only when somebody waits or the test says so. Threads of the roles are co-routines: they run while the test is in
 * ep_sim_run() or the core joins them, one at a time, and time passes when all of them wait. So each run is the same as
 * the last, and a deadline of a minute takes no time.
 *
 * The n-th fallible call: with fail_at = n the n-th call that may fail returns fail_error instead (and has no effect,
 * but for a join, which happens all the same). A test repeats its case with n = 1, 2, ... until nothing failed any
 * more.
 *
 * Stacks are synthetic: a chain of frame records in a buffer of ours, whose return addresses lie in a buffer of ours
 * that stands for code (of no architecture: nothing in it is ever decoded as a prologue or an epilogue, there are no
 * tables, so the core walks it by frame pointers and calls it a guess).
 *
 * No malloc. Not thread-safe but for ep_sim_tick() and ep_sim_rest(), which are what handlers are.
 */
#ifndef EP_SIM_H
#define EP_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "port/port.h"

#define EP_SIM_FUNCTIONS 4096u
#define EP_SIM_FUNCTION  16u /* bytes of each */
#define EP_SIM_DEPTH     600u
#define EP_SIM_RESTS     64u

/* A thread as ep_port_threads_each() and ep_port_thread_blocked() show it. */
struct ep_sim_thread {
    uint32_t tid;
    int error; /* 0: asleep, at what `at` says; -EAGAIN: it runs */
    struct ep_context at;
    uint64_t ran_ns;
    bool restless; /* has run whenever looked at */
};

struct ep_sim {
    /* ---- what the port reports ---- */
    uint64_t uptime_ns;
    uint64_t uptime_step_ns;       /* by which it goes on at each look */
    uint64_t unix_minus_uptime_ns; /* 0: no wall clock */
    uint64_t thread_cpu_ns;
    uint64_t thread_cpu_step_ns; /* by which it goes on at each look */
    uint64_t process_cpu_ns;
    uint64_t tick_cost_ns;
    uint64_t random_state;
    int random_byte; /* >= 0: every random byte is this one */
    struct ep_identity identity;
    const char *const *environment; /* "NAME=value", the last is NULL; or NULL */
    uintptr_t hijack_stub;
    const struct ep_module_info *modules; /* default: the synthetic code, without tables */
    unsigned module_count;
    uint64_t modules_generation;
    uintptr_t (*symbol)(uintptr_t pc, char *name, size_t size); /* NULL: there are no dynamic symbols */
    int threads;                                                /* armed by start and scans */
    int announced;
    size_t port_bytes;

    /* What threads still have to tell when sampling stops. */
    int64_t rest_ns[EP_SIM_RESTS];
    unsigned rests;

    /* Called, when set: when somebody outside of all roles waits (stop, for handlers); when sampling starts. */
    void (*on_wait)(void);
    void (*on_sampling_start)(void);

    struct ep_work work; /* of the thread that ticks and events happen on */
    uint32_t tid;
    uint32_t gone_tid;     /* its memory cannot be read, 0: none */
    struct ep_work *works; /* of another thread, NULL: `work` */

    struct ep_sim_thread *thread;
    const char *thread_name;       /* of every one; NULL: by its number */
    void (*on_look)(uint32_t tid); /* called, when set, before ep_port_thread_blocked() answers */
    unsigned thread_count;

    unsigned fail_at; /* 0: none */
    int fail_error;

    /* ---- what the core did ---- */
    unsigned calls;     /* fallible ones */
    const char *failed; /* name of the call that was made to fail */
    bool sampling;
    uint32_t period_ns;
    void *port_memory;
    unsigned wakes, scans, module_scans;
    unsigned starts[EP_ROLES], joins[EP_ROLES]; /* that happened */
};

extern struct ep_sim ep_sim;

/* Everything as at the beginning; co-routines are forgotten. */
void ep_sim_reset(void);

/* The first half of that: what stands in ep_sim. */
void ep_sim_defaults(void);

/* One call that may fail: the error that it has to return, or 0. For a test's own transports as well. */
int ep_sim_fails(const char *name);

/* Lets time pass by ns while the roles run. */
void ep_sim_run(uint64_t ns);

/* Whether the role's function has been started and has not returned. */
bool ep_sim_alive(enum ep_role role);

/* A disk for ep_port_store_*() (disk.c). The power goes in the middle of the cut_at-th call that changes something, 0:
 * never; what was not synced is then there in part, as the dice say. */
struct ep_sim_disk {
    uint64_t dice;
    unsigned cut_at;
    int error, open_error, read_error; /* of every call that changes something, opens, reads; 0: none */

    /* ---- what the core did ---- */
    unsigned calls, syncs;
    uint64_t written;
    bool off;     /* the power is gone, everything fails */
    bool open;    /* by a process that lives */
    bool misused; /* a write that port.h does not allow */
};
extern struct ep_sim_disk ep_sim_disk;

/* An empty one; power again, with what is left; the process that had it is gone. */
void ep_sim_disk_reset(void);
void ep_sim_disk_restart(void);
void ep_sim_disk_kill(void);
/* A file's bytes, to be looked at or spoiled; and a file that lies there. */
uint8_t *ep_sim_disk_bytes(unsigned file, uint64_t *size);
void ep_sim_disk_put(unsigned file, const void *bytes, size_t size);

/* The process forks and the test goes on as the child: no threads of ours, no timers. */
void ep_sim_fork(void);

/* Address inside function number f, where it is interrupted or returns to. */
uintptr_t ep_sim_pc(unsigned function);

/* Gives a stretch of the synthetic code the tables that this machine's unwinder needs. */
void ep_sim_tables(struct ep_module_info *info);

/* Builds the stack leaf, caller, ..., root out of function numbers and the registers of its interruption. */
void ep_sim_stack(const uint16_t *functions, unsigned depth, struct ep_context *context);

/* A handler on a thread whose stack is that: enter, capture, leave. False when no profiler runs. */
bool ep_sim_tick(uint32_t tid, uint32_t ticks, const uint16_t *functions, unsigned depth);

/* The stack that ep_port_here() reports until the next call; its leaf is called by the hook. */
void ep_sim_here(const uint16_t *functions, unsigned depth);

/* A thread that ends: enter, rest, leave. False when no profiler runs. */
bool ep_sim_rest(uint32_t tid, int64_t rest_ns);

#endif
