/*
 * Rows of coexist.c: seccomp filters that kill, in the forms that programs use them. Each permits what the row itself
 * does, and no more. A row returns 4, and some of its work comes after the filter.
 */
#include "../../program.h"
#include "coexist.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>

#define DONE    4
#define LONGEST 100u

/* What the C library does to write a line and to end, and what a thread does at its end. */
static const int base[] = {SYS_read, SYS_write,  SYS_exit_group, SYS_exit,    SYS_rt_sigreturn,   SYS_restart_syscall,
                           SYS_brk,  SYS_munmap, SYS_futex,      SYS_madvise, SYS_rt_sigprocmask, SYS_close,
#ifdef SYS_mmap
                           SYS_mmap, SYS_fstat,  SYS_newfstatat,
#endif
                           -1};
static const int for_exec[] = {
    SYS_execve, SYS_openat,     SYS_mprotect,  SYS_pread64,   SYS_set_tid_address, SYS_set_robust_list,
    SYS_rseq,   SYS_prlimit64,  SYS_getrandom, SYS_faccessat,
#ifdef __x86_64__
    SYS_access, SYS_arch_prctl, SYS_readlink,  SYS_clone,
#endif
    -1};
static const int for_fork[] = {SYS_clone, SYS_wait4, SYS_set_robust_list, SYS_gettid, -1};
static const int nothing[] = {-1};

enum { BY_PRCTL, BY_SECCOMP, BY_TSYNC, BY_HAND };

static unsigned add_allowed(struct sock_filter *code, unsigned at, const int *calls)
{
    for (; *calls >= 0; calls++) {
        code[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)*calls, 0, 1);
        code[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    }
    return at;
}

/* A system call that no function of a library makes. */
static long by_hand(long number, long a, long b, const void *c)
{
#if defined __x86_64__
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
    return result;
#else
    return syscall(number, a, b, c);
#endif
}

static int set(int how, const struct sock_fprog *program)
{
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return -1;
    switch (how) {
    case BY_PRCTL:
        return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program, 0, 0);
    case BY_SECCOMP:
        return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, program);
    case BY_TSYNC:
        return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, program);
    default:
        return (int)by_hand(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, program);
    }
}

static void filter(int how, const int *more, uint32_t verdict)
{
    struct sock_filter code[LONGEST] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
    unsigned size = add_allowed(code, add_allowed(code, 1, base), more);

    code[size++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, verdict);
    const struct sock_fprog program = {.len = (unsigned short)size, .filter = code};
    if (set(how, &program) != 0) {
        perror("filter");
        exit(9);
    }
}

/* Permits all but one call, for which it gives an errno value. */
static void filter_mild(long call)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)call, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {.len = 4, .filter = code};

    if (set(BY_SECCOMP, &program) != 0)
        exit(9);
}

static int finish(void)
{
    coexist_count();
    (void)!write(1, "done\n", 5);
    return DONE;
}

/* ---- threads ---- */

static atomic_bool has_written;

static void write_there(void)
{
    atomic_store(&has_written, write(1, "in the thread\n", 14) == 14);
}

static void *filter_itself(void *unused)
{
    const int file = open("/tmp", O_TMPFILE | O_RDWR, 0600);

    coexist_count();
    filter(BY_PRCTL, nothing, SECCOMP_RET_KILL_PROCESS);
    coexist_count();
    (void)!write(file, "x", 1);
    write_there();
    return unused;
}

static void *strict_itself(void *unused)
{
    coexist_count();
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) != 0)
        exit(9);
    coexist_count();
    write_there();
    (void)syscall(SYS_exit, 0);
    return unused;
}

static void *work(void *unused)
{
    coexist_count();
    coexist_count();
    return unused;
}

static int beside(void *(*run)(void *))
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, run, NULL) != 0 || pthread_join(thread, NULL) != 0)
        return 9;
    if (!atomic_load(&has_written))
        return 8;
    return finish();
}

