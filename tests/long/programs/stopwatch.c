/*
 * stopwatch FILE COMMAND [ARGUMENT...]: runs the command as if it had been started alone, and writes to FILE its
 * process id, and when it has ended its CPU time in ns, that of its children that were waited for included. Ends as the
 * command does. What is sent to it goes on to the command.
 */
#include "../../program.h"

static volatile pid_t command;

static void pass_on(int signal)
{
    if (command > 0)
        kill(command, signal);
}

static unsigned long long ns(struct timeval time)
{
    return (unsigned long long)time.tv_sec * 1000000000 + (unsigned long long)time.tv_usec * 1000;
}

static int end_as(int status)
{
    const struct rlimit no_core = {0};

    if (WIFSIGNALED(status)) {
        setrlimit(RLIMIT_CORE, &no_core);
        signal(WTERMSIG(status), SIG_DFL);
        raise(WTERMSIG(status));
    }
    return WEXITSTATUS(status);
}

int main(int argc, char **argv)
{
    static const int signals[] = {SIGTERM, SIGINT, SIGQUIT, SIGHUP, SIGUSR1, SIGUSR2};
    sigset_t all, before;
    struct rusage used;
    int status = 0;
    FILE *file = argc > 2 ? fopen(argv[1], "we") : NULL;

    if (!file)
        return 125;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &before);
    command = fork();
    if (command == 0) {
        sigprocmask(SIG_SETMASK, &before, NULL);
        execvp(argv[2], argv + 2);
        fprintf(stderr, "stopwatch: %s: %s\n", argv[2], strerror(errno));
        _exit(127);
    }
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        sigaction(signals[i], &(struct sigaction){.sa_handler = pass_on, .sa_flags = SA_RESTART}, NULL);
    sigprocmask(SIG_SETMASK, &before, NULL);
    fprintf(file, "%d\n", (int)command);
    fflush(file);
    while (wait4(command, &status, 0, &used) < 0 && errno == EINTR) {
    }
    fprintf(file, "%llu\n", ns(used.ru_utime) + ns(used.ru_stime));
    fclose(file);
    return end_as(status);
}
