// Waits of C++: an atomic's wait, which is a futex by syscall(); and waits that unwinding leaves, for an exception that
// a handler throws, and for the cancellation of the thread. After those the program computes, and waits in the same
// function again. Prints "wait NAME NS" by its own stopwatch.
#include <atomic>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noipa))

static const unsigned wait_us = 300000;
static int ends[2];
static volatile unsigned sum;

static uint64_t now()
{
    timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void compute()
{
    for (const uint64_t end = now() + 200000000u; now() < end;)
        sum = sum + 1;
}

static void on_alarm(int)
{
    throw 1;
}

/* One frame for all waits: the same depth of the stack. */
NOINLINE static void in_thrown(uint64_t *ns)
{
    const itimerval after = {{0, 0}, {0, (long)wait_us}};
    char byte;

    for (int i = 0; i < 2; i++) {
        (void)setitimer(ITIMER_REAL, &after, nullptr);
        const uint64_t start = now();
        try {
            (void)!read(ends[0], &byte, 1);
        } catch (int) {
            *ns += now() - start;
        }
        compute();
    }
}

static uint64_t cancelled_start, cancelled_end;

NOINLINE static void in_cancelled()
{
    char byte;

    cancelled_start = now();
    (void)!read(ends[0], &byte, 1);
    abort();
}

/* The thread's own cleanup, which computes, is no wait. */
static void *cancelled(void *)
{
    auto clean = [](void *) {
        cancelled_end = now();
        compute();
    };
    pthread_cleanup_push(clean, nullptr);
    in_cancelled();
    pthread_cleanup_pop(0);
    return nullptr;
}

static std::atomic<int> value;
static std::atomic<uint64_t> asleep;

/* Before it waits it yields its processor some times, which on a busy machine takes long, and is no wait: the time
 * begins when it sleeps. */
NOINLINE static void in_atomic()
{
    value.wait(0);
    printf("wait in_atomic %llu\n", (unsigned long long)(now() - asleep));
}

static bool main_sleeps()
{
    char line[64] = "";
    FILE *file = fopen("/proc/self/stat", "r");

    if (!file || !fgets(line, sizeof line, file))
        abort();
    (void)fclose(file);
    return strstr(line, ") S") != nullptr;
}

static void *set_later(void *)
{
    while (!main_sleeps())
        (void)usleep(1000);
    asleep = now();
    (void)usleep(wait_us);
    value = 1;
    value.notify_all();
    return nullptr;
}

int main()
{
    struct sigaction action = {};
    uint64_t ns = 0;
    pthread_t thread;

    action.sa_handler = on_alarm;
    action.sa_flags = SA_NODEFER;
    if (pipe(ends) != 0 || sigaction(SIGALRM, &action, nullptr) != 0)
        return 9;
    in_thrown(&ns);
    printf("wait in_thrown %llu\n", (unsigned long long)ns);

    if (pthread_create(&thread, nullptr, cancelled, nullptr) != 0)
        return 9;
    (void)usleep(wait_us);
    (void)pthread_cancel(thread);
    (void)pthread_join(thread, nullptr);
    printf("wait in_cancelled %llu\n", (unsigned long long)(cancelled_end - cancelled_start));
    if (pthread_create(&thread, nullptr, set_later, nullptr) != 0)
        return 9;
    in_atomic();
    (void)pthread_join(thread, nullptr);
    return 0;
}
