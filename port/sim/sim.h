/*
 * The simulated port: every function of core/edgeprof/port.h, scripted by a test through `ep_sim`. The test sets there
 * what the port reports, and reads what the core did. The clock moves only when the test advances it or somebody waits.
 * Roles are co-routines, run one at a time by ep_sim_run() or a join. So each run is the same, and a deadline of a
 * minute takes no time.
 *
 * With fail_at = n the n-th call that may fail returns fail_error and has no effect (except a join). A test repeats its
 * case with n = 1, 2, ... until no call fails.
 *
 * Stacks are chains of frame records in a buffer. Return addresses point into another buffer, which stands for code
 * without tables or prologues, so the core walks it by frame pointers. No malloc. Only ep_sim_tick() and ep_sim_rest()
 * are thread-safe.
 */
#ifndef EP_SIM_H
#define EP_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <edgeprof/port_calls.h>

#define EP_SIM_FUNCTIONS 4096u
#define EP_SIM_FUNCTION  16u /* bytes of each function */
#define EP_SIM_THREADS   64u
#define EP_SIM_DEPTH     600u
#define EP_SIM_RESTS     64u

/* A thread as seen by ep_port_threads_each() and ep_port_thread_blocked(). */
struct ep_sim_thread {
    uint32_t tid;
    int error; /* 0: blocked, with the registers in `at`; -EAGAIN: it runs */
    struct ep_registers at;
    uint64_t ran_ns;
    bool restless; /* has run since the last call, every time */
    unsigned wait; /* enum ep_wait */
};

struct ep_sim {
    /* ---- what the port reports ---- */
    uint64_t uptime_ns;
    unsigned descriptors_seen;     /* calls of ep_port_descriptor_wait(), whose answer is the descriptor */
    uint64_t uptime_step_ns;       /* advance at each reading */
    bool stayed;                   /* no thread leaves its processor */
    bool no_bounds;                /* nobody knows where a thread's stack ends */
    uint64_t unix_minus_uptime_ns; /* 0: no wall clock */
    uint64_t thread_cpu_ns;
    uint64_t thread_cpu_step_ns; /* advance at each reading */
    uint32_t thread_faults, thread_faults_step;
    uint64_t process_cpu_ns;
    uint64_t resident;
    uint64_t tick_cost_ns;
    uint64_t random_state;
    int random_byte; /* >= 0: every random byte is this one */
    struct ep_identity identity;
    const char *forbidden;          /* the result of ep_port_forbidden() */
    const char *file;               /* content of every file; NULL: none exists */
    const char *const *environment; /* "NAME=value", the last is NULL; or NULL */
    uintptr_t hijack_stub;
    const struct ep_module_info *modules; /* default: the synthetic code, without tables */
    unsigned module_count;
    uint64_t modules_generation;
    uintptr_t (*symbol)(uintptr_t pc, char *name, size_t size); /* NULL: there are no dynamic symbols */
    bool (*function)(uintptr_t from, uintptr_t end, struct ep_port_function *function); /* NULL: all code is in files */
    int threads; /* number of armed threads, for start and scans */
    int announced;
    uint32_t clock_error; /* see ep_port_clock() */
    size_t port_bytes;

    /* Residual CPU time to report when sampling stops. */
    int64_t rest_ns[EP_SIM_RESTS];
    unsigned rests;

    /* Optional callbacks: when code outside the roles waits (stop, for handlers); when sampling starts. */
    void (*on_wait)(void);
    void (*on_sampling_start)(void);

    struct ep_work work; /* of the thread that ticks and events occur on */
    uint32_t tid;
    uint32_t gone_tid;     /* id of a thread whose memory cannot be read, 0: none */
    struct ep_work *works; /* struct ep_work of another thread, NULL: `work` */

    struct ep_sim_thread *thread;
    const char *thread_name;       /* name of all threads; NULL: made from their ids */
    void (*on_look)(uint32_t tid); /* optional; called before ep_port_thread_blocked() answers */
    unsigned thread_count;

    size_t socket_room; /* bytes that a socket takes before its client has read them; default: 64 KiB */

    unsigned fail_at; /* 0: none */
    int fail_error;

