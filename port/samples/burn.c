/*
 * A C program with the profiler, which uses only the public interface. Three different functions use CPU time in parts
 * of 60, 30 and 10, on two threads, at a limited share of a core. Each burst is measured by its thread's CPU clock. The
 * sums are printed as one line of JSON at the end, to be compared with a profile.
 *
 *   burn [SECONDS]      stops after that time, or on SIGTERM or SIGINT; EDGEPROF_ENDPOINT etc. start the profiler
 *
 * main() -> start_profiler(); run() on each thread -> burst() -> burn_heavy(), burn_medium(), burn_light(). Bursts and
 * pauses have random lengths, so that nothing runs in step with the kernel's tick. Bursts take several ticks: what a
 * thread uses after the last one counts for what it does at the next.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <edgeprof/edgeprof.h>

#define THREADS  2
#define PERCENT  25 /* of a core, each thread */
#define NOINLINE __attribute__((noinline))

static uint8_t memory[EP_MEMORY_DEFAULT];

static const char *const name[] = {"burn_heavy", "burn_medium", "burn_light"};
static const double part[] = {0.6, 0.3, 0.1};
static _Atomic long long cpu_ns[3];
static atomic_int stopping;
static volatile double sink;

/* Integer work: a hash over a buffer. */
static NOINLINE void burn_heavy(int rounds)
{
    static const unsigned char bytes[4096] = "edgeprof";
    uint64_t hash = 14695981039346656037u;
    for (int round = 0; round < rounds; round++)
        for (size_t i = 0; i < sizeof bytes; i++)
            hash = (hash ^ bytes[i]) * 1099511628211u;
    sink = (double)hash;
}

/* Floating point work: products of small matrices. */
static NOINLINE void burn_medium(int rounds)
{
    double a[24][24], b[24][24], sum = 0;
    for (int i = 0; i < 24 * 24; i++) {
        a[i / 24][i % 24] = 1.0 / (i + 1);
        b[i / 24][i % 24] = i % 7 - 3;
    }
    for (int round = 0; round < rounds; round++)
        for (int i = 0; i < 24; i++)
            for (int j = 0; j < 24; j++)
                for (int k = 0; k < 24; k++)
                    sum += a[i][k] * b[k][(j + round) % 24];
    sink = sum;
}

static int compare(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* String work, most of it in libc. */
static NOINLINE void burn_light(int rounds)
{
    char text[24][16];
    size_t length = 0;
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < 24; i++)
            snprintf(text[i], sizeof text[i], "%d-%s", i * 7919 % 97, i % 3 == 0 ? "probe" : "meter");
        qsort(text, 24, sizeof text[0], compare);
        length += strlen(text[round % 24]);
    }
    sink = (double)length;
}

static long long thread_cpu_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static int most_behind(void)
{
    int next = 0;
    for (int i = 1; i < 3; i++)
        if ((double)cpu_ns[i] / part[i] < (double)cpu_ns[next] / part[next])
            next = i;
    return next;
}

/* Runs one burst. Returns its CPU time in ns. */
static long long burst(int which, double milliseconds, double *rounds_per_ms)
{
    static void (*const burn[])(int) = {burn_heavy, burn_medium, burn_light};
    const int rounds = 1 + (int)(milliseconds * rounds_per_ms[which]);
    const long long before = thread_cpu_ns();
    burn[which](rounds);
    const long long used = thread_cpu_ns() - before;
    cpu_ns[which] += used;
    rounds_per_ms[which] += 0.1 * (rounds / ((double)used / 1e6 + 1e-6) - rounds_per_ms[which]);
    return used;
}

static void *run(void *argument)
{
    unsigned seed = *(const unsigned *)argument;
    double rounds_per_ms[] = {100, 30, 50};
    while (!stopping) {
        const long long used = burst(most_behind(), 5 + 30.0 * rand_r(&seed) / RAND_MAX, rounds_per_ms);
        const double pause = (double)used * (100 - PERCENT) / PERCENT * (0.5 + 1.0 * rand_r(&seed) / RAND_MAX);
        const struct timespec time = {(time_t)(pause / 1e9), (long)pause % 1000000000};
        nanosleep(&time, NULL);
    }
    return NULL;
}

static int start_profiler(void)
{
    struct ep_config config = {.memory = memory, .memory_size = sizeof memory};
    int err = ep_config_from_env(&config);
    if (err > 0)
        err = ep_start(&config);
    if (err < 0)
        fprintf(stderr, "burn: the profiler does not start: %s %s\n", strerror(-err), ep_start_error());
    return err;
}

static void print_truth(void)
{
    const double total = (double)cpu_ns[0] + (double)cpu_ns[1] + (double)cpu_ns[2];
    printf("{\"threads\":%d,\"shares\":[", THREADS);
    for (int i = 0; i < 3; i++)
        printf("%s{\"function\":\"%s\",\"cpuNs\":%lld,\"percent\":%.3f}", i == 0 ? "" : ",", name[i], cpu_ns[i],
               100 * (double)cpu_ns[i] / total);
    printf("]}\n");
}

int main(int argc, char **argv)
{
    const struct timespec limit = {.tv_sec = argc > 1 ? atoi(argv[1]) : 86400};
    pthread_t thread[THREADS];
    unsigned seed[THREADS];
    sigset_t stops;
    sigemptyset(&stops);
    sigaddset(&stops, SIGTERM);
    sigaddset(&stops, SIGINT);
    pthread_sigmask(SIG_BLOCK, &stops, NULL);
    if (start_profiler() < 0)
        return 1;
    for (unsigned i = 0; i < THREADS; i++) {
        seed[i] = i + 1;
        if (pthread_create(&thread[i], NULL, run, &seed[i]) != 0)
            return 1;
    }
    sigtimedwait(&stops, NULL, &limit);
    stopping = 1;
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    ep_stop(2000);
    print_truth();
    return 0;
}
