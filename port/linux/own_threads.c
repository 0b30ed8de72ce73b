/*
 * edgeprof's own threads, and events (futexes).
 *
 * A thread is created with all signals blocked, so it never gets a signal of the service or a profiling signal.
 *
 * A parked thread exists for the C library but not for the kernel: pthread_create() makes it, setjmp() saves its place,
 * and it ends by the bare system call. The process is single-threaded again. One system call, which a signal handler
 * may make, resumes it: a new kernel thread on the same stack, with the same thread pointer, jumps back to that place.
 * Only with glibc: musl's threads share what the kernel clears at their end.
 *
 * The thread EP_ROLE_START parks in the parent and is resumed in forked children. Its stack is not the C library's,
 * which reuses the stacks of threads that a child lacks. It ends by the bare system call, since the child's C library
 * does not count it, and is then parked again.
 */
#include "own_signal.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "own_threads.h"

#define NS         1000000000u
#define REFUSED_NS 20000000u
/* Maximum distance of glibc's thread block from the thread pointer. */
#define THREAD_BLOCK 2304
/* Stack room below a parked thread's frame for the jump back. */
#define RESUME_ROOM  4096u
#define GONE_TRIALS  10000u
#define JOIN_LOOK_NS 100000000u

/* Room for TLS handshakes and name lookups on the deliver thread. Only touched pages cost memory. */
#define STACK_BYTES  (256 * 1024)
#define DELIVER_NICE 10

enum { LIVE, PARKED };

static struct {
    pthread_t thread;
    void (*fn)(void);
    struct ep_event ready; /* counts starts: the thread is marked as own, or about to be parked */
    struct ep_event ended;
    atomic_bool has_ended; /* fn has returned */
    bool park;
    atomic_uint state;
    int *tid_at; /* the C library's word with the thread's id, which the kernel clears when the thread ends */
    uint32_t parked_tid;
    uintptr_t stack, tls;
    sigjmp_buf at;
} own[EP_ROLES];

static atomic_uint own_tid[EP_LINUX_ROLES];
static _Atomic uint64_t last_ns[EP_LINUX_ROLES]; /* CPU time of the role's thread at its end */
static _Atomic uint64_t ended_ns;                /* of those before it, of all roles */
static _Thread_local bool here_is_own;

void ep_linux_thread_own(enum ep_role role)
{
    here_is_own = true;
    (void)atomic_fetch_add(&ended_ns, atomic_exchange(&last_ns[role], 0));
    atomic_store(&own_tid[role], (uint32_t)syscall(SYS_gettid));
}

/* A thread of edgeprof ends. Its id stays known, so that no scan takes it for the program's. */
static void own_ends(unsigned role)
{
    atomic_store(&last_ns[role], ep_linux_cpu_ns((uint32_t)syscall(SYS_gettid)));
}

void ep_linux_thread_ends_own(enum ep_role role)
{
    own_ends(role);
    atomic_store(&own_tid[role], 0);
}

bool ep_linux_role_is_alive(enum ep_role role)
{
    const uint32_t tid = atomic_load(&own_tid[role]);

    return tid != 0 && syscall(SYS_tgkill, getpid(), tid, 0) == 0;
}

bool ep_linux_here_is(enum ep_role role)
{
    return atomic_load(&own_tid[role]) == (uint32_t)syscall(SYS_gettid);
}

bool ep_linux_here_is_own(void)
{
    return here_is_own;
}

void ep_linux_here_set_own(bool own)
{
    here_is_own = own;
}

bool ep_linux_thread_is_own(uint32_t tid)
{
    bool own = false;

    for (unsigned role = 0; role < EP_LINUX_ROLES; role++)
        own |= tid == atomic_load(&own_tid[role]);
    return own;
}

uint64_t ep_linux_own_ns(void)
{
    uint64_t ns = 0;

    for (unsigned role = 0; role < EP_LINUX_ROLES; role++) {
        const uint32_t tid = atomic_load(&own_tid[role]);
        const uint64_t now = tid ? ep_linux_cpu_ns(tid) : 0, last = atomic_load(&last_ns[role]);
        ns += now > last ? now : last;
    }
    return ns + atomic_load(&ended_ns);
}

/* Finds the thread's id in the calling thread's block. NULL: not found, this is another C library. */
static int *find_tid(void)
{
    uintptr_t here = (uintptr_t)__builtin_thread_pointer();
#ifdef __x86_64__
    int *word = (int *)here, *end = (int *)(here + THREAD_BLOCK);
#else
    int *word = (int *)(here - THREAD_BLOCK), *end = (int *)here;
#endif
    int tid = (int)syscall(SYS_gettid), *found = NULL;

    for (; word < end; word++)
        if (*word == tid)
            found = found ? found : word;
    return found;
}

