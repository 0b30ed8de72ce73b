/*
 * fork and exec while the profiler runs, and modules that are loaded and unloaded. The program is also its own exec
 * target: `linux_process exec-target` burns CPU and exits with 0, `linux_process setuid-target` tells which environment
 * the library sees.
 */
#include "linux_test.h"

#include <sys/auxv.h>

#define RATE 1000

static const char *program;

static void assert_exit(pid_t child)
{
    int status;

    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        print_error("child: %s %d\n", WIFSIGNALED(status) ? "signal" : "exit",
                    WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* In the child: nothing runs, nothing is sampled, and it can start its own profiler. Returns 0, or a code of the failed
 * check. */
static int child_of_fork(void)
{
    struct ep_stats s;

    if (mprotect(profile_memory, EP_MEMORY_DEFAULT, PROT_NONE) != 0) /* any access crashes */
        return 1;
    burn(60 * MS);
    if (ep_flush() != -ESRCH || ep_stop(0) != -ESRCH)
        return 2;
    receiver_reset();
    uint64_t cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    if (begin_profile(RATE, 100) != 0)
        return 3;
    burn(150 * MS);
    if (end_profile(2000) != 0 || ep_stats_get(&s) != 0)
        return 4;
    uint64_t used = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    if (receiver.broken || receiver.ns < used / 2 || receiver.ns > used * 3 / 2)
        return 5;
    return s.samples > 5 ? 0 : 6;
}

static double fork_and_account(void)
{
    receiver_reset();
    uint64_t cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    assert_int_equal(begin_profile(RATE, 100), 0);
    for (unsigned i = 0; i < 4; i++) {
        burn(40 * MS);
        pid_t child = fork();
        if (child == 0)
            _exit(child_of_fork());
        assert_exit(child);
        burn(40 * MS);
    }
    assert_int_equal(end_profile(2000), 0);
    return accounted(cpu);
}

TEST(test_fork)
{
    ASSERT_RATIO(fork_and_account(), 0.98, 1.005);
}

/* The child's own profiler accounts for all of its CPU time. */
static int child_since_fork(void)
{
    struct ep_stats s;

    burn(60 * MS);
    receiver_reset();
    uint64_t start = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    if (begin_profile_with(RATE, 100, EP_SINCE_FORK | EP_CLOCK_TIMERS) != 0)
        return 3;
    start = clock_ns(CLOCK_THREAD_CPUTIME_ID) - start;
    burn(150 * MS);
    if (end_profile(2000) != 0)
        return 4;
    uint64_t used = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - start;
    if (ep_stats_get(&s) != 0)
        return 6;
    used -= s.collect_cpu_ns + s.deliver_cpu_ns;
    return receiver.ns < used * 95 / 100 || receiver.ns > used * 102 / 100 ? 5 : 0;
}

TEST(test_since_fork)
{
    receiver_reset();
    assert_int_equal(begin_profile(RATE, 100), 0);
    pid_t child = fork();
    if (child == 0)
        _exit(child_since_fork());
    assert_exit(child);
    assert_int_equal(end_profile(2000), 0);
}

static void *burner(void *argument)
{
    (void)argument;
    for (;;)
        burn(MS);
    return NULL;
}

/* exec in a profiled process with busy threads: a pending signal does not kill the new program. */
TEST(test_exec)
{
    for (unsigned i = 0; i < 30; i++) {
        pid_t child = fork();
        if (child == 0) {
            pthread_t thread;
            if (begin_profile(RATE, 100) != 0)
                _exit(9);
            for (unsigned t = 0; t < 3; t++)
                (void)pthread_create(&thread, NULL, burner, NULL);
            burn((5 + i % 5) * MS);
            (void)execl(program, program, "exec-target", (char *)NULL);
            _exit(8);
        }
        assert_exit(child);
    }
}

enum { SEES_NOTHING = 20, SEES_VARIABLE, NOT_PRIVILEGED };

static int setuid_target(void)
{
    struct ep_config config = {0};

    if (!getauxval(AT_SECURE))
        return NOT_PRIVILEGED;
    return ep_port_env("EDGEPROF_ENDPOINT") || ep_config_from_env(&config) != 0 ? SEES_VARIABLE : SEES_NOTHING;
}

static void copy_program(const char *path)
{
    static char block[65536];
    int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), to = open(path, O_WRONLY | O_CREAT | O_EXCL, 0755);
    ssize_t size;

    assert_true(from >= 0 && to >= 0);
    while ((size = read(from, block, sizeof block)) > 0)
        assert_int_equal(write(to, block, (size_t)size), size);
    assert_int_equal(size, 0);
    (void)close(from);
    (void)close(to);
}

/* A setuid program must not let its caller choose where profiles go, or a file that it reads. */
TEST(test_setuid_program_ignores_the_environment)
{
    char path[] = "/tmp/edgeprof-setuid-XXXXXX/target", *slash = strrchr(path, '/');
    int status;

    if (geteuid() != 0)
        skip();
    *slash = 0;
    assert_non_null(mkdtemp(path));
    assert_int_equal(chmod(path, 0755), 0);
    *slash = '/';
    copy_program(path);
    assert_int_equal(chown(path, 65534, 65534), 0);
    assert_int_equal(chmod(path, 04755), 0);
    pid_t child = fork();
    if (child == 0) {
        (void)setenv("EDGEPROF_ENDPOINT", "http://127.0.0.1:9", 1);
        (void)execl(path, path, "setuid-target", (char *)NULL);
        _exit(8);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    (void)unlink(path);
    *slash = 0;
    (void)rmdir(path);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == NOT_PRIVILEGED) /* /tmp is nosuid */
        skip();
    assert_int_equal(WEXITSTATUS(status), SEES_NOTHING);
}

/* ---- modules ---- */

static atomic_bool enough;

static void *stormer(void *argument)
{
    static const char *const names[] = {"libdw.so.1",      "libelf.so.1",  "libz.so.1",
                                        "libbz2.so.1.0",   "liblzma.so.5", "libresolv.so.2",
                                        "libnss_dns.so.2", "libutil.so.1", "librt.so.1"};
    unsigned opened = 0;

    for (unsigned i = 0; !atomic_load(&enough); i++) {
        void *library = dlopen(names[i % (sizeof names / sizeof names[0])], RTLD_NOW | RTLD_LOCAL);
        burn(MS / 2);
        if (library) {
            opened++;
            (void)dlclose(library);
        }
    }
    *(unsigned *)argument = opened;
    return NULL;
}

/* The collect thread must not sleep until the interval ends before it looks for the module. */
TEST(test_dlopen_is_seen_at_once)
{
    static unsigned char from[30000];
    static char to[50000];
    struct ep_stats before, after;

    receiver_reset();
    assert_int_equal(begin_profile(RATE, 60000), 0);
    sleep_ms(20);
    assert_int_equal(ep_stats_get(&before), 0);
    void *library = dlopen("libresolv.so.2", RTLD_NOW | RTLD_LOCAL);
    assert_non_null(library);
    void *symbol = dlsym(library, "__b64_ntop");
    assert_non_null(symbol);
    int (*encode)(const unsigned char *, size_t, char *, size_t);
    memcpy(&encode, &symbol, sizeof encode);
    for (uint64_t end = clock_ns(CLOCK_THREAD_CPUTIME_ID) + 400 * MS; clock_ns(CLOCK_THREAD_CPUTIME_ID) < end;)
        assert_int_equal(encode(from, sizeof from, to, sizeof to), sizeof from / 3 * 4);
    assert_int_equal(end_profile(5000), 0);
    assert_int_equal(ep_stats_get(&after), 0);
    print_message("             %llu of %llu stacks cut\n", (unsigned long long)(after.cut - before.cut),
                  (unsigned long long)(after.samples - before.samples));
    assert_true(after.samples - before.samples > 20);
    assert_true((after.cut - before.cut) * 10 < after.samples - before.samples);
    (void)dlclose(library);
}

TEST(test_dlopen_storm)
{
    pthread_t threads[2];
    unsigned opened[2];
    struct ep_stats s;

    receiver_reset();
    assert_int_equal(begin_profile(RATE, 100), 0);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, stormer, &opened[i]), 0);
    for (unsigned i = 0; i < 20; i++) {
        burn(20 * MS);
        (void)ep_flush();
        sleep_ms(30);
    }
    atomic_store(&enough, true);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(end_profile(5000), 0);
    assert_int_equal(ep_stats_get(&s), 0);
    assert_null(receiver.broken);
    assert_true(opened[0] > 20 && opened[1] > 20 && s.samples > 50);
    assert_true(s.lost_ns[EP_LOSS_RING_FULL] * 10 < s.weight_ns);
    print_message("             %u modules, %llu of %llu stacks exact\n", s.modules, (unsigned long long)s.exact,
                  (unsigned long long)s.samples);
    if (sizeof(uintptr_t) > 4) /* 32-bit glibc has no tables: stacks end in its dynamic linker */
        assert_true(s.exact * 10 > s.samples * 9);
}

int main(int argc, char **argv)
{
    program = argv[0];
    if (argc > 1 && strcmp(argv[1], "exec-target") == 0) {
        burn(20 * MS);
        return 0;
    }
    if (argc > 1 && strcmp(argv[1], "setuid-target") == 0)
        _exit(setuid_target()); /* a leak check at exit cannot trace a setuid program */
    return test_run();
}
