/*
 * A program that ends in the way that its first argument says. With -DLINKED the profiler is linked in, else it may be
 * preloaded. Linked with --wrap, so that the test can break the handler at a step, and the file's writes.
 *
 *   crasher HOW [WITH]
 *     before, after     a crash reporter's handler beside edgeprof's, installed then
 *     front, front2     after, then ep_crash_in_front(); and the same once more, with another one
 *     front_stop        front, then edgeprof's handlers are stopped
 *     front_again       front, then three times: the reporter installs itself again, ep_crash_in_front()
 *     default           the default actions, set after edgeprof's handlers are there, then ep_crash_in_front()
 *     thread            the end comes in a second thread; a third sleeps
 *     both              it comes in two threads at once
 *     many, run         it comes with 40 threads that sleep; with one that runs
 *     limit             no byte of a file may be written from then on (RLIMIT_FSIZE)
 */

#include "../../program.h"
#include "own.h"

#ifdef LINKED
#include <edgeprof/port_calls.h>

static unsigned faulty;
static volatile bool armed; /* the end comes */

/* As a handler that waits for what never comes. */
static void hang(bool blocked)
{
    sigset_t all;

    (void)sigfillset(&all);
    if (blocked)
        (void)pthread_sigmask(SIG_SETMASK, &all, NULL);
    for (;;)
        (void)usleep(1000000);
}

void __real_ep_crash_step(enum ep_crash_step_number step);
void __wrap_ep_crash_step(enum ep_crash_step_number step);

/* CRASH_FAULTS: a digit for each step. 1: a null dereference in it; 2: it hangs; 3: abort(); 4: it hangs with all
 * signals blocked. */
void __wrap_ep_crash_step(enum ep_crash_step_number step)
{
    const char *faults = getenv("CRASH_FAULTS");
    char fault = faults && strlen(faults) > (unsigned)step ? faults[step] : '0';

    if (fault == '1')
        *(volatile int *)(uintptr_t)(8 + faulty++) = 1;
    if (fault == '2' || fault == '4')
        hang(fault == '4');
    if (fault == '3')
        abort();
    __real_ep_crash_step(step);
}

int __real_ep_port_crash_write(uint64_t at, const void *bytes, size_t size);
int __wrap_ep_port_crash_write(uint64_t at, const void *bytes, size_t size);

/* CRASH_WRITES: a digit for each write of the crash. 1: the disk is full; 2: the power fails before its last sector is
 * written; 3: after it. */
int __wrap_ep_port_crash_write(uint64_t at, const void *bytes, size_t size)
{
    static unsigned count;
    const char *faults = getenv("CRASH_WRITES");
    const char fault = armed && faults && strlen(faults) > count ? faults[count++] : '0';

    if (fault == '1')
        return -ENOSPC;
    int error = __real_ep_port_crash_write(at, bytes, fault == '2' ? (size - 1) / 512 * 512 : size);
    if (fault == '2' || fault == '3')
        (void)kill(getpid(), SIGKILL);
    return error;
}

static void arm(void)
{
    armed = true;
}
#else
static void arm(void) {}
#endif

static struct sigaction reporter_before[2][65];

/* As crash reporters do: says something, restores what was there, and lets it happen again. */
static void report(const struct sigaction *before, int signal, siginfo_t *info, void *ucontext)
{
    static const char line[] = "reporter was here\n";

    (void)!write(2, line, sizeof line - 1);
    if (before->sa_flags & SA_SIGINFO)
        before->sa_sigaction(signal, info, ucontext);
    else
        (void)sigaction(signal, before, NULL);
    if (info->si_code <= 0)
        (void)raise(signal);
}

static void reporter(int signal, siginfo_t *info, void *ucontext)
{
    report(&reporter_before[0][signal], signal, info, ucontext);
}

static void reporter2(int signal, siginfo_t *info, void *ucontext)
{
    report(&reporter_before[1][signal], signal, info, ucontext);
}

