/*
 * Clocks, identity, modules and the sampling source of the simulated port; see sim.h. roles.c has the co-routines,
 * stack.c the synthetic stacks.
 */
#include <edgeprof/edgeprof.h>
#include "sim.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define UPTIME_AT_START 1000000000000u
#define UNIX_AT_START   1700000000000000000u

static const struct ep_sim defaults = {
    .uptime_ns = UPTIME_AT_START,
    .unix_minus_uptime_ns = UNIX_AT_START,
    .random_state = 1,
    .random_byte = -1,
    .identity = {.host = "sim", .boot_id = "boot", .executable = "simulated", .arch = "x86_64", .pid = 42},
    .modules_generation = 1,
    .threads = 1,
    .announced = 1,
    .port_bytes = 64,
    .socket_room = 65536,
    .fail_error = -EIO,
};
struct ep_sim ep_sim;

/* A program that is no test needs no reset. */
__attribute__((constructor)) void ep_sim_defaults(void)
{
    ep_sim = defaults;
}

int ep_sim_fails(const char *name)
{
    if (++ep_sim.calls != ep_sim.fail_at)
        return 0;
    ep_sim.failed = name;
    return ep_sim.fail_error;
}

uint64_t ep_port_uptime_ns(void)
{
    ep_sim.uptime_ns += ep_sim.uptime_step_ns;
    return ep_sim.uptime_ns;
}

uint64_t ep_port_ticks(void)
{
    return ep_port_uptime_ns();
}

uint64_t ep_port_ticks_ns(uint64_t ticks)
{
    return ticks;
}

void ep_port_stay_begin(void) {}

bool ep_port_stayed(void)
{
    return ep_sim.stayed;
}

unsigned ep_port_descriptor_wait(int fd)
{
    ep_sim.descriptors_seen++;
    return (unsigned)fd;
}

uint64_t ep_port_unix_ns(void)
{
    return ep_sim.unix_minus_uptime_ns ? ep_sim.uptime_ns + ep_sim.unix_minus_uptime_ns : 0;
}

uint64_t ep_port_thread_cpu_ns(void)
{
    ep_sim.thread_cpu_ns += ep_sim.thread_cpu_step_ns;
    return ep_sim.thread_cpu_ns;
}

uint32_t ep_port_thread_faults(void)
{
    ep_sim.thread_faults += ep_sim.thread_faults_step;
    return ep_sim.thread_faults;
}

uint64_t ep_port_process_cpu_ns(void)
{
    return ep_sim.process_cpu_ns;
}

uint64_t ep_port_resident(void)
{
    return ep_sim.resident;
}

uint32_t ep_port_tick_hz(void)
{
    return 250;
}

uint32_t ep_port_clock(uint64_t *error)
{
    if (error)
        *error = ep_sim.clock_error;
    return EP_CLOCK_TIMERS;
}

uint64_t ep_port_tick_cost_ns(void)
{
    return ep_sim.tick_cost_ns;
}

void ep_port_random(void *bytes, size_t size)
{
    uint8_t *at = bytes;

    for (size_t i = 0; i < size; i++) {
        ep_sim.random_state = ep_sim.random_state * 6364136223846793005u + 1442695040888963407u;
        at[i] = (uint8_t)(ep_sim.random_byte >= 0 ? (unsigned)ep_sim.random_byte : ep_sim.random_state >> 56);
    }
}

const char *ep_port_forbidden(void)
{
    return ep_sim.forbidden;
}

void ep_port_identity(struct ep_identity *identity)
{
    *identity = ep_sim.identity;
}

int ep_port_file_read(const char *path, char *bytes, size_t size)
{
    size_t has = ep_sim.file ? strlen(ep_sim.file) : 0;

    (void)path;
    if (!ep_sim.file)
        return -ENOENT;
    if (has > size)
        return -EFBIG;
    memcpy(bytes, ep_sim.file, has);
    return (int)has;
}

const char *ep_port_env(const char *name)
{
    size_t size = strlen(name);

    for (const char *const *at = ep_sim.environment; at && *at; at++)
        if (strncmp(*at, name, size) == 0 && (*at)[size] == '=')
            return *at + size + 1;
    return NULL;
}

size_t ep_port_memory_size(unsigned threads)
{
    (void)threads;
    return ep_sim.port_bytes;
}

int ep_port_sampling_start(void *memory, unsigned threads, uint32_t period_ns, uint32_t clock)
{
    (void)threads;
    (void)clock;
    ep_sim.port_memory = memory;
    ep_sim.period_ns = period_ns;
    ep_sim.sampling = true;
    if (ep_sim.on_sampling_start)
        ep_sim.on_sampling_start();
    int error = ep_sim_fails("sampling_start");
    if (error) {
        ep_sim.sampling = false;
        return error;
    }
    return ep_sim.threads;
}