    /* ---- what the core did ---- */
    unsigned calls;     /* number of calls that may fail */
    const char *failed; /* name of the call that failed */
    bool sampling;
    uint32_t period_ns;
    void *port_memory;
    uint64_t carried_ns[EP_SIM_THREADS]; /* by tid modulo: for the next sample, the ring had no room */
    unsigned wakes, scans, module_scans;
    unsigned starts[EP_ROLES], joins[EP_ROLES]; /* number of calls */
    struct ep_address listen[EP_ROLES];         /* of the last ep_port_listen(); the path is the caller's */
    unsigned listen_clients[EP_ROLES];
};

extern struct ep_sim ep_sim;

/* Resets everything; ends the co-routines. */
void ep_sim_reset(void);

/* Resets only ep_sim. */
void ep_sim_defaults(void);

/* Counts a call that may fail. Returns its error or 0. Also for a test's own transports. */
int ep_sim_fails(const char *name);

/* Advances the time by ns while the roles run. */
void ep_sim_run(uint64_t ns);

/* True if the role's function has been started and has not returned. */
bool ep_sim_alive(enum ep_role role);

/* A disk for ep_port_spool_*() (disk.c). The power fails during the cut_at-th call that changes something, 0: never.
 * Any subset of the unsynced sectors is then written, by the dice. */
struct ep_sim_disk {
    uint64_t dice;
    unsigned cut_at;
    int error, open_error; /* errors of all calls that change something, and of open; 0: none */
    int fault;             /* error of every call from the fault_at-th to the one before fault_end; 0: none */
    unsigned fault_at, fault_end;

    /* ---- what the core did ---- */
    unsigned calls, syncs; /* calls that change something */
    unsigned all_calls;    /* of any kind, except close */
    uint64_t written;
    bool off;     /* the power has failed: every call fails */
    bool open;    /* open by a running process */
    bool misused; /* a write that violates port.h */
};
extern struct ep_sim_disk ep_sim_disk;

/* Start with an empty disk; restore the power, with what is left; end the process that has it open. */
void ep_sim_disk_reset(void);
void ep_sim_disk_restart(void);
void ep_sim_disk_kill(void);
/* A file's bytes, to be inspected or damaged; and a way to create a file. */
uint8_t *ep_sim_disk_bytes(unsigned file, uint64_t *size);
void ep_sim_disk_put(unsigned file, const void *bytes, size_t size);

/* ---- clients of the endpoints (sockets.c). Their answers come while the roles run ---- */

enum ep_sim_socket { EP_SIM_OPEN, EP_SIM_FINISHED, EP_SIM_CLOSED };

/* Connects a client to the endpoint of a role. Returns its number; -ECONNREFUSED: nobody listens. */
int ep_sim_connect(enum ep_role role);
/* Sends bytes; what a buffer of 4 KiB has no room for is lost. */
void ep_sim_client_send(int client, const void *bytes, size_t size);
/* Takes at most `size` bytes of what has come. Returns their number. */
size_t ep_sim_client_receive(int client, void *bytes, size_t size);
void ep_sim_client_close(int client);
/* What the endpoint has done with its end: nothing, it sends no more, or closed it. */
enum ep_sim_socket ep_sim_client_state(int client);
/* Removes all clients and listeners; ep_sim_reset() calls it. */
void ep_sim_sockets_reset(void);

/* Forks the process; the test continues as the child, without edgeprof's threads and timers. */
void ep_sim_fork(void);

/* An address inside a function, as a pc or return address. */
uintptr_t ep_sim_pc(unsigned function);

/* Adds the tables that this machine's unwinder needs for a range of the synthetic code. */
void ep_sim_tables(struct ep_module_info *info);

/* Builds a stack of function numbers (leaf, caller, ..., root) and its registers. */
void ep_sim_stack(const uint16_t *functions, unsigned depth, struct ep_registers *registers);

/* Runs a handler on a thread with that stack: enter, capture, leave. False: no profiler runs. */
bool ep_sim_tick(uint32_t tid, uint32_t ticks, const uint16_t *functions, unsigned depth);

/* Sets the stack that ep_port_here() reports until the next call; its leaf has called the hook. */
void ep_sim_here(const uint16_t *functions, unsigned depth);
/* The bytes from there on, at most size, that are in the memory of its stack. */
size_t ep_sim_here_size(uintptr_t from, size_t size);

/* Ends a thread: enter, ep_thread_residual, leave. False: no profiler runs. */
bool ep_sim_rest(uint32_t tid, int64_t rest_ns);

#endif
