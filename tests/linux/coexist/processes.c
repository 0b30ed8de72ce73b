/*
 * Children and executed programs.
 */
#include "kinds.h"

#include <linux/sched.h>
#include <spawn.h>
#include <sys/ptrace.h>

#define STACK 65536u

extern char **environ;

static char self[] = "/proc/self/exe", child_word[] = "--child";
static char *const child_words[] = {self, child_word, NULL};

static unsigned char *child_stack(void)
{
    static _Alignas(64) unsigned char stack[STACK];

    return stack + sizeof stack;
}

/* ---- forms of fork ---- */

static int vforks(void)
{
    for (unsigned i = 0; i < 30; i++) {
        const pid_t child = vfork();
        if (child == 0)
            _exit(7);
        kinds_burn(5);
        if (kinds_wait(child) != 7)
            return KINDS_FAILED;
    }
    return KINDS_DONE;
}

static int vforks_and_executes(void)
{
    kinds_burn(50);
    const pid_t child = vfork();
    if (child == 0) {
        (void)execv(self, child_words);
        _exit(8);
    }
    kinds_say("%d\n", kinds_wait(child));
    return KINDS_DONE;
}

static int work_as_child(void *ms)
{
    for (volatile int i = 0; i < 40000000; i++) {
    }
    return (int)(intptr_t)ms;
}

static int clones(int flags)
{
    kinds_burn(50);
    const pid_t child = clone(work_as_child, child_stack(), flags, (void *)(intptr_t)9);
    kinds_burn(50);
    kinds_say("%d\n", kinds_wait(child));
    kinds_burn(50);
    return KINDS_DONE;
}

static int clones_vm(void)
{
    return clones(CLONE_VM | SIGCHLD);
}

static int clones_vm_vfork(void)
{
    return clones(CLONE_VM | CLONE_VFORK | SIGCHLD);
}

/* Shares all but the thread group: LinuxThreads, Go's early children. */
static int clones_all(void)
{
    return clones(CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | SIGCHLD);
}

static int clones_without_signal(void)
{
    return clones(0);
}

/* No function of the C library: no handlers of pthread_atfork(). */
static int forks_raw(void)
{
    kinds_burn(50);
#if defined __aarch64__ || defined __arm__ || defined __x86_64__
    const long child = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
#endif
    if (child == 0) {
        kinds_burn(150);
        kinds_say("child\n");
        exit(6);
    }
    kinds_say("%d\n", kinds_wait((int)child));
    return KINDS_DONE;
}

static int forks_raw3(void)
{
    struct clone_args args = {.exit_signal = SIGCHLD};

    kinds_burn(50);
    const long child = syscall(SYS_clone3, &args, sizeof args);
    if (child < 0)
        return KINDS_CANNOT;
    if (child == 0) {
        kinds_burn(150);
        _exit(6);
    }
    kinds_say("%d\n", kinds_wait((int)child));
    return KINDS_DONE;
}

static void *fork_and_execute(void *unused)
{
    for (unsigned i = 0; i < 5; i++) {
        const pid_t child = fork();
        if (child == 0) {
            (void)execv(self, child_words);
            _exit(8);
        }
        if (kinds_wait(child) != 5)
            kinds_fail("child");
    }
    return unused;
}

static int forks_in_threads(void)
{
    pthread_t threads[4];

    kinds_burn_beside();
    for (unsigned i = 0; i < 4; i++)
        if (pthread_create(&threads[i], NULL, fork_and_execute, NULL) != 0)
            return KINDS_FAILED;
    for (unsigned i = 0; i < 4; i++)
        (void)pthread_join(threads[i], NULL);
    return KINDS_DONE;
}

static atomic_int forked, forked_wrong;

static void fork_in_handler(int signal)
{
    (void)signal;
    const pid_t child = fork();
    if (child == 0)
        _exit(3);
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 3 << 8)
        (void)atomic_fetch_add(&forked_wrong, 1);
    (void)atomic_fetch_add(&forked, 1);
}

static int forks_in_handler(void)
{
    const struct itimerval ms10 = {{0, 10000}, {0, 10000}}, never = {{0, 0}, {0, 0}};

    (void)signal(SIGALRM, fork_in_handler);
    (void)setitimer(ITIMER_REAL, &ms10, NULL);
    kinds_burn(400);
    (void)setitimer(ITIMER_REAL, &never, NULL);
    kinds_say("%s %d\n", atomic_load(&forked) > 3 ? "many" : "few", atomic_load(&forked_wrong));
    return KINDS_DONE;
}

