/*
 * A small service that burns CPU time in three threads, under a limit of the system. It knows nothing of edgeprof,
 * unless it is compiled with LINKED: then it profiles itself to no receiver and says on standard error what of its CPU
 * time is accounted for.
 *
 *   busy LIMIT      none, sigpending, nofile, nofile-late, nproc, as, eperm, enosys, blocked
 *
 * It takes the limit, executes itself again, so that all of it runs under the limit, and works. What cannot have a
 * thread is done by the main thread. BUSY_AS_KIB is the limit of address space; with BUSY_QUICK it ends without work.
 * Its output and its exit status, 7, are the same under every limit; the last line has its CPU time.
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define WORKERS   3u
#define WORK_MS   700u
#define STACK     (64u * 1024u)
#define NO_RIGHTS 61000u

static const char *limit;
static unsigned done[WORKERS];

/* ---- limits ---- */

static int set_limit(int which, rlim_t value)
{
    const struct rlimit both = {.rlim_cur = value, .rlim_max = value};

    return setrlimit((__rlimit_resource_t)which, &both);
}

/* The only thing that is refused is timer_create(). */
static int refuse_timers(int error)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_timer_create, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {.len = sizeof code / sizeof code[0], .filter = code};

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return -1;
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
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
        return refuse_timers(EPERM);
    return strcmp(limit, "enosys") == 0 ? refuse_timers(ENOSYS) : 0;
}

/* ---- work ---- */

static uint64_t clock_of(clockid_t clock)
{
    struct timespec now;

    (void)clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

__attribute__((noinline)) static void burn(uint64_t ns)
{
    uint64_t end = clock_of(CLOCK_THREAD_CPUTIME_ID) + ns;

    while (clock_of(CLOCK_THREAD_CPUTIME_ID) < end)
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
    burn(WORK_MS * 1000000ull);
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
    while (started < WORKERS && pthread_create(&thread[started], &attributes, worker, (void *)(uintptr_t)started) == 0)
        started++;
    for (unsigned i = started; i < WORKERS; i++) {
        burn(WORK_MS * 1000000ull);
        done[i] = 1;
    }
    for (unsigned i = 0; i < started; i++)
        (void)pthread_join(thread[i], NULL);
    for (unsigned i = 0; i < WORKERS; i++)
        count += done[i];
    printf("%u of %u pieces of work done\n", count, WORKERS);
}

#ifdef LINKED
#include "core/edgeprof.h"

static uint64_t memory[EP_MEMORY_DEFAULT / 8];

static void profile_begin(void)
{
    const struct ep_config config = {.memory = memory, .memory_size = sizeof memory, .rate_hz = 97, .interval_ms = 200};
    int error = ep_start(&config);

    if (error)
        (void)fprintf(stderr, "edgeprof: not profiling: %s: %s\n", ep_start_error(), strerror(-error));
}

static void profile_end(void)
{
    struct ep_stats s;

    (void)ep_stop(2000);
    if (ep_stats_get(&s) != 0)
        return;
    uint64_t cpu = clock_of(CLOCK_PROCESS_CPUTIME_ID) - s.collect_cpu_ns - s.deliver_cpu_ns;
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
    work();
    profile_end();
    printf("cpu_ns %llu\n", (unsigned long long)clock_of(CLOCK_PROCESS_CPUTIME_ID));
    return 7;
}