void ep_port_sampling_stop(void)
{
    ep_sim.sampling = false;
    for (unsigned tid = 0; tid < EP_SIM_THREADS; tid++) {
        if (ep_sim.carried_ns[tid])
            ep_thread_residual(tid, (int64_t)ep_sim.carried_ns[tid]);
        ep_sim.carried_ns[tid] = 0;
    }
    for (; ep_sim.rests; ep_sim.rests--)
        ep_thread_residual(ep_sim.rests, ep_sim.rest_ns[ep_sim.rests - 1]);
}

int ep_port_threads_scan(void)
{
    int error = ep_sim_fails("threads_scan");

    ep_sim.scans++;
    return error ? error : ep_sim.threads;
}

void ep_port_stacks_find(void) {}

void *ep_port_memory(size_t size)
{
    return calloc(1, size);
}

bool ep_port_readable(uintptr_t at)
{
    (void)at;
    return false;
}

void ep_port_sampling_period(uint32_t period_ns)
{
    if (ep_sim.sampling)
        ep_sim.period_ns = period_ns;
}

void ep_port_thread_name(uint32_t tid, char *name, size_t size)
{
    if (ep_sim.thread_name)
        (void)snprintf(name, size, "%s", ep_sim.thread_name);
    else
        (void)snprintf(name, size, "thread-%u", (unsigned)tid);
}

int ep_port_threads_each(void (*fn)(uint32_t tid))
{
    int error = ep_sim_fails("threads_each");

    for (unsigned i = 0; i < ep_sim.thread_count && !error; i++)
        fn(ep_sim.thread[i].tid);
    return error;
}

int ep_port_thread_blocked(uint32_t tid, struct ep_registers *registers, uint64_t *ran_ns)
{
    if (ep_sim.on_look)
        ep_sim.on_look(tid);
    for (unsigned i = 0; i < ep_sim.thread_count; i++) {
        struct ep_sim_thread *thread = &ep_sim.thread[i];
        if (thread->tid != tid)
            continue;
        thread->ran_ns += thread->restless;
        *registers = thread->at;
        *ran_ns = thread->ran_ns;
        return thread->error;
    }
    return -ESRCH;
}

unsigned ep_port_thread_wait(uint32_t tid)
{
    for (unsigned i = 0; i < ep_sim.thread_count; i++)
        if (ep_sim.thread[i].tid == tid)
            return ep_sim.thread[i].wait;
    return 0;
}

size_t ep_port_copy(uint32_t tid, uintptr_t from, void *to, size_t size)
{
    if (tid == ep_sim.gone_tid)
        return 0;
    if (ep_sim.no_bounds)
        size = ep_sim_here_size(from, size);
    memcpy(to, (const void *)from, size);
    return size;
}

struct ep_work *ep_port_work(void)
{
    return ep_sim.works ? ep_sim.works : &ep_sim.work;
}

void *ep_port_thread_part(enum ep_thread_part part)
{
    static _Alignas(8) unsigned char parts[EP_PARTS][EP_PART_OTEL_BYTES];

    return parts[part];
}

int ep_port_threads_announced(void)
{
    return ep_sim.announced;
}

uintptr_t ep_port_hijack_stub(void)
{
    return ep_sim.hijack_stub;
}

uint64_t ep_port_modules_generation(void)
{
    return ep_sim.modules_generation;
}

static void scan_synthetic(void)
{
    static const uint8_t id[20] = {0x51, 0x30};
    struct ep_module_info info = {
        .start = ep_sim_pc(0) & ~(uintptr_t)(EP_SIM_FUNCTION - 1),
        .path = "/sim/program",
        .build_id = id,
        .build_id_size = sizeof id,
    };

    info.end = info.start + EP_SIM_FUNCTIONS * EP_SIM_FUNCTION;
    info.bias = info.start - 0x10000;
    ep_sim_tables(&info);
    (void)ep_module_seen(&info);
}

uintptr_t ep_port_symbol(uintptr_t pc, char *name, size_t size)
{
    return ep_sim.symbol ? ep_sim.symbol(pc, name, size) : 0;
}

bool ep_port_function_next(uintptr_t from, uintptr_t end, struct ep_port_function *function)
{
    return ep_sim.function && ep_sim.function(from, end, function);
}

int ep_port_modules_scan(int pin)
{
    (void)pin;
    int error = ep_sim_fails("modules_scan");

    if (error)
        return error;
    ep_sim.module_scans++;
    if (!ep_sim.modules)
        scan_synthetic();
    for (unsigned i = 0; i < ep_sim.module_count; i++) {
        struct ep_module_info info = ep_sim.modules[i];
        ep_sim_tables(&info);
        (void)ep_module_seen(&info);
    }
    return 0;
}
