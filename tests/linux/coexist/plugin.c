/*
 * The plug-in of `kinds`, also linked in front of it and as an auditing library: its constructor does what
 * KINDS_CONSTRUCTOR says.
 */
#include "../../program.h"

int plugin_work(int ms);
int plugin_waits(int ms);
int plugin_chosen(int ms);
unsigned la_version(unsigned version);

static volatile int at_close;

int plugin_work(int ms)
{
    struct timespec start, now;

    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &start);
    do {
        for (volatile int i = 0; i < 20000; i++) {
        }
        (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    } while ((now.tv_sec - start.tv_sec) * 1000 + (now.tv_nsec - start.tv_nsec) / 1000000 < ms);
    return ms;
}

static void *wait_in_thread(void *ms)
{
    const struct timespec time = {.tv_nsec = *(int *)ms * 1000000l};

    (void)plugin_work(*(int *)ms);
    (void)nanosleep(&time, NULL);
    return NULL;
}

int plugin_waits(int ms)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, wait_in_thread, &ms) != 0)
        return -1;
    return pthread_join(thread, NULL) == 0 ? ms : -1;
}

static int (*choose(void))(int)
{
    return plugin_work;
}

int plugin_chosen(int ms) __attribute__((ifunc("choose")));

/* As an auditing library: it wants no calls. */
unsigned la_version(unsigned version)
{
    return version ? 1 : 0;
}

static void fork_here(void)
{
    int status;
    const pid_t child = fork();

    if (child == 0) {
        (void)plugin_work(150);
        _exit(2);
    }
    if (waitpid(child, &status, 0) != child || status != 2 << 8)
        _exit(41);
}

/* All signals, as a runtime that looks for free numbers does. */
static void take_signals(void)
{
    struct sigaction old;
    sigset_t all, before;

    for (int signal = 1; signal < 65; signal++)
        (void)sigaction(signal, NULL, &old);
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_BLOCK, &all, &before);
    (void)plugin_work(50);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
}

__attribute__((constructor)) static void plugin_begin(void)
{
    const char *what = getenv("KINDS_CONSTRUCTOR");

    if (!what)
        return;
    if (strcmp(what, "thread") == 0)
        (void)plugin_waits(100);
    else if (strcmp(what, "fork") == 0)
        fork_here();
    else if (strcmp(what, "works") == 0)
        (void)plugin_work(400);
    else if (strcmp(what, "ends") == 0)
        _exit(42);
    else if (strcmp(what, "exits") == 0)
        exit(43);
    else if (strcmp(what, "waits") == 0)
        for (;;)
            (void)pause();
    else if (strcmp(what, "signals") == 0)
        take_signals();
    else if (strcmp(what, "last") == 0) {
        (void)plugin_work(100);
        (void)syscall(SYS_exit, 44);
    } else if (strcmp(what, "exit-at-close") == 0)
        at_close = 1;
}

__attribute__((destructor)) static void plugin_end(void)
{
    if (at_close) {
        at_close = 0;
        exit(45);
    }
}
