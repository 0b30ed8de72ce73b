/*
 * A small service that burns CPU time in three threads, under a limit of the system. It knows nothing of edgeprof,
 * unless it is compiled with LINKED: then it profiles itself to no receiver and says on standard error what of its CPU
 * time is accounted for.
 *
 *   busy LIMIT      none, sigpending, nofile, nofile-late, nproc, as, eperm, enosys, blocked
 *   busy CALL=ERROR[,late]     a filter refuses this system call with this errno value, from the start or, with
 *                              `late`, once the profiler runs; "cpu-clocks" is clock_gettime() of CPU clocks
 *
 * It takes the limit, executes itself again, so that all of it runs under the limit, and works. What cannot have a
 * thread is done by the main thread. BUSY_AS_KIB is the limit of address space; with BUSY_QUICK it ends without work;
 * BUSY_MS is the work of each thread, BUSY_ALONE gives all of it to the main thread.
 * Its output and its exit status, 7, are the same under every limit; the last lines have the CPU time of edgeprof's
 * threads and its own.
 */
#include "../../program.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>

#define WORKERS   3u
#define STACK     (64u * 1024u)
#define NO_RIGHTS 61000u

static const char *limit;
static bool late;
static unsigned work_ms = 700;
static unsigned done[WORKERS];

/* ---- limits ---- */

static int set_limit(int which, rlim_t value)
{
    const struct rlimit both = {.rlim_cur = value, .rlim_max = value};

    return setrlimit((__rlimit_resource_t)which, &both);
}

static int filter_take(struct sock_filter *code, unsigned short size)
{
    const struct sock_fprog program = {.len = size, .filter = code};

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return -1;
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

/* The only thing that is refused is this system call. */
static int refuse(long call, unsigned error)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)call, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };

    return filter_take(code, sizeof code / sizeof code[0]);
}

/* clock_gettime() of clocks of processes and threads: those with a negative number, and two constants. */
static int refuse_cpu_clocks(unsigned error)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clock_gettime, 0, 5),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
        BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, CLOCK_THREAD_CPUTIME_ID, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, CLOCK_PROCESS_CPUTIME_ID, 1, 2),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x80000000u, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };

    return filter_take(code, sizeof code / sizeof code[0]);
}

#define CALL(name)                                                                                                     \
    {                                                                                                                  \
#name, SYS_##name                                                                                              \
    }
static const struct {
    const char *name;
    long number;
} calls[] = {
    CALL(timer_create),
    CALL(timer_settime),
    CALL(timer_gettime),
    CALL(timer_delete),
    CALL(rt_sigaction),
    CALL(rt_sigprocmask),
    CALL(rt_tgsigqueueinfo),
    CALL(tgkill),
    CALL(clock_gettime),
    CALL(clock_getres),
    CALL(futex),
    CALL(openat),
    CALL(readlink),
    CALL(getdents64),
    CALL(newfstatat),
    CALL(sched_getaffinity),
    CALL(prctl),
    CALL(clone3),
    CALL(clone),
    CALL(membarrier),
    CALL(eventfd2),
    CALL(pipe2),
    CALL(socket),
    CALL(connect),
    CALL(bind),
    CALL(sendto),
    CALL(poll),
    CALL(fsync),
    CALL(fdatasync),
    CALL(renameat2),
    CALL(ftruncate),
    CALL(getrandom),
    CALL(statx),
    CALL(process_vm_readv),
    CALL(setpriority),
    CALL(getrusage),
    CALL(prlimit64),
    CALL(uname),
    CALL(sched_yield),
    CALL(madvise),
    CALL(gettid),
    CALL(rseq),
    CALL(clock_nanosleep),
    CALL(pidfd_open),
    CALL(write),
};

/* limit: CALL=ERROR */
static int refuse_call(void)
{
    size_t length = strcspn(limit, "=");
    unsigned error = limit[length] ? (unsigned)strtoul(limit + length + 1, NULL, 10) : 0;

    if (strncmp(limit, "cpu-clocks=", 11) == 0)
        return refuse_cpu_clocks(error);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (strlen(calls[i].name) == length && strncmp(calls[i].name, limit, length) == 0)
            return refuse(calls[i].number, error);
    errno = EINVAL;
    return -1;
}

/* Of a user of its own, who has one process: root may have as many as it likes. */
static int one_process(void)
{
    if (getuid() == 0 && setresuid(NO_RIGHTS, NO_RIGHTS, NO_RIGHTS) != 0)
        return -1;
    return set_limit(RLIMIT_NPROC, 1);
}

static int take_limit(void)
{
    if (strcmp(limit, "sigpending") == 0)
        return set_limit(RLIMIT_SIGPENDING, 0);
    if (strcmp(limit, "nofile") == 0) /* enough to load libraries one by one */
        return set_limit(RLIMIT_NOFILE, 4);
    if (strcmp(limit, "nproc") == 0)
        return one_process();
    if (strcmp(limit, "as") == 0)
        return set_limit(RLIMIT_AS,
                         1024ul * (getenv("BUSY_AS_KIB") ? strtoul(getenv("BUSY_AS_KIB"), NULL, 10) : 65536));
    if (strcmp(limit, "eperm") == 0)
        return refuse(SYS_timer_create, EPERM);
    if (strchr(limit, '='))
        return late ? 0 : refuse_call();
    return strcmp(limit, "enosys") == 0 ? refuse(SYS_timer_create, ENOSYS) : 0;
}

