/*
 * Seccomp filters that are there already: those of the process that executed this one, and those of single threads.
 * What they permit cannot be read, so a child tries.
 */
#include "filter.h"

#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <edgeprof/edgeprof.h>

#include "linux.h"
#include "own_threads.h"

#define STATUS_BYTES 4096
#define CHILD_STACK  16384u

/* The lines "Seccomp:" and "Seccomp_filters:" (since Linux 5.9) of a file "status". Returns the mode, 0: none. */
static unsigned read_status(char *text, int got, uint64_t *filters)
{
    const char *mode = got > 0 ? strstr(text, "\nSeccomp:\t") : NULL;
    const char *count = got > 0 ? strstr(text, "\nSeccomp_filters:\t") : NULL;

    if (count)
        count += strlen("\nSeccomp_filters:\t");
    if (mode)
        mode += strlen("\nSeccomp:\t");
    *filters = count ? ep_linux_number(&count) : 0;
    return mode ? (unsigned)ep_linux_number(&mode) : 0;
}

bool ep_linux_filter_differs(uint32_t tid)
{
    const uint32_t self = (uint32_t)syscall(SYS_gettid);
    char text[STATUS_BYTES];
    uint64_t here, there;

    if (tid == self)
        return false;
    const unsigned mode_there = read_status(text, ep_linux_task_read(tid, "/status", text, sizeof text), &there);

    if (mode_there == 0)
        return false;
    return read_status(text, ep_linux_task_read(self, "/status", text, sizeof text), &here) != mode_there ||
           here != there;
}

/* ---- the child ---- */

struct trial {
    atomic_uint at; /* the call that is made; call_count: all were */
    _Alignas(64) unsigned char stack[CHILD_STACK];
};

static void nothing(int signal)
{
    (void)signal;
}

static void try_call(const struct ep_linux_call *call)
{
    const bool as_is = call->probe == EP_LINUX_PROBE_AS_IS;
    long arguments[EP_LINUX_FILTER_ARGUMENTS];

    for (unsigned i = 0; i < EP_LINUX_FILTER_ARGUMENTS; i++)
        arguments[i] = as_is ? call->arguments[i] : -1;
    (void)syscall(call->number, arguments[0], arguments[1], arguments[2], arguments[3], -1L, as_is ? 0L : -1L);
}

/* Signals are tried last: the handler's return is the call that has no arguments to be wrong. */
static void try_all(uintptr_t argument)
{
    const struct sigaction action = {.sa_handler = nothing};
    struct trial *trial = (struct trial *)argument;
    sigset_t set;

    for (unsigned i = 0; i < ep_linux_call_count; i++) {
        atomic_store(&trial->at, i);
        if (ep_linux_calls[i].probe != EP_LINUX_PROBE_NOT)
            try_call(&ep_linux_calls[i]);
    }
    atomic_store(&trial->at, 0); /* rt_sigreturn */
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGUSR1);
    (void)sigaction(SIGUSR1, &action, NULL);
    (void)sigprocmask(SIG_UNBLOCK, &set, NULL);
    (void)syscall(SYS_tgkill, syscall(SYS_getpid), syscall(SYS_gettid), SIGUSR1);
    atomic_store(&trial->at, ep_linux_call_count);
    for (;;)
        (void)syscall(SYS_exit_group, 0);
}

/* The child has a copy of the memory: in a shared one, old kernels end its parent too. It sends no signal when it ends,
 * and this thread goes on then. */
static const char *try_in_child(struct trial *trial)
{
    int unused;
    sigset_t all, before;

    (void)sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, &before);
    const long child = ep_linux_clone(CLONE_VFORK, (uintptr_t)trial->stack + sizeof trial->stack, &unused, 0, try_all,
                                      (uintptr_t)trial);
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
    if (child < 0) /* refused by an errno value, as other calls then are too */
        return NULL;
    const unsigned at = atomic_load(&trial->at);
    if (at < ep_linux_call_count)
        return ep_linux_calls[at].name;
    (void)waitpid((pid_t)child, NULL, (int)__WCLONE);
    return NULL;
}

static const char *begin(void)
{
    char text[STATUS_BYTES];
    uint64_t filters;

    if (read_status(text, ep_linux_read("/proc/self/status", text, sizeof text), &filters) == 0)
        return NULL;
    struct trial *trial = mmap(NULL, sizeof *trial, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (trial == MAP_FAILED)
        return NULL;
    const char *call = try_in_child(trial);
    if (!call)
        (void)munmap(trial, sizeof *trial);
    return call;
}

const char *ep_port_forbidden(void)
{
    return ep_linux_filter_begin();
}

const char *ep_linux_filter_begin(void)
{
    static bool tried;

    if (!tried && !ep_linux_filter_met())
        ep_linux_filter_is_met(begin());
    tried = true;
    return ep_linux_filter_met();
}