/* A daemon: two forks, a session of its own, no descriptors. It answers by a pipe. */
static int daemonizes(void)
{
    int ends[2];
    char answer[16] = {0};

    kinds_burn(50);
    if (pipe(ends) != 0)
        return KINDS_FAILED;
    if (fork() == 0) {
        (void)setsid();
        if (fork() != 0)
            _exit(0);
        (void)!chdir("/");
        for (int fd = 0; fd < 3; fd++)
            (void)close(fd);
        (void)open("/dev/null", O_RDWR), (void)!dup(0), (void)!dup(0);
        kinds_burn(150);
        (void)!write(ends[1], "alive", 5);
        exit(0);
    }
    (void)close(ends[1]);
    if (read(ends[0], answer, sizeof answer - 1) < 0 || read(ends[0], answer + 8, 1) != 0)
        return KINDS_FAILED;
    kinds_say("%s\n", answer);
    return KINDS_DONE;
}

static int many_children(void)
{
    unsigned right = 0;

    kinds_burn(50);
    for (unsigned i = 0; i < 100; i++) {
        const pid_t child = fork();
        if (child == 0)
            exit((int)i);
        right += kinds_wait(child) == (int)i;
    }
    kinds_say("%u\n", right);
    return KINDS_DONE;
}

static int grandchildren(void)
{
    int status, ended = 0;

    (void)prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    for (unsigned i = 0; i < 5; i++)
        if (fork() == 0) {
            if (fork() == 0) {
                kinds_burn(150);
                _exit(1);
            }
            _exit(2);
        }
    while (waitpid(-1, &status, __WALL) > 0)
        ended++;
    kinds_say("%d\n", ended);
    return KINDS_DONE;
}

static atomic_int before_fork, after_fork;

static void at_prepare(void)
{
    (void)atomic_fetch_add(&before_fork, 1);
}

static void at_parent(void)
{
    (void)atomic_fetch_add(&after_fork, 1);
}

static int handlers_of_fork(void)
{
    (void)pthread_atfork(at_prepare, at_parent, at_parent);
    (void)!system("exit 3");
    kinds_burn(50);
    const pid_t child = fork();
    if (child == 0)
        _exit(atomic_load(&after_fork));
    kinds_say("%d ", kinds_wait(child));
    kinds_say("%d %d\n", atomic_load(&before_fork), atomic_load(&after_fork));
    FILE *shell = popen("echo shell", "r");
    char line[16] = "";
    if (!shell || !fgets(line, sizeof line, shell))
        return KINDS_FAILED;
    kinds_say("%s%d\n", line, pclose(shell));
    return KINDS_DONE;
}

static int spawns(void)
{
    posix_spawnattr_t attributes;
    sigset_t all, none;
    pid_t child;

    (void)sigfillset(&all), (void)sigemptyset(&none);
    (void)posix_spawnattr_init(&attributes);
    (void)posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
    (void)posix_spawnattr_setsigdefault(&attributes, &all);
    (void)posix_spawnattr_setsigmask(&attributes, &none);
    for (unsigned i = 0; i < 5; i++) {
        kinds_burn(20);
        if (posix_spawn(&child, self, NULL, &attributes, child_words, environ) != 0)
            return KINDS_FAILED;
        kinds_say("%d\n", kinds_wait(child));
    }
    return KINDS_DONE;
}

/* ---- forms of exec ---- */

static int executes(void)
{
    kinds_burn(100);
    return execv(self, child_words);
}

static int executes_by_descriptor(void)
{
    kinds_burn(100);
    return fexecve(open(self, O_RDONLY | O_CLOEXEC), child_words, environ);
}

static int executes_at(void)
{
    kinds_burn(100);
    return (int)syscall(SYS_execveat, open(self, O_RDONLY | O_CLOEXEC), "", child_words, environ, 0x1000);
}

static void *execute_here(void *unused)
{
    kinds_burn(100);
    (void)execv(self, child_words);
    return unused;
}