static _Noreturn void leave(unsigned role)
{
    atomic_store(&own[role].state, PARKED);
    ep_port_wake(&own[role].ready);
    for (;;)
        (void)syscall(SYS_exit, 0);
}

/* In a forked child. The next resume jumps into park_here() again, so that must not have returned. */
static _Noreturn void start_here(void)
{
    ep_linux_thread_own(EP_ROLE_START);
    own[EP_ROLE_START].fn();
    own_ends(EP_ROLE_START);
    atomic_store(&own_tid[EP_ROLE_START], 0);
    leave(EP_ROLE_START);
}

static void park_here(unsigned role)
{
    own[role].tid_at = find_tid();
    own[role].parked_tid = (uint32_t)syscall(SYS_gettid);
    own[role].tls = (uintptr_t)__builtin_thread_pointer();
    own[role].stack = ((uintptr_t)__builtin_frame_address(0) - RESUME_ROOM) & ~(uintptr_t)63;
    if (!own[role].tid_at)
        return;
    if (sigsetjmp(own[role].at, 0) == 0)
        leave(role);
    if (role == EP_ROLE_START)
        start_here();
}

/* The new kernel thread. Only the C library's own signals reach it, which setuid() and the like need. */
static void resume_parked(uintptr_t role)
{
    sigset_t all;

    (void)sigfillset(&all);
    (void)ep_linux_mask_raw(SIG_SETMASK, ep_linux_set_bits(&all));
    siglongjmp(own[role].at, 1);
}

static void *own_main(void *argument)
{
    static const char name[EP_ROLES][16] = {"edgeprof-coll", "edgeprof-dlvr", "edgeprof-ctrl", "edgeprof-pull",
                                            "edgeprof-strt"};
    unsigned role = (unsigned)(uintptr_t)argument;

    if (own[role].park)
        park_here(role);
    ep_linux_thread_own((enum ep_role)role);
    ep_port_wake(&own[role].ready);
    (void)prctl(PR_SET_NAME, name[role]);
    if (role == EP_ROLE_DELIVER) /* on Linux nice is per thread */
        (void)setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), DELIVER_NICE);
    own[role].fn();
    own_ends(role);
    atomic_store(&own[role].has_ended, true);
    ep_port_wake(&own[role].ended);
    return NULL;
}

bool ep_linux_is_own_start(void *(*start)(void *))
{
    return start == own_main;
}

static struct {
    void *memory;
    size_t size;
} start_stack;

static int stack_set(pthread_attr_t *attributes, enum ep_role role)
{
    if (role != EP_ROLE_START)
        return pthread_attr_setstacksize(attributes, STACK_BYTES);
    return pthread_attr_setstack(attributes, start_stack.memory, start_stack.size); /* EINVAL: there is none */
}

static int thread_make(enum ep_role role, void (*fn)(void), bool parked)
{
    sigset_t all;
    pthread_attr_t attributes;

    own[role].fn = fn;
    own[role].park = parked;
    atomic_store(&own[role].has_ended, false);
    atomic_store(&own[role].state, LIVE);
    unsigned seen = atomic_load(&own[role].ready.value);
    int error = pthread_attr_init(&attributes);
    if (error)
        return -error;
    error = stack_set(&attributes, role);
    (void)sigfillset(&all); /* except the C library's own signals */
    uint64_t before = ep_linux_mask_raw(SIG_SETMASK, ep_linux_set_bits(&all));
    if (!error)
        error = pthread_create(&own[role].thread, &attributes, own_main, (void *)(uintptr_t)role);
    (void)ep_linux_mask_raw(SIG_SETMASK, before);
    (void)pthread_attr_destroy(&attributes);
    const bool watch = ep_linux_switches_watch();
    while (!error && atomic_load(&own[role].ready.value) == seen)
        ep_port_wait(&own[role].ready, seen, NS);
    if (watch)
        ep_linux_switches_watched();
    return -error;
}

int ep_port_thread_start(enum ep_role role, void (*fn)(void))
{
    return thread_make(role, fn, false);
}

/* Weak: only glibc has it. */
extern const char *gnu_get_libc_version(void) __attribute__((weak));

/* True if the kernel has cleared the thread's id: the thread does not use its stack any more. */
static bool has_left_stack(unsigned role)
{
    return __atomic_load_n(own[role].tid_at, __ATOMIC_ACQUIRE) == 0;
}

/* True if the kernel does not know the parked thread any more. Where a filter refuses tgkill(): if it has left. */
static bool is_gone(unsigned role)
{
    return syscall(SYS_tgkill, getpid(), own[role].parked_tid, 0) != 0 && (errno == ESRCH || has_left_stack(role));
}

