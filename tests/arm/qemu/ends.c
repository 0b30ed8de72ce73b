/*
 * Runs a program, and tells whether it ended by a signal: a job for init.c. usage: ends SIGNAL PROGRAM [ARGUMENT...]
 */
#include "../../program.h"

int main(int argc, char **argv)
{
    int status = 0;

    if (argc < 3)
        return 2;
    pid_t child = fork();
    if (child == 0) {
        execv(argv[2], argv + 2);
        _exit(127);
    }
    if (child < 0 || waitpid(child, &status, 0) != child)
        return 2;
    if (WIFSIGNALED(status) && WTERMSIG(status) == atoi(argv[1]))
        return 0;
    printf("ends: status %#x instead of signal %s\n", (unsigned)status, argv[1]);
    return 1;
}
