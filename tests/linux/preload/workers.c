/*
 * Programs that fork without exec, for tests/linux/preload/fork.py. Each prints what the kernel says about its
 * processes: "worker PID CPU_NS" on its standard output, just before the process ends.
 *
 *   workers FORM   ends, thread (forked by another thread), threads (the worker has threads), double, signal,
 *                  namespace (of processes, with exec), alone (one worker), crowd, lock (of the spool). Without a
 * signal each worker ends in another way: see worker() workers short, short_exec, short_kill   300 children of 1 ms,
 * which exit, exec and exit, or are killed; prints "used NS", the kernel's sum of all; short_busy: 30 of 50 ms
 */
#include "../../program.h"

#define WORKERS 4
#define MS      1000000ull

static const char *form;

/* Loops of their own, so that samples show which function runs. */
#define BURN(name)                                                                                                     \
    __attribute__((noipa)) static void name(uint64_t ns)                                                               \
    {                                                                                                                  \
        const uint64_t end = clock_ns(CLOCK_THREAD_CPUTIME_ID) + ns;                                                   \
        static _Thread_local volatile unsigned turns;                                                                  \
        while (clock_ns(CLOCK_THREAD_CPUTIME_ID) < end)                                                                \
            for (unsigned i = 0; i < 20000; i++)                                                                       \
                turns += i;                                                                                            \
    }
BURN(burn_three)
BURN(burn_one)

static int is(const char *name)
{
    return strcmp(form, name) == 0;
}

static void work(unsigned times)
{
    for (unsigned i = 0; i < times; i++) {
        burn_three(30 * MS);
        burn_one(10 * MS);
    }
}

static void *work_thread(void *argument)
{
    (void)argument;
    work(15);
    return NULL;
}

