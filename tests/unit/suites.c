/*
 * One program of many test files, which are linked once instead of each for itself: suites [-s NAME]... [ARGUMENT...]
 *
 * SUITES lists the test files as SUITE(NAME); the main() of each is compiled as suite_NAME(). Each runs in a process of
 * its own, so no test file sees another's state, and the CPU time of each is printed. The arguments go to each. Exit
 * status: 1 when one failed.
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define SUITE(name) int suite_##name(int argc, char **argv);
SUITES
#undef SUITE

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
} suites[] = {
#define SUITE(name) {#name, suite_##name},
    SUITES
#undef SUITE
};

static bool is_chosen(const char *name, int argc, char **argv)
{
    bool any = false;

    for (int i = 1; i + 1 < argc && strcmp(argv[i], "-s") == 0; i += 2) {
        if (strcmp(argv[i + 1], name) == 0)
            return true;
        any = true;
    }
    return !any;
}

static bool run(size_t i, int argc, char **argv)
{
    int status = 1;
    struct rusage used = {0};

    printf("%s\n", suites[i].name);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        _exit(suites[i].run(argc, argv) ? 1 : 0);
    if (child < 0 || wait4(child, &status, 0, &used) != child)
        perror("suites");
    if (status)
        fprintf(stderr, "[  FAILED  ] %s: wait status 0x%x\n", suites[i].name, (unsigned)status);
    printf("%s: CPU %.1f s\n", suites[i].name,
           (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
               (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6);
    return status == 0;
}

int main(int argc, char **argv)
{
    size_t ran = 0, failed = 0;
    int options = 1;

    while (options + 1 < argc && strcmp(argv[options], "-s") == 0)
        options += 2;
    for (size_t i = 0; i < sizeof suites / sizeof suites[0]; i++) {
        if (!is_chosen(suites[i].name, argc, argv))
            continue;
        ran++;
        failed += !run(i, argc - options + 1, argv + options - 1);
    }
    printf("%zu suites, %zu failed\n", ran, failed);
    return ran == 0 || failed > 0;
}
