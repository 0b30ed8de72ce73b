/* See confine.h. The C library has no functions for landlock, and older kernel headers lack some of its constants:
 * those here are the kernel's, which never change. */
#include "tools/lib/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- files ---- */

enum { CREATE_RULESET = 444, ADD_RULE, RESTRICT_SELF }; /* the same numbers on every processor here */

enum { RULESET_VERSION = 1, PATH_BENEATH = 1, SCOPE_SIGNAL = 2 };

enum {
    EXECUTE = 1 << 0,
    WRITE_FILE = 1 << 1,
    READ_FILE = 1 << 2,
    READ_DIR = 1 << 3,
    REMOVE_DIR = 1 << 4,
    REMOVE_FILE = 1 << 5,
    MAKE_DIR = 1 << 7,
    MAKE_REG = 1 << 8,
    MAKE_ANY = 0x7f << 6, /* MAKE_CHAR to MAKE_SYM */
    REFER = 1 << 13,      /* since version 2 */
    TRUNCATE = 1 << 14,   /* 3 */
    IOCTL_DEV = 1 << 15,  /* 5 */
    OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV,
    READING = READ_FILE | READ_DIR,
    WRITING = WRITE_FILE | REMOVE_DIR | REMOVE_FILE | MAKE_ANY | REFER | TRUNCATE,
    ALLOWED = READING | WRITE_FILE | REMOVE_DIR | REMOVE_FILE | MAKE_DIR | MAKE_REG | REFER | TRUNCATE,
};

/* Version 1 forbids every rename to another folder. */
enum { LEAST_VERSION = 2, TRUNCATE_VERSION = 3, IOCTL_VERSION = 5, SIGNAL_VERSION = 6 };

struct ruleset_attributes {
    uint64_t files, network, scoped;
};

struct path_attributes {
    uint64_t allowed;
    int32_t folder;
} __attribute__((packed));

static long landlock_version(void)
{
    return syscall(CREATE_RULESET, NULL, (size_t)0, RULESET_VERSION);
}

int et_confine_begin(struct et_confine_rules *rules, bool reading, bool execute)
{
    long version = landlock_version();
    if (version < LEAST_VERSION) {
        return -ENOSYS;
    }
    int unlimited = (version < TRUNCATE_VERSION ? TRUNCATE : 0) | (version < IOCTL_VERSION ? IOCTL_DEV : 0) |
                    (execute ? EXECUTE : 0);
    rules->handled = (uint64_t)((WRITING | IOCTL_DEV | EXECUTE | (reading ? READING : 0)) & ~unlimited);
    struct ruleset_attributes attributes = {.files = rules->handled,
                                            .scoped = version < SIGNAL_VERSION ? 0 : SCOPE_SIGNAL};
    rules->ruleset = (int)syscall(CREATE_RULESET, &attributes, sizeof attributes, 0);
    return rules->ruleset < 0 ? -errno : 0;
}

int et_confine_allow(const struct et_confine_rules *rules, const char *path, enum et_confine_right right)
{
    struct stat status;
    int place = open(path, O_PATH | O_CLOEXEC);
    if (place < 0) {
        return errno == EMFILE || errno == ENFILE || errno == ENOMEM ? -errno : 0;
    }
    bool folder = fstat(place, &status) == 0 && S_ISDIR(status.st_mode);
    uint64_t rights = (uint64_t)(right == ET_CONFINE_WRITE ? ALLOWED : READING) & rules->handled;
    struct path_attributes attributes = {.allowed = folder ? rights : rights & OF_FILES, .folder = place};
    int err = syscall(ADD_RULE, rules->ruleset, PATH_BENEATH, &attributes, 0) == 0 ? 0 : -errno;
    if (err) {
        close(place);
    }
    return err == -EBADFD ? 0 : err; /* pipes and the like: landlock leaves them alone */
}

int et_confine_files(struct et_confine_rules *rules)
{
    bool done = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && syscall(RESTRICT_SELF, rules->ruleset, 0) == 0;
    int err = done ? 0 : -errno;
    close(rules->ruleset);
    rules->ruleset = -1;
    return err;
}

/* ---- system calls ---- */

/* Each fails for its arguments, or is not there. */
static _Noreturn void try_calls(void)
{
    (void)landlock_version();
    (void)syscall(ADD_RULE, -1, 0, NULL, 0);
    (void)syscall(RESTRICT_SELF, -1, 0);
    (void)syscall(SYS_seccomp, UINT32_MAX, 0, NULL);
    (void)prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0);
    _exit(0);
}

bool et_confine_possible(void)
{
    int status = 0;
    pid_t process = fork();
    if (process == 0) {
        try_calls();
    }
    while (process > 0 && waitpid(process, &status, 0) < 0 && errno == EINTR) {
    }
    return process > 0 && WIFEXITED(status);
}

#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#define HIGHEST_CALL 0x3fffffff /* above it x32's */
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#define HIGHEST_CALL 0x7fffffff
#elif defined(__arm__)
#define ARCHITECTURE AUDIT_ARCH_ARM
#define HIGHEST_CALL 0x7fffffff
#endif

/* A sanitizer's search for leaks stops the threads with ptrace(). */
#if !defined(__SANITIZE_ADDRESS__)
#define FORBIDDEN_TRACING SYS_ptrace, SYS_process_vm_writev,
#else
#define FORBIDDEN_TRACING
#endif

#if defined(__x86_64__)
#define FORBIDDEN_OF_PROCESSOR SYS_iopl, SYS_ioperm, SYS_modify_ldt,
#else
#define FORBIDDEN_OF_PROCESSOR
#endif