static void work_in_threads(void)
{
    pthread_t threads[2];

    for (unsigned i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, work_thread, NULL);
    for (unsigned i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
}

static void tell(void)
{
    char line[64];
    int size = snprintf(line, sizeof line, "worker %d %llu\n", (int)getpid(),
                        (unsigned long long)clock_ns(CLOCK_PROCESS_CPUTIME_ID));

    if (write(STDOUT_FILENO, line, (size_t)size) != size)
        _exit(9);
}

/* The first two end with 0, the others with 3; each second one skips what exit() does. */
static void worker(unsigned number)
{
    if (is("double")) {
        pid_t inner = fork();
        if (inner > 0) {
            work(10);
            waitpid(inner, NULL, 0);
        }
    }
    if (is("threads"))
        work_in_threads();
    else
        work(40);
    tell();
    if (is("signal"))
        raise(SIGKILL);
    if (number % 2)
        _exit(number < 2 ? 0 : 3);
    exit(number < 2 ? 0 : 3);
}

/* True if this process has a lock of a file. The library's is of the process: a child has the descriptor, not the lock.
 */
static bool holds_lock(void)
{
    char line[256], wanted[32];
    FILE *locks = fopen("/proc/locks", "r");
    bool found = false;

    snprintf(wanted, sizeof wanted, " %d ", (int)getpid());
    while (locks && fgets(line, sizeof line, locks))
        found |= strstr(line, "POSIX") && strstr(line, wanted);
    if (locks)
        fclose(locks);
    return found;
}

/* Creates a thread, so that the profiler's threads run and open the spool. */
static void *fork_with_spool(void *argument)
{
    (void)argument;
    for (unsigned i = 0; i < 100 && !holds_lock(); i++)
        usleep(50000);
    printf("lock %d ", holds_lock());
    if (fork() == 0) {
        printf("%d\n", holds_lock());
        work(8);
        printf("later %d\n", holds_lock());
        exit(0);
    }
    wait(NULL);
    return NULL;
}

static void *fork_workers(void *argument)
{
    pid_t pids[WORKERS];

    (void)argument;
    for (unsigned i = 0; i < WORKERS; i++) {
        pids[i] = fork();
        if (pids[i] == 0)
            worker(i);
    }
    for (unsigned i = 0; i < WORKERS; i++) {
        int status = 0;
        waitpid(pids[i], &status, 0);
        printf("status %d\n", status);
    }
    return NULL;
}

/* A program in a namespace of processes, whose /proc has the numbers of the one before. */
static void exec_in_namespace(void)
{
    if (unshare(CLONE_NEWPID) != 0)
        (void)!unshare(CLONE_NEWUSER | CLONE_NEWPID);
    if (fork() == 0) {
        (void)execl("/proc/self/exe", "workers", "alone", NULL);
        _exit(9);
    }
    (void)wait(NULL);
}

static unsigned entries(const char *path)
{
    DIR *folder = opendir(path);
    unsigned count = 0;

    while (folder && readdir(folder))
        count++;
    if (folder)
        closedir(folder);
    return count;
}

/* In a child: threads beyond one, and descriptors beyond the parent's. */
static int extra(unsigned threads, unsigned descriptors)
{
    return (entries("/proc/self/task") != threads) | (entries("/proc/self/fd") > descriptors) << 1;
}

static void fork_crowd(void)
{
    unsigned before = entries("/proc/self/fd"), with_threads = 0, with_descriptors = 0;
    uint64_t start = clock_ns(CLOCK_MONOTONIC);

    for (unsigned i = 0; i < 300; i++) {
        unsigned now = entries("/proc/self/fd"); /* the profiler's threads open and close connections */
        pid_t pid = fork();
        if (pid == 0) {
            burn_one(MS);
            _exit(extra(3, now)); /* ".", ".." and the one thread */
        }
        int status = 0;
        waitpid(pid, &status, 0);
        with_threads += (WEXITSTATUS(status) & 1) != 0;
        with_descriptors += (WEXITSTATUS(status) & 2) != 0;
    }
    printf("left %u %u\nextra %u %u\n", before, entries("/proc/self/fd"), with_threads, with_descriptors);
    printf("crowd %llu\n", (unsigned long long)(clock_ns(CLOCK_MONOTONIC) - start));
}

static uint64_t used_ns(int who)
{
    struct rusage used;

    getrusage(who, &used);
    return ((uint64_t)used.ru_utime.tv_sec + (uint64_t)used.ru_stime.tv_sec) * 1000000000u +
           ((uint64_t)used.ru_utime.tv_usec + (uint64_t)used.ru_stime.tv_usec) * 1000u;
}

static void short_child(char *program)
{
    if (is("short_exec"))
        execl(program, program, "one", (char *)NULL);
    burn_one(is("short_busy") ? 50 * MS : MS);
    if (is("short_kill"))
        raise(SIGKILL);
    exit(0);
}

static void fork_short(char *program)
{
    work(10);
    for (unsigned i = 0; i < (is("short_busy") ? 30 : 300); i++) {
        if (fork() == 0)
            short_child(program);
        wait(NULL);
    }
    printf("used %llu\n", (unsigned long long)(used_ns(RUSAGE_SELF) + used_ns(RUSAGE_CHILDREN)));
}

int main(int argc, char **argv)
{
    pthread_t thread;

    setvbuf(stdout, NULL, _IONBF, 0);
    form = argc > 1 ? argv[1] : "ends";
    if (is("one")) {
        burn_one(MS);
        return 0;
    }
    if (is("alone"))
        worker(0);
    if (is("namespace")) {
        exec_in_namespace();
    } else if (strncmp(form, "short", 5) == 0) {
        fork_short(argv[0]);
    } else if (is("crowd")) {
        fork_crowd();
    } else if (is("thread") || is("lock")) {
        pthread_create(&thread, NULL, is("lock") ? fork_with_spool : fork_workers, NULL);
        pthread_join(thread, NULL);
    } else {
        fork_workers(NULL);
    }
    tell();
    return 0;
}
