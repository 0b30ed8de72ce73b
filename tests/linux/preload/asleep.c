/*
 * Waits that nobody can mark: system calls by assembler, as Go and Zig make them. Each is in a function of its own with
 * a frame pointer, which a reader of a sleeping thread does not know, and on a thread of its own. Prints "wait NAME NS"
 * by its own stopwatch.
 */
#include "../../program.h"

#include <linux/futex.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/syscall.h>

#define WAIT_MS  3000
#define SHORT_MS 20

/* On other architectures syscall() is not marked. */
static inline long call(long number, long a, long b, long c, long d)
{
#ifdef __x86_64__
    register long fourth __asm__("r10") = d;
    long result;

    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(fourth)
                     : "rcx", "r11", "memory");
    return result;
#else
    return syscall(number, a, b, c, d);
#endif
}

static volatile uint32_t word;

/* clang-format off */
#define WAY(name, ...) \
    __attribute__((noipa, optimize("no-omit-frame-pointer"))) static void in_##name(void) \
    { \
        __VA_ARGS__; \
        __asm__ volatile("" ::: "memory"); \
    } \
    static void *run_##name(void *unused) \
    { \
        uint64_t start = now_ns(); \
        in_##name(); \
        printf("wait in_%s %llu\n", #name, (unsigned long long)(now_ns() - start)); \
        return unused; \
    }

WAY(sleep, struct timespec time = {.tv_sec = WAIT_MS / 1000}; (void)call(SYS_nanosleep, (long)&time, 0, 0, 0))
WAY(naps, for (unsigned i = 0; i < WAIT_MS / SHORT_MS; i++) {
        struct timespec time = {.tv_nsec = SHORT_MS * 1000000};
        (void)call(SYS_nanosleep, (long)&time, 0, 0, 0); })
WAY(poll, struct timespec time = {.tv_sec = WAIT_MS / 1000}; (void)call(SYS_ppoll, 0, 0, (long)&time, 0))
WAY(futex, struct timespec time = {.tv_sec = WAIT_MS / 1000};
    (void)call(SYS_futex, (long)&word, FUTEX_WAIT_PRIVATE, 0, (long)&time))
/* clang-format on */

/* No wait, unless a program asks for idle waits. */
static void *idle(void *unused)
{
    struct epoll_event event;
    int queue = epoll_create1(0);

    (void)call(SYS_epoll_pwait, queue, (long)&event, 1, WAIT_MS);
    return unused;
}

int main(void)
{
    void *(*const ways[])(void *) = {run_sleep, run_naps, run_poll, run_futex, idle};
    pthread_t threads[sizeof ways / sizeof *ways];
    const uint64_t start = now_ns();

    while (now_ns() - start < 300000000) { /* so that the profiler's own threads run */
    }
    for (unsigned i = 0; i < sizeof ways / sizeof *ways; i++)
        if (pthread_create(&threads[i], NULL, ways[i], NULL))
            return 9;
    for (unsigned i = 0; i < sizeof ways / sizeof *ways; i++)
        (void)pthread_join(threads[i], NULL);
    return 0;
}
