/*
 * What a hook adds to a call that returns at once, in machine instructions and system calls: a parent single-steps a
 * child that makes each call by its name, which a preloaded library interposes, and by the C library's own function.
 * Prints "NAME INSTRUCTIONS SYSCALLS" for each call: what its name adds, the least of the repetitions,
 * because a stepped call becomes a sample the more often the slower the machine is.
 */
#include "../../program.h"

#include <sys/ptrace.h>
#include <sys/user.h>

#define TIMES      25u
#define STEPS_MOST 1000000u

typedef int poll_function(struct pollfd *events, nfds_t count, int timeout);
typedef ssize_t read_function(int fd, void *bytes, size_t size);
typedef int lock_function(pthread_mutex_t *lock);

static int ends[2];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

struct functions {
    poll_function *poll;
    read_function *read;
    lock_function *lock;
};

static void call_poll(const struct functions *functions)
{
    struct pollfd event = {.fd = ends[0], .events = POLLOUT}; /* is writable */

    (void)functions->poll(&event, 1, 1000);
}

static void call_read(const struct functions *functions)
{
    char byte;

    (void)functions->read(ends[0], &byte, 1);
}

static void call_lock(const struct functions *functions)
{
    (void)functions->lock(&mutex);
}

static const struct {
    const char *name;
    void (*call)(const struct functions *functions);
} calls[] = {{"poll", call_poll}, {"read", call_read}, {"lock", call_lock}};

#define CALLS (sizeof calls / sizeof calls[0])

static struct functions functions_of(void *library)
{
    const char *const names[] = {"poll", "read", "pthread_mutex_lock"};
    struct functions functions;
    void *found[3];

    for (unsigned i = 0; i < 3; i++)
        if (!(found[i] = dlsym(library, names[i])))
            _exit(2);
    memcpy(&functions, found, sizeof functions);
    return functions;
}

/* The child: stops before and after each call. */
static void make_calls(void)
{
    const struct functions both[] = {functions_of(RTLD_DEFAULT), functions_of(dlopen("libc.so.6", RTLD_NOW))};

    for (unsigned time = 0; time < TIMES; time++)
        for (unsigned i = 0; i < CALLS; i++)
            for (unsigned which = 0; which < 2; which++) {
                (void)raise(SIGSTOP);
                calls[i].call(&both[which]);
                (void)raise(SIGSTOP);
                (void)pthread_mutex_unlock(&mutex);
            }
}

/* Lets the child run to its next stop. */
static int proceed(pid_t child, bool step, int signal)
{
    int status;

    if (ptrace(step ? PTRACE_SINGLESTEP : PTRACE_CONT, child, NULL, (void *)(intptr_t)signal) != 0 ||
        waitpid(child, &status, 0) != child)
        exit(2);
    return WIFSTOPPED(status) ? WSTOPSIG(status) : 0;
}

static bool at_system_call(pid_t child)
{
    struct user_regs_struct registers;

    if (ptrace(PTRACE_GETREGS, child, NULL, &registers) != 0)
        exit(2);
    return (ptrace(PTRACE_PEEKTEXT, child, (void *)registers.rip, NULL) & 0xffff) == 0x050f;
}

/* Steps from one stop to the next. The profiler's own signals are delivered, and their handler counts. */
static void count(pid_t child, int *steps, int *system_calls)
{
    int signal = 0;

    *steps = *system_calls = 0;
    do {
        *system_calls += at_system_call(child);
        signal = proceed(child, true, signal == SIGTRAP ? 0 : signal);
        if (++*steps > (int)STEPS_MOST || signal == 0)
            exit(2);
    } while (signal != SIGSTOP);
}

static int least(const int *numbers)
{
    int found = numbers[0];

    for (unsigned i = 1; i < TIMES; i++)
        found = numbers[i] < found ? numbers[i] : found;
    return found;
}

/* From the stop behind a call to the one before the next call. */
static void skip_to_stop(pid_t child)
{
    int signal = 0;

    while ((signal = proceed(child, false, signal)) != SIGSTOP)
        if (signal == 0)
            exit(2);
}

int main(int argc, char **argv)
{
    static int steps[CALLS][2][TIMES], system_calls[CALLS][2][TIMES];

    if (argc > 1) {
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) != 0)
            return 2;
        make_calls();
        return 0;
    }
    pid_t child = fork();
    if (child == 0) {
        char *const arguments[] = {argv[0], "child", NULL};
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0)
            (void)execv("/proc/self/exe", arguments);
        _exit(2);
    }
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFSTOPPED(status)) /* the exec */
        return 2;
    for (unsigned time = 0; time < TIMES; time++)
        for (unsigned i = 0; i < CALLS; i++)
            for (unsigned which = 0; which < 2; which++) {
                skip_to_stop(child);
                count(child, &steps[i][which][time], &system_calls[i][which][time]);
            }
    for (unsigned i = 0; i < CALLS; i++)
        printf("%s %d %d\n", calls[i].name, least(steps[i][0]) - least(steps[i][1]),
               least(system_calls[i][0]) - least(system_calls[i][1]));
    (void)kill(child, SIGKILL);
    (void)waitpid(child, &status, 0);
    return 0;
}
