/*
 * Loaded into a server, at SIGUSR1: does what somebody could who has broken one of its parsers, and writes what the
 * kernel answers to the file of TRY_OUTPUT, which is open from the start. TRY_READ and TRY_WRITE name a file each. With
 * TRY_FILTER=ends the server has a filter that ends a process for its first call of landlock, as a systemd unit may
 * have; with TRY_FILTER=missing the kernel has no such call.
 */
#include "../program.h"

#include <linux/filter.h>
#include <linux/seccomp.h>

static const char *reading, *writing;
static int output;

static int result(int code)
{
    return code >= 0 ? 0 : errno;
}

static void try_all(int number)
{
    (void)number;
    int read_error = result(open(reading, O_RDONLY)), write_error = result(open(writing, O_WRONLY | O_CREAT, 0600));
    char *const arguments[] = {"/bin/true", NULL};
    execv(arguments[0], arguments);
    dprintf(output, "%d %d %d\n", read_error, write_error, errno);
}

static void set_filter(const char *kind)
{
    const unsigned missing = SECCOMP_RET_ERRNO | ENOSYS;
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0), /* the call's number */
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 444, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, strcmp(kind, "missing") == 0 ? missing : SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog filter = {.len = sizeof code / sizeof *code, .filter = code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) {
        _exit(99);
    }
}

__attribute__((constructor)) static void prepare(void)
{
    reading = getenv("TRY_READ");
    writing = getenv("TRY_WRITE");
    output = open(getenv("TRY_OUTPUT"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    signal(SIGUSR1, try_all);
    if (getenv("TRY_FILTER")) {
        set_filter(getenv("TRY_FILTER"));
    }
}
