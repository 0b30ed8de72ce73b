/*
 * Limits of the system that the program sets for itself. tests/linux/limits has those that edgeprof names.
 */
#include "kinds.h"

static int limited(__rlimit_resource_t resource, rlim_t soft)
{
    struct rlimit limit;

    kinds_burn(50);
    if (getrlimit(resource, &limit) != 0)
        return KINDS_FAILED;
    limit.rlim_cur = soft;
    if (setrlimit(resource, &limit) != 0)
        return KINDS_CANNOT;
    return 0;
}

static void *burn_a_little(void *unused)
{
    kinds_burn(30);
    return unused;
}

/* How many of eight threads can be created. */
static int threads_beside(void)
{
    pthread_t threads[8];
    int made = 0;

    while (made < 8 && pthread_create(&threads[made], NULL, burn_a_little, NULL) == 0)
        made++;
    for (int i = 0; i < made; i++)
        (void)pthread_join(threads[i], NULL);
    return made;
}

static int after(int cannot)
{
    if (cannot)
        return cannot;
    kinds_burn(100);
    kinds_say("%d\n", threads_beside());
    kinds_burn(100);
    return KINDS_DONE;
}

static int address_space(void)
{
    return after(limited(RLIMIT_AS, 128u << 20));
}

static int data(void)
{
    return after(limited(RLIMIT_DATA, 100u << 20));
}

static int stack(void)
{
    return after(limited(RLIMIT_STACK, 64u << 10));
}

static int pending_signals(void)
{
    return after(limited(RLIMIT_SIGPENDING, 0));
}

static int processes(void)
{
    int cannot = limited(RLIMIT_NPROC, 0);

    if (!cannot && (getuid() != 0 || setuid(65533) != 0))
        cannot = KINDS_CANNOT;
    return after(cannot);
}

/* Writes beyond the limit would end the process with SIGXFSZ. */
static int file_size(void)
{
    return after(limited(RLIMIT_FSIZE, 0));
}

static int locks(void)
{
    return after(limited(RLIMIT_MEMLOCK, 0));
}

static int core(void)
{
    return after(limited(RLIMIT_CORE, 0));
}

static int nice_limit(void)
{
    return after(limited(RLIMIT_NICE, 0));
}

static atomic_int seconds;

static void second(int signal)
{
    (void)signal;
    (void)atomic_fetch_add(&seconds, 1);
}

static int cpu_time(void)
{
    const int cannot = limited(RLIMIT_CPU, 1);

    if (cannot)
        return cannot;
    (void)signal(SIGXCPU, second);
    kinds_burn(1300);
    kinds_say("%d\n", atomic_load(&seconds) > 0);
    return KINDS_DONE;
}

static int files_and_execution(void)
{
    const int cannot = limited(RLIMIT_NOFILE, 4);

    if (cannot)
        return cannot;
    kinds_burn(100);
    (void)execl("/proc/self/exe", "kinds", "--child", (char *)NULL);
    return KINDS_FAILED;
}

static int all_at_once(void)
{
    int cannot = limited(RLIMIT_SIGPENDING, 1);

    cannot = cannot ? cannot : limited(RLIMIT_NOFILE, 3);
    cannot = cannot ? cannot : limited(RLIMIT_FSIZE, 0);
    return after(cannot ? cannot : limited(RLIMIT_AS, 200u << 20));
}

const struct kinds_form kinds_limits[] = {
    {"address-space", address_space},
    {"data", data},
    {"stack", stack},
    {"pending-signals", pending_signals},
    {"processes", processes},
    {"file-size", file_size},
    {"locks", locks},
    {"core", core},
    {"nice", nice_limit},
    {"cpu-time", cpu_time},
    {"files-and-execution", files_and_execution},
    {"all-at-once", all_at_once},
    {0},
};