static int executes_in_thread(void)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, execute_here, NULL) != 0)
        return KINDS_FAILED;
    for (;;)
        kinds_burn(1000);
}

static int executes_without_environment(void)
{
    static char *none[] = {NULL};

    kinds_burn(100);
    return execve(self, child_words, none);
}

static int executes_blocked(void)
{
    sigset_t all;

    kinds_burn(100);
    (void)sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, NULL);
    kinds_burn(100);
    return execv(self, child_words);
}

static int cannot_execute(void)
{
    static char missing[] = "/nonexistent/program";
    unsigned refused = 0;

    for (unsigned i = 0; i < 10; i++) {
        refused += execv(missing, child_words) == -1;
        kinds_burn(20);
    }
    kinds_say("%u\n", refused);
    return KINDS_DONE;
}

/* ---- tracing ---- */

static int traces_child(void)
{
    int status, stops = 0;
    const pid_t child = fork();

    if (child == 0) {
        (void)ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        (void)raise(SIGSTOP);
        kinds_burn(150);
        _exit(6);
    }
    if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status))
        return KINDS_FAILED;
    do {
        const int signal = WIFSTOPPED(status) && WSTOPSIG(status) != SIGSTOP ? WSTOPSIG(status) : 0;
        if (ptrace(PTRACE_CONT, child, NULL, (void *)(intptr_t)signal) != 0 || waitpid(child, &status, 0) != child)
            return KINDS_FAILED;
        stops++;
    } while (!WIFEXITED(status) && !WIFSIGNALED(status));
    kinds_say("%d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
    return KINDS_DONE;
}

static int traces_executed(void)
{
    int status;
    const pid_t child = fork();

    if (child == 0) {
        (void)ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        (void)execv(self, child_words);
        _exit(8);
    }
    while (waitpid(child, &status, 0) == child && WIFSTOPPED(status)) {
        const int signal = WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status);
        (void)ptrace(PTRACE_CONT, child, NULL, (void *)(intptr_t)signal);
    }
    kinds_say("%d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
    return KINDS_DONE;
}

/* A child looks at its parent, as crash reporters do. */
static int traced_by_child(void)
{
    int status;

    kinds_burn(100);
    (void)prctl(PR_SET_PTRACER, -1L, 0, 0, 0);
    const pid_t parent = getpid(), child = fork();
    if (child == 0) {
        if (ptrace(PTRACE_ATTACH, parent, NULL, NULL) != 0)
            _exit(KINDS_CANNOT);
        if (waitpid(parent, &status, 0) != parent)
            _exit(2);
        (void)ptrace(PTRACE_DETACH, parent, NULL, NULL);
        _exit(1);
    }
    kinds_burn(150);
    kinds_say("%d\n", kinds_wait(child));
    return KINDS_DONE;
}

/* As a sandbox does that looks whether somebody traces it. */
static int asks_for_tracer(void)
{
    char line[128];
    FILE *file = fopen("/proc/self/status", "r");

    kinds_burn(100);
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, "TracerPid", 9) == 0)
            kinds_say("%s", line);
    kinds_say("%d\n", ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0);
    kinds_burn(0);
    return KINDS_DONE;
}

const struct kinds_form kinds_processes[] = {
    {"vfork", vforks},
    {"vfork-exec", vforks_and_executes},
    {"clone-vm", clones_vm},
    {"clone-vm-vfork", clones_vm_vfork},
    {"clone-all", clones_all},
    {"clone-without-signal", clones_without_signal},
    {"fork-raw", forks_raw},
    {"fork-raw3", forks_raw3},
    {"fork-in-threads", forks_in_threads},
    {"fork-in-handler", forks_in_handler},
    {"daemon", daemonizes},
    {"many-children", many_children},
    {"grandchildren", grandchildren},
    {"handlers-of-fork", handlers_of_fork},
    {"spawn", spawns},
    {"exec", executes},
    {"exec-descriptor", executes_by_descriptor},
    {"exec-at", executes_at},
    {"exec-in-thread", executes_in_thread},
    {"exec-without-environment", executes_without_environment},
    {"exec-blocked", executes_blocked},
    {"exec-fails", cannot_execute},
    {"traces-child", traces_child},
    {"traces-executed", traces_executed},
    {"traced-by-child", traced_by_child},
    {"asks-for-tracer", asks_for_tracer},
    {0},
};
