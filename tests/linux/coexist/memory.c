/*
 * The environment, memory that is locked, hidden or filled.
 */
#include "kinds.h"

extern char **environ;

static int environment_cleared(void)
{
    kinds_burn(50);
    if (clearenv() != 0)
        return KINDS_FAILED;
    kinds_burn(100);
    kinds_say("%d\n", environ == NULL);
    return KINDS_DONE;
}

/* As programs do that show their state in `ps`: PostgreSQL, sendmail. */
static int environment_overwritten(void)
{
    static char *none[] = {NULL};
    char **old = environ;

    kinds_burn(50);
    environ = none;
    for (char **at = old; *at; at++)
        memset(*at, 'x', strlen(*at));
    kinds_burn(100);
    const int child = fork();
    if (child == 0) {
        kinds_burn(150);
        exit(3);
    }
    kinds_say("%d\n", kinds_wait(child));
    return KINDS_DONE;
}

static void *edit(void *unused)
{
    char name[32];

    for (unsigned i = 0; i < 40000; i++) {
        (void)snprintf(name, sizeof name, "KINDS_%u", i % 200);
        (void)(i % 400 < 200 ? setenv(name, "value", 1) : unsetenv(name));
    }
    return unused;
}

static int environment_edited(void)
{
    pthread_t threads[2];

    for (unsigned i = 0; i < 2; i++)
        if (pthread_create(&threads[i], NULL, edit, NULL) != 0)
            return KINDS_FAILED;
    kinds_burn(100);
    for (unsigned i = 0; i < 2; i++)
        (void)pthread_join(threads[i], NULL);
    return KINDS_DONE;
}

static int environment_freed(void)
{
    char **mine = malloc(2 * sizeof *mine);

    kinds_burn(50);
    if (!mine)
        return KINDS_FAILED;
    mine[0] = strdup("A=b");
    mine[1] = NULL;
    environ = mine;
    kinds_burn(100);
    environ = NULL;
    free(mine[0]), free(mine);
    kinds_burn(100);
    return KINDS_DONE;
}

static int all_locked(void)
{
    if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0)
        return KINDS_CANNOT;
    kinds_burn_beside();
    kinds_burn(100);
    kinds_say("%d\n", munlockall());
    return KINDS_DONE;
}

/* A real-time program without privileges locks what it has, and may not have more. */
static int locked_by_user(void)
{
    kinds_burn(50);
    if (setuid(65534) != 0)
        return KINDS_CANNOT;
    kinds_say("%d\n", mlockall(MCL_CURRENT | MCL_FUTURE));
    kinds_burn(100);
    return KINDS_DONE;
}

static int locked_too_much(void)
{
    const struct rlimit limit = {65536, 65536};

    kinds_burn(50);
    if (setrlimit(RLIMIT_MEMLOCK, &limit) != 0 || setuid(65534) != 0)
        return KINDS_CANNOT;
    (void)mlockall(MCL_FUTURE);
    kinds_burn(100);
    kinds_say("%d\n", mmap(NULL, 1 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED);
    return KINDS_DONE;
}

static int no_executable_memory(void)
{
    kinds_burn(50);
    if (prctl(65 /* PR_SET_MDWE */, 1, 0, 0, 0) != 0)
        return KINDS_CANNOT;
    kinds_burn(100);
    return KINDS_DONE;
}

/* Nothing of the C library that looks at a clock may follow. */
static int without_counter(void)
{
    kinds_burn(50);
    if (prctl(PR_SET_TSC, PR_TSC_SIGSEGV) != 0)
        return KINDS_CANNOT;
    for (volatile unsigned long i = 0; i < 150000000; i++) {
    }
    _exit(KINDS_DONE);
}

static int not_dumpable(void)
{
    kinds_burn(50);
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0)
        return KINDS_CANNOT;
    kinds_burn_beside();
    kinds_burn(100);
    return KINDS_DONE;
}

/* malloc() until there is no memory, as an allocator's test does. */
static int filled(void)
{
    const struct rlimit limit = {256u << 20, 256u << 20};
    unsigned count = 0;

    kinds_burn(50);
    if (setrlimit(RLIMIT_AS, &limit) != 0)
        return KINDS_CANNOT;
    for (size_t size = 16u << 20; size >= 4096; size /= 2)
        while (malloc(size))
            count++;
    kinds_burn(100);
    kinds_say("%d\n", count > 10);
    return KINDS_DONE;
}

const struct kinds_form kinds_memory[] = {
    {"environment-cleared", environment_cleared},
    {"environment-overwritten", environment_overwritten},
    {"environment-edited", environment_edited},
    {"environment-freed", environment_freed},
    {"all-locked", all_locked},
    {"locked-by-user", locked_by_user},
    {"locked-too-much", locked_too_much},
    {"no-executable-memory", no_executable_memory},
    {"without-counter", without_counter},
    {"not-dumpable", not_dumpable},
    {"filled", filled},
    {0},
};