/* Numbers from 425 on are the same everywhere, and not in every header: io_uring_setup, _enter, _register; open_tree,
 * move_mount, fsopen, fsconfig, fsmount, fspick; pidfd_getfd; mount_setattr; quotactl_fd. */
static const unsigned forbidden[] = {
    FORBIDDEN_TRACING FORBIDDEN_OF_PROCESSOR SYS_mount,
    SYS_umount2,
    SYS_pivot_root,
    SYS_chroot,
    SYS_setns,
    SYS_unshare,
    SYS_swapon,
    SYS_swapoff,
    SYS_reboot,
    SYS_kexec_load,
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_bpf,
    SYS_perf_event_open,
    SYS_userfaultfd,
    SYS_add_key,
    SYS_request_key,
    SYS_keyctl,
    SYS_acct,
    SYS_quotactl,
    SYS_syslog,
    SYS_settimeofday,
    SYS_clock_settime,
    SYS_adjtimex,
    SYS_clock_adjtime,
    SYS_sethostname,
    SYS_setdomainname,
    SYS_open_by_handle_at,
    SYS_fanotify_init,
    SYS_kcmp,
    425,
    426,
    427,
    428,
    429,
    430,
    431,
    432,
    433,
    438,
    442,
    443,
};

static const unsigned starting_programs[] = {SYS_execve, SYS_execveat};

/* What is not a call of this processor is left out. Memory: malloc(). sysinfo: qsort(). */
static const unsigned computing[] = {
    SYS_read,
    SYS_write,
    SYS_pread64,
    SYS_lseek,
    SYS_recvfrom,
    SYS_sendto,
    SYS_close,
    SYS_munmap,
    SYS_mremap,
    SYS_mprotect,
    SYS_madvise,
    SYS_brk,
    SYS_futex,
    SYS_sched_yield,
    SYS_rt_sigaction,
    SYS_rt_sigprocmask,
    SYS_rt_sigreturn,
    SYS_sigaltstack,
    SYS_exit,
    SYS_exit_group,
    SYS_getpid,
    SYS_gettid,
    SYS_getrandom,
    SYS_sysinfo,
    SYS_clock_gettime,
    SYS_restart_syscall,
#ifdef SYS_mmap
    SYS_mmap,
#endif
#ifdef SYS_mmap2
    SYS_mmap2,
#endif
#ifdef SYS_fstat
    SYS_fstat,
#endif
#ifdef SYS_fstat64
    SYS_fstat64,
#endif
#ifdef SYS_newfstatat
    SYS_newfstatat,
#endif
#ifdef SYS_fstatat64
    SYS_fstatat64,
#endif
#ifdef SYS_statx
    SYS_statx,
#endif
#ifdef SYS_recv
    SYS_recv,
    SYS_send,
#endif
#ifdef SYS_clock_gettime64
    SYS_clock_gettime64,
#endif
#ifdef SYS__llseek
    SYS__llseek,
#endif
#ifdef SYS_sigreturn
    SYS_sigreturn,
#endif
};

enum {
    FORBIDDEN = sizeof forbidden / sizeof *forbidden,
    STARTING = 2,
    COMPUTING = sizeof computing / sizeof *computing,
    FILTER = 8 + 2 * (FORBIDDEN + STARTING + COMPUTING)
};

struct filter {
    struct sock_filter code[FILTER];
    unsigned short size;
};

static void add_code(struct filter *filter, unsigned short code, unsigned value, unsigned char yes, unsigned char no)
{
    filter->code[filter->size++] = (struct sock_filter)BPF_JUMP(code, value, yes, no);
}

/* The next instruction refuses the call, if the test's result is `refused`. */
static void add_refusal(struct filter *filter, unsigned short test, unsigned value, bool refused)
{
    add_code(filter, BPF_JMP | test | BPF_K, value, !refused, refused);
    add_code(filter, BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM, 0, 0);
}

#ifdef ARCHITECTURE
/* The filter's begin: calls of another processor's kind are refused. */
static void begin_filter(struct filter *filter)
{
    add_code(filter, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch), 0, 0);
    add_refusal(filter, BPF_JEQ, ARCHITECTURE, false);
    add_code(filter, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr), 0, 0);
    add_refusal(filter, BPF_JGT, HIGHEST_CALL, true);
}

/* Older kernels slow a process with a filter down, as a guard for code that it runs for others: here is none. */
static int put_into_force(const struct filter *filter)
{
    struct sock_fprog program = {.len = filter->size, .filter = (struct sock_filter *)(uintptr_t)filter->code};
    bool done = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
                syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW, &program) == 0;
    return done ? 0 : -errno;
}

int et_confine_calls(bool execute)
{
    struct filter filter = {0};
    begin_filter(&filter);
    for (size_t i = 0; i < FORBIDDEN; i++) {
        add_refusal(&filter, BPF_JEQ, forbidden[i], true);
    }
    for (size_t i = 0; i < STARTING && !execute; i++) {
        add_refusal(&filter, BPF_JEQ, starting_programs[i], true);
    }
    add_code(&filter, BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0);
    return put_into_force(&filter);
}

int et_confine_to_computing(void)
{
    struct filter filter = {0};
    begin_filter(&filter);
    for (size_t i = 0; i < COMPUTING; i++) {
        add_code(&filter, BPF_JMP | BPF_JEQ | BPF_K, computing[i], 0, 1);
        add_code(&filter, BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0);
    }
    add_code(&filter, BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM, 0, 0);
    return put_into_force(&filter);
}
#else
int et_confine_calls(bool execute)
{
    (void)execute;
    return -ENOSYS;
}

int et_confine_to_computing(void)
{
    return -ENOSYS;
}
#endif