static const int reported[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
#define REPORTED (sizeof reported / sizeof *reported)

static void reporter_install(unsigned which)
{
    struct sigaction action = {.sa_sigaction = which ? reporter2 : reporter, .sa_flags = SA_SIGINFO};

    for (unsigned i = 0; i < REPORTED; i++)
        (void)sigaction(reported[i], &action, &reporter_before[which][reported[i]]);
}

/* As sentry-native does it: what was there before, then its own. */
static void reporter_again(void)
{
    for (unsigned i = 0; i < REPORTED; i++)
        (void)sigaction(reported[i], &reporter_before[0][reported[i]], NULL);
    reporter_install(0);
}

static void front_install(const char *with)
{
    for (unsigned i = 0; i < REPORTED && strcmp(with, "default") == 0; i++)
        (void)signal(reported[i], SIG_DFL);
    if (strcmp(with, "default") == 0)
        in_front(0);
    if (strncmp(with, "front", 5) != 0)
        return;
    reporter_install(0);
    in_front(REPORTED);
    in_front(0);
    if (strcmp(with, "front2") == 0) {
        reporter_install(1);
        in_front(REPORTED);
    }
    if (strcmp(with, "front_stop") == 0)
        end();
    for (unsigned i = 0; i < 3 && strcmp(with, "front_again") == 0; i++) {
        reporter_again();
        in_front(REPORTED);
    }
}

#define NOINLINE __attribute__((noinline, noclone))
static volatile int zero, seven = 7;
static volatile uintptr_t nowhere = 16;

NOINLINE static int do_null(void)
{
    return *(volatile int *)nowhere;
}

NOINLINE static int do_jump(void)
{
    void (*fn)(void);
    memcpy(&fn, (const void *)&nowhere, sizeof fn);
    fn();
    return zero;
}

NOINLINE static int do_abort(void)
{
    abort();
}

NOINLINE static int do_fpe(void)
{
#if defined __x86_64__ || defined __i386__
    return seven / zero;
#else
    (void)raise(SIGFPE);
    return zero;
#endif
}

NOINLINE static int do_ill(void)
{
#if defined __x86_64__
    __asm__ volatile("ud2");
#else
    __asm__ volatile(".inst 0x0000dead");
#endif
    return zero;
}

NOINLINE static int do_trap(void)
{
#if defined __x86_64__
    __asm__ volatile("int3");
#else
    (void)raise(SIGTRAP);
#endif
    return zero;
}

NOINLINE static int do_bus(void)
{
    char name[] = "/tmp/crasher-XXXXXX";
    int fd = mkstemp(name);

    (void)unlink(name);
    if (fd < 0 || ftruncate(fd, 8192) != 0)
        return 9;
    volatile char *map = mmap(NULL, 8192, PROT_READ, MAP_SHARED, fd, 0);
    if (ftruncate(fd, 0) != 0)
        return 9;
    return map[5000];
}

NOINLINE static int do_overflow(volatile char *above)
{
    volatile char here[4096];

    here[0] = *above;
    return zero ? 0 : do_overflow(here) + here[zero];
}

NOINLINE static int do_kill(void)
{
    (void)kill(getpid(), SIGKILL);
    return zero;
}

NOINLINE static int do_sent(void)
{
    (void)kill(getpid(), SIGSEGV);
    (void)usleep(2000000);
    return zero;
}

static const char *how;

NOINLINE static int middle(void)
{
    static const struct {
        const char *name;
        int (*fn)(void);
    } ways[] = {{"null", do_null}, {"jump", do_jump}, {"abort", do_abort}, {"fpe", do_fpe},  {"ill", do_ill},
                {"trap", do_trap}, {"bus", do_bus},   {"kill", do_kill},   {"sent", do_sent}};
    char start = 0;

    for (unsigned i = 0; i < sizeof ways / sizeof *ways; i++)
        if (strcmp(how, ways[i].name) == 0)
            return ways[i].fn() + zero;
    if (strcmp(how, "overflow") == 0)
        return do_overflow(&start) + zero;
    if (strcmp(how, "early") == 0)
        _exit(7);
    return zero;
}

NOINLINE static int outer(void)
{
    return middle() + zero;
}

static void *sleeper(void *argument)
{
    (void)usleep(20000000);
    return argument;
}

static void *worker(void *argument)
{
    (void)outer();
    return argument;
}

static void *runner(void *argument)
{
    for (;;)
        nowhere = 16;
    return argument;
}

static void thread_begin(void *(*fn)(void *argument))
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, fn, NULL) != 0)
        exit(2);
}

static void with_after(const char *with)
{
    const struct rlimit nothing = {0};
    pthread_t thread;

    if (strcmp(with, "after") == 0)
        reporter_install(0);
    front_install(with);
    for (unsigned i = 0; strcmp(with, "many") == 0 && i < 40; i++)
        thread_begin(sleeper);
    if (strcmp(with, "run") == 0)
        thread_begin(runner);
    if (strcmp(with, "limit") == 0 && setrlimit(RLIMIT_FSIZE, &nothing) != 0)
        exit(2);
    if (strcmp(with, "thread") == 0 || strcmp(with, "both") == 0) {
        thread_begin(with[0] == 't' ? sleeper : worker);
        arm();
        if (pthread_create(&thread, NULL, worker, NULL) != 0)
            exit(2);
        (void)pthread_join(thread, NULL);
    }
}

int main(int argc, char **argv)
{
    const char *with = argc > 2 ? argv[2] : "";

    if (argc < 2)
        return 2;
    how = argv[1];
    if (strcmp(with, "before") == 0)
        reporter_install(0);
    begin();
    with_after(with);
    (void)usleep(strcmp(how, "idle") == 0 ? 400000 : strcmp(how, "pause") == 0 ? 1000000 : 20000);
    arm();
    int result = outer();
    end();
    return result;
}