static int all_threads(void)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, work, NULL) != 0)
        return 9;
    coexist_count();
    filter(BY_TSYNC, nothing, SECCOMP_RET_KILL_PROCESS);
    if (pthread_join(thread, NULL) != 0)
        return 9;
    return finish();
}

/* ---- processes ---- */

/* A worker as sandboxes have: it gets and answers by a pipe, and its parent waits for the answer. */
static int worker(void (*confine)(void))
{
    int ends[2], status;
    char answer = 0;

    if (pipe(ends) != 0)
        return 9;
    const pid_t child = fork();
    if (child == 0) {
        coexist_count();
        confine();
        coexist_count();
        (void)!write(ends[1], "x", 1);
        (void)syscall(SYS_exit, 5);
    }
    (void)close(ends[1]);
    if (read(ends[0], &answer, 1) != 1 || answer != 'x' || waitpid(child, &status, 0) != child || !WIFEXITED(status) ||
        WEXITSTATUS(status) != 5)
        return 8;
    return finish();
}

static void confine_strictly(void)
{
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) != 0)
        exit(9);
}

static void confine_by_filter(void)
{
    filter(BY_SECCOMP, nothing, SECCOMP_RET_KILL_PROCESS);
}

static int execute(int how)
{
    coexist_count();
    if (how == BY_HAND && getenv("COEXIST_PRELOAD")) /* only what is executed has edgeprof */
        (void)setenv("LD_PRELOAD", getenv("COEXIST_PRELOAD"), 1);
    filter(how, for_exec, SECCOMP_RET_KILL_PROCESS);
    (void)execl("/proc/self/exe", "coexist", "filter-below", (char *)NULL);
    return 9;
}

static int fork_below(void)
{
    int status;

    coexist_count();
    filter(BY_PRCTL, for_fork, SECCOMP_RET_KILL_PROCESS);
    const pid_t child = fork();
    if (child == 0)
        exit(finish());
    if (wait4(child, &status, 0, NULL) != child || !WIFEXITED(status) || WEXITSTATUS(status) != DONE)
        return 8;
    return finish();
}

/* ---- calls that set nothing: what libraries ask to learn what the kernel has ---- */

static int ask_only(void)
{
    struct sock_filter endless[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0)}, kill[] = {BPF_STMT(BPF_RET | BPF_K, 0)};
    const struct sock_fprog invalid = {.len = 1, .filter = endless}, far = {.len = 9, .filter = (void *)8},
                            early = {.len = 1, .filter = kill};

    coexist_count();
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 1, NULL) == 0 ||
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, NULL) == 0 ||
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &far) == 0 ||
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0xff00, &early) == 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, (void *)16) == 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &invalid) == 0)
        return 9;
    return finish();
}

int coexist_filter(const char *row)
{
    const uint32_t end = SECCOMP_RET_KILL_PROCESS;

    if (strcmp(row, "filter-below") == 0)
        return finish();
    if (strcmp(row, "filter-all-threads") == 0)
        return all_threads();
    if (strcmp(row, "filter-thread") == 0)
        return beside(filter_itself);
    if (strcmp(row, "strict-thread") == 0)
        return beside(strict_itself);
    if (strcmp(row, "filter-worker") == 0)
        return worker(confine_by_filter);
    if (strcmp(row, "strict-worker") == 0)
        return worker(confine_strictly);
    if (strcmp(row, "filter-exec") == 0)
        return execute(BY_PRCTL);
    if (strcmp(row, "filter-exec-unseen") == 0)
        return execute(BY_HAND);
    if (strcmp(row, "filter-fork") == 0)
        return fork_below();
    if (strcmp(row, "filter-asked") == 0)
        return ask_only();
    coexist_count();
    if (strcmp(row, "filter-second") == 0)
        filter_mild(SYS_process_vm_readv);
    filter(strcmp(row, "filter-prctl") == 0 ? BY_PRCTL : BY_SECCOMP, nothing,
           strcmp(row, "filter-trap") == 0         ? SECCOMP_RET_TRAP
           : strcmp(row, "filter-end-thread") == 0 ? SECCOMP_RET_KILL_THREAD
                                                   : end);
    return finish();
}