/* ---- work ---- */

/* A filter may refuse clocks of CPU time: then it takes the monotonic clock, which is no system call. */
__attribute__((noinline)) static void burn(uint64_t ns)
{
    bool refused = strncmp(limit, "cpu-clocks", 10) == 0 || strncmp(limit, "clock_gettime", 13) == 0;
    clockid_t clock = refused ? CLOCK_MONOTONIC : CLOCK_THREAD_CPUTIME_ID;
    uint64_t end = clock_ns(clock) + ns;

    while (clock_ns(clock) < end)
        for (volatile int i = 0; i < 2000; i++) {
        }
}

/* By the system call itself: whatever wraps sigprocmask() has no part in it. */
static void block_all(void)
{
    const uint64_t all = UINT64_MAX;

    (void)syscall(SYS_rt_sigprocmask, 0 /* SIG_BLOCK */, &all, NULL, sizeof all);
}

static void *worker(void *argument)
{
    unsigned number = (unsigned)(uintptr_t)argument;
    char name[16];

    (void)snprintf(name, sizeof name, "worker-%u", number + 1);
    (void)prctl(PR_SET_NAME, name);
    if (strcmp(limit, "blocked") == 0)
        block_all();
    burn(work_ms * 1000000ull);
    done[number] = 1;
    return NULL;
}

static void work(void)
{
    pthread_t thread[WORKERS];
    pthread_attr_t attributes;
    unsigned started = 0, count = 0;

    (void)pthread_attr_init(&attributes);
    (void)pthread_attr_setstacksize(&attributes, STACK);
    while (!getenv("BUSY_ALONE") && started < WORKERS &&
           pthread_create(&thread[started], &attributes, worker, (void *)(uintptr_t)started) == 0)
        started++;
    for (unsigned i = started; i < WORKERS; i++) {
        burn(work_ms * 1000000ull);
        done[i] = 1;
    }
    for (unsigned i = 0; i < started; i++)
        (void)pthread_join(thread[i], NULL);
    for (unsigned i = 0; i < WORKERS; i++)
        count += done[i];
    printf("%u of %u pieces of work done\n", count, WORKERS);
}

static uint64_t process_ns(void)
{
    struct rusage used = {0};

    (void)getrusage(RUSAGE_SELF, &used);
    return ((uint64_t)used.ru_utime.tv_sec + (uint64_t)used.ru_stime.tv_sec) * 1000000000u +
           ((uint64_t)used.ru_utime.tv_usec + (uint64_t)used.ru_stime.tv_usec) * 1000u;
}

#ifdef LINKED
#include <edgeprof/edgeprof.h>

static uint64_t memory[EP_MEMORY_DEFAULT / 8];

static void profile_begin(void)
{
    const struct ep_config config = {.memory = memory, .memory_size = sizeof memory, .rate_hz = 97, .interval_ms = 200};
    int error = ep_start(&config);

    if (error)
        (void)fprintf(stderr, "edgeprof: not profiling: %s: %s\n", ep_start_error(), strerror(-error));
    if (!error && getenv("EDGEPROF_CONTROL") && (error = ep_control_start(NULL, NULL)) < 0)
        (void)fprintf(stderr, "edgeprof: no control endpoint: %s\n", strerror(-error));
}

static void profile_end(void)
{
    struct ep_stats s;

    (void)ep_control_stop();
    (void)ep_stop(2000);
    if (ep_stats_get(&s) != 0)
        return;
    uint64_t cpu = process_ns() - s.collect_cpu_ns - s.deliver_cpu_ns;
    (void)fprintf(stderr, "accounted %.1f\n", 100 * (double)(s.weight_ns + s.thread_exit_ns) / (double)cpu);
    for (unsigned i = 0; i < EP_LOSS_REASONS; i++)
        if (s.lost_count[i])
            (void)fprintf(stderr, "lost %s %llu\n", ep_loss_name(i), (unsigned long long)s.lost_count[i]);
}
#else
static void profile_begin(void) {}

static void profile_end(void) {}
#endif

int main(int argc, char **argv)
{
    limit = argc > 1 ? argv[1] : "none";
    late = strstr(limit, ",late") != NULL;
    if (getenv("BUSY_MS"))
        work_ms = (unsigned)strtoul(getenv("BUSY_MS"), NULL, 10);
    if (argc < 3) {
        if (take_limit() != 0) {
            perror(limit);
            return 1;
        }
        (void)execl("/proc/self/exe", argv[0], limit, "ready", (char *)NULL);
        perror("exec");
        return 1;
    }
    if (getenv("BUSY_QUICK"))
        return 7;
    (void)prctl(PR_SET_NAME, "busy");
    profile_begin();
    if (strcmp(limit, "nofile-late") == 0)
        (void)set_limit(RLIMIT_NOFILE, 3);
    if (late && refuse_call() != 0)
        perror(limit);
    work();
    printf("own_ns %llu\n", (unsigned long long)own_ns("edgeprof-"));
    profile_end();
    printf("cpu_ns %llu\n", (unsigned long long)process_ns());
    return 7;
}