int ep_port_thread_park(enum ep_role role, void (*fn)(void))
{
    if (!gnu_get_libc_version)
        return -ENOTSUP;
    int error = thread_make(role, fn, true);
    if (error || atomic_load(&own[role].state) != PARKED) /* if the thread's id was not found, it just runs */
        return error;
    for (unsigned i = 0; i < GONE_TRIALS && !is_gone(role); i++)
        (void)sched_yield();
    return 0;
}

int ep_port_thread_resume(enum ep_role role)
{
    const unsigned long flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM |
                                CLONE_SETTLS | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID;
    unsigned parked = PARKED;
    int kept = errno;

    if (!atomic_compare_exchange_strong(&own[role].state, &parked, LIVE))
        return 0;
    if (!has_left_stack(role)) { /* ep_port_thread_park() did not see its end, so the stack is not free yet */
        atomic_store(&own[role].state, PARKED);
        return -EAGAIN;
    }
    uint32_t last = atomic_load(&own_tid[role]);
    uint64_t before = ep_linux_mask_raw(SIG_SETMASK, UINT64_MAX);
    long tid = ep_linux_clone(flags, own[role].stack, own[role].tid_at, own[role].tls, resume_parked, role);
    (void)ep_linux_mask_raw(SIG_SETMASK, before);
    errno = kept;
    if (tid <= 0) {
        atomic_store(&own[role].state, PARKED);
        return (int)tid;
    }
    /* It may wait long for a processor. Until it says itself that it is edgeprof's, a crash record would show it. */
    (void)atomic_compare_exchange_strong(&own_tid[role], &last, (uint32_t)tid);
    return 0;
}

int ep_linux_start_park(void *stack, size_t size, void (*fn)(void))
{
    start_stack.memory = stack;
    start_stack.size = size;
    return ep_port_thread_park(EP_ROLE_START, fn);
}

bool ep_linux_thread_settled(enum ep_role role)
{
    return atomic_load(&own[role].state) == PARKED && has_left_stack(role);
}

void ep_linux_threads_lost(void)
{
    for (unsigned role = 0; role < EP_LINUX_ROLES; role++) {
        atomic_store(&own_tid[role], 0);
        atomic_store(&last_ns[role], 0);
    }
    atomic_store(&ended_ns, 0);
    ep_linux_pins_forked();
}

/* The C library's join has no deadline on a clock that nobody sets. A thread that the kernel has ended (a filter of
 * system calls) does not say so. */
int ep_port_thread_join(enum ep_role role, uint64_t until_ns)
{
    for (;;) {
        const unsigned seen = atomic_load(&own[role].ended.value);
        const uint32_t tid = atomic_load(&own_tid[role]);
        if (atomic_load(&own[role].has_ended) || atomic_load(&own[role].state) == PARKED ||
            (tid && syscall(SYS_tgkill, getpid(), tid, 0) != 0 && errno == ESRCH))
            return -pthread_join(own[role].thread, NULL);
        const uint64_t now = ep_port_uptime_ns();
        if (now >= until_ns)
            return -ETIMEDOUT;
        ep_port_wait(&own[role].ended, seen, until_ns - now < JOIN_LOOK_NS ? until_ns - now : JOIN_LOOK_NS);
    }
}

/* Waits or wakes. The timeout has the kernel's type, independent of this C library's time_t. */
static long futex(struct ep_event *event, int operation, unsigned value, uint64_t timeout_ns)
{
    const long timeout[2] = {(long)(timeout_ns / NS), (long)(timeout_ns % NS)};
    long result = syscall(SYS_futex, &event->value, operation, value, timeout, NULL, 0);

#ifdef SYS_futex_time64 /* 32-bit kernels without CONFIG_COMPAT_32BIT_TIME have only this call */
    if (result < 0 && errno == ENOSYS) {
        const int64_t wide[2] = {timeout[0], timeout[1]};
        result = syscall(SYS_futex_time64, &event->value, operation, value, wide, NULL, 0);
    }
#endif
    return result;
}

/* Where a filter of system calls refuses futexes, this looks every REFUSED_NS: waiting must not become a busy loop. */
void ep_port_wait(struct ep_event *event, unsigned seen, uint64_t timeout_ns)
{
    const struct timespec pause = {.tv_nsec = (long)(timeout_ns < REFUSED_NS ? timeout_ns : REFUSED_NS)};

    if (futex(event, FUTEX_WAIT_PRIVATE, seen, timeout_ns) < 0 && errno != EAGAIN && errno != ETIMEDOUT &&
        errno != EINTR)
        (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
}

EP_LINUX_CALLS void ep_port_wake(struct ep_event *event)
{
    int kept = errno;

    (void)atomic_fetch_add(&event->value, 1);
    (void)futex(event, FUTEX_WAKE_PRIVATE, INT_MAX, 0);
    errno = kept;
}
