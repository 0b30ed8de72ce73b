/*
 * The perf clock: totals and shares are right, rates above the kernel's ticks are held, and whatever a process forbids
 * or does to its descriptors, signals and children, it goes on and no CPU time is lost.
 */
#include "linux_test.h"

#include <linux/filter.h>
#include <linux/perf_event.h>
#include <linux/seccomp.h>

#define RATE              251
#define FRAME_KERNEL      30
#define STATS_CLOCK_ERROR 21
/* Statuses of a child process that measures. */
enum { PASSED, FAILED, SKIPPED };

static struct ep_stats stats;

/* True if this machine permits perf events at all. */
static bool permitted(void)
{
    struct perf_event_attr a = {.type = PERF_TYPE_SOFTWARE,
                                .size = sizeof a,
                                .config = PERF_COUNT_SW_CPU_CLOCK,
                                .disabled = 1,
                                .exclude_kernel = 1,
                                .exclude_hv = 1};
    int fd = (int)syscall(SYS_perf_event_open, &a, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);

    return fd >= 0 && close(fd) == 0;
}

static void begin(uint32_t rate, uint64_t *cpu)
{
    receiver_reset();
    *cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    assert_int_equal(begin_profile_with(rate, 200, EP_CLOCK_PERF), 0);
    assert_int_equal(ep_stats_get(&stats), 0);
}

/* Returns the share of CPU time that is accounted for. */
static double end(uint64_t cpu)
{
    assert_int_equal(end_profile(5000), 0);
    assert_int_equal(ep_stats_get(&stats), 0);
    return accounted(cpu);
}

static void *burn_ms(void *ms)
{
    burn_by((uintptr_t)ms * MS, 200000); /* with so few system calls that hardly any time is in the kernel */
    return NULL;
}

static void crew(unsigned threads, uintptr_t ms)
{
    pthread_t thread[16];

    for (unsigned i = 0; i < threads; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, burn_ms, (void *)ms), 0);
    for (unsigned i = 0; i < threads; i++)
        assert_int_equal(pthread_join(thread[i], NULL), 0);
}

static double account_crew(unsigned rounds, unsigned threads, uintptr_t ms)
{
    uint64_t cpu;

    begin(RATE, &cpu);
    for (unsigned i = 0; i < rounds; i++)
        crew(threads, ms);
    return end(cpu);
}

/* ---- what a process forbids or does, in a child of its own ---- */

static double account_here(void)
{
    uint64_t cpu;

    begin(RATE, &cpu);
    crew(2, 200);
    return end(cpu);
}

/* Threads have another clock because of that error, the status says so, and nothing is lost. */
static bool gave_way(int error)
{
    for (unsigned reason = 0; reason < EP_LOSS_REASONS; reason++)
        if (stats.lost_count[reason] || stats.lost_ns[reason])
            return false;
    return stats.clock != EP_CLOCK_PERF && stats.clock_error == (uint64_t)error &&
           receiver.told[STATS_CLOCK_ERROR] == (uint64_t)error;
}

static int refused(int error)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_perf_event_open, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {sizeof code / sizeof *code, code};

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        return SKIPPED;
    ASSERT_RATIO(account_here(), 0.96, 1.01);
    return gave_way(error) ? PASSED : FAILED;
}

/* A container's filter of system calls. */
static int refused_eperm(void)
{
    return refused(EPERM);
}

/* What perf_event_paranoid 3 and security modules answer. */
static int refused_eacces(void)
{
    return refused(EACCES);
}

/* Debian's kernels refuse at 3; others know no level above 2. The setting is the whole machine's, so a variable asks.
 */
static int refused_paranoid(void)
{
    if (!getenv("PARANOID"))
        return SKIPPED;
    int fd = open("/proc/sys/kernel/perf_event_paranoid", O_WRONLY | O_CLOEXEC);
    assert_int_equal(write(fd, "3", 1), 1);
    (void)close(fd);
    assert_int_equal(setuid(65534), 0);
    assert_int_equal(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0), 0); /* setuid() took /proc/self away */
    assert_false(permitted());
    ASSERT_RATIO(account_here(), 0.96, 1.01);
    return gave_way(EACCES) ? PASSED : FAILED;
}

/* A kernel without perf events. */
static int refused_enosys(void)
{
    return refused(ENOSYS);
}

static int few_descriptors(void)
{
    const struct rlimit limit = {256, 256};

    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    ASSERT_RATIO(account_here(), 0.96, 1.01);
    return gave_way(EMFILE) ? PASSED : FAILED;
}

/* There is room at the start and none later: threads that come then have timers. */
static int descriptors_used_up(void)
{
    const struct rlimit limit = {600, 600};
    uint64_t cpu;

    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    begin(RATE, &cpu);
    assert_int_equal(stats.clock, EP_CLOCK_PERF);
    while (open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0) {
    }
    crew(2, 200);
    for (int fd = 20; fd < 250; fd++)
        (void)close(fd);
    ASSERT_RATIO(end(cpu), 0.96, 1.01);
    return stats.clock_error == EMFILE ? PASSED : FAILED;
}

static int small_queue(void)
{
    const struct rlimit limit = {100, 100};

    assert_int_equal(setrlimit(RLIMIT_SIGPENDING, &limit), 0);
    ASSERT_RATIO(account_here(), 0.96, 1.01);
    return gave_way(EAGAIN) ? PASSED : FAILED;
}

/* Other signals fill the queue after the start, so that the kernel sends SIGIO for the ticks. */
static int queue_fills(void)
{
    sigset_t set;
    uint64_t cpu;

    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGRTMAX - 1);
    assert_int_equal(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
    begin(RATE, &cpu);
    assert_int_equal(stats.clock, EP_CLOCK_PERF);
    while (sigqueue(getpid(), SIGRTMAX - 1, (union sigval){0}) == 0) {
    }
    assert_int_equal(errno, EAGAIN);
    burn(400 * MS); /* its ticks cannot be queued */
    crew(2, 100);
    ASSERT_RATIO(end(cpu), 0.90, 1.01);
    return PASSED;
}

/* The program closes what it did not open, and uses the numbers for files of its own. */
static int program_closes(void)
{
    uint64_t cpu;
    unsigned opened = 0;
    int fd;

    begin(RATE, &cpu);
    for (fd = 20; fd < 1000; fd++)
        (void)close(fd);
    while (opened < 900 && (fd = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
        opened++;
    burn(300 * MS);
    crew(2, 100);
    ASSERT_RATIO(end(cpu), 0.90, 1.01);
    for (fd = 20; fd < 900; fd++)
        if (fcntl(fd, F_GETFD) < 0)
            return FAILED; /* one of the program's files is closed */
    return PASSED;
}

/* A child of fork() does not disturb its parent's events. */
static int forks(void)
{
    uint64_t cpu;

    begin(RATE, &cpu);
    for (unsigned i = 0; i < 20; i++) {
        pid_t child = fork();
        if (child == 0)
            _exit(fcntl(512, F_GETFD) < 0 ? 0 : 1); /* the lowest of edgeprof's descriptors */
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
        burn(20 * MS);
    }
    crew(1, 400);
    ASSERT_RATIO(end(cpu), 0.97, 1.01);
    return stats.clock == EP_CLOCK_PERF && stats.samples > 800 * RATE / 1000 / 2 ? PASSED : FAILED;
}

static void in_child(int (*scene)(void))
{
    int status;
    (void)fflush(stdout);
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        int result = scene();
        (void)fflush(stdout);
        _exit(result);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status)); /* above all, no SIGIO has ended it */
    if (WEXITSTATUS(status) == SKIPPED)
        skip();
    assert_int_equal(WEXITSTATUS(status), PASSED);
}

/* Each scene is a test in a child of its own. */
#define SCENE(name)                                                                                                    \
    TEST(test_##name)                                                                                                  \
    {                                                                                                                  \
        in_child(name);                                                                                                \
    }
SCENE(refused_eperm)
SCENE(refused_eacces)
SCENE(refused_enosys)
SCENE(refused_paranoid)
SCENE(few_descriptors)
SCENE(descriptors_used_up)
SCENE(small_queue)
SCENE(queue_fills)
SCENE(program_closes)
SCENE(forks)

/* ---- in this process ---- */

TEST(test_totals)
{
    ASSERT_RATIO(account_crew(1, 4, 400), 0.99, 1.01);
    assert_int_equal(stats.clock, EP_CLOCK_PERF);
    assert_int_equal(stats.clock_error, 0);
    ASSERT_RATIO(account_crew(20, 10, 5), 0.985, 1.01);
}

/* Samples for each second of CPU time, of those asked for. */
static double held(uint32_t rate)
{
    uint64_t cpu;

    begin(rate, &cpu);
    crew(2, 1000);
    assert_true(end(cpu) > 0.9);
    return (double)stats.samples * 1e9 / (double)(stats.weight_ns + stats.thread_exit_ns) / rate;
}

TEST(test_rates_above_ticks)
{
    ASSERT_RATIO(held(251), 0.95, 1.02); /* the rest was in the kernel */
    ASSERT_RATIO(held(997), 0.95, 1.02);
}

/* ---- a program in step with the period ---- */

#define STEP_RATE 97

static void burn_step(const char *name, uint64_t until)
{
    uint64_t now = clock_ns(CLOCK_THREAD_CPUTIME_ID);

    assert_int_equal(ep_tag_push("step", name), 0);
    if (now < until)
        burn_by(until - now, 20000);
    ep_tag_pop();
}

/* Each period's last quarter is another function: samples at the period's multiples would find one of the two. */
TEST(test_in_step)
{
    const uint64_t period = 1000000000u / STEP_RATE;
    uint64_t cpu;

    begin(STEP_RATE, &cpu);
    tagged_begin("step=", "step=last");
    uint64_t at = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    for (unsigned i = 0; i < 4 * STEP_RATE; i++, at += period) {
        burn_step("first", at + period * 3 / 4);
        burn_step("last", at + period);
    }
    assert_true(end(cpu) > 0.9);
    ASSERT_RATIO(tagged_share(), 0.12, 0.40);
}

/* The time in the kernel as told, of what calls took; what perf events take is in it, too. getrusage() would not do:
 * it divides CPU time by ticks. */
static double told_in_kernel(void)
{
    static char bytes[1 << 20];
    int fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    uint64_t cpu, system = 0;

    begin(997, &cpu);
    uint64_t now, until = clock_ns(CLOCK_THREAD_CPUTIME_ID) + 600 * MS;
    do {
        uint64_t start = clock_ns(CLOCK_THREAD_CPUTIME_ID);
        for (unsigned i = 0; i < 20; i++)
            assert_int_equal(read(fd, bytes, sizeof bytes), sizeof bytes);
        now = clock_ns(CLOCK_THREAD_CPUTIME_ID);
        system += now - start;
        burn_by(MS / 10, 20000);
    } while (now < until);
    assert_true(end(cpu) > 0.95);
    (void)close(fd);
    return (double)receiver.special_ns[FRAME_KERNEL] / (double)system;
}

TEST(test_time_in_kernel)
{
    ASSERT_RATIO(told_in_kernel(), 0.85, 1.25);
}

int main(void)
{
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    if (!permitted()) {
        print_message("perf events are not permitted here\n");
        return 0;
    }
    return test_run();
}
