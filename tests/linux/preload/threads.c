/*
 * A program whose CPU time is that of many threads, or of threads that pthread_create() did not start, for threads.py.
 * The main thread waits. Prints the process' CPU time in ns.
 *
 *   threads c11     30 threads of thrd_create(), 0.1 s each
 *   threads timer   the thread of a timer (SIGEV_THREAD), names: of getaddrinfo_a(), queue: of mq_notify(), list: of
 *                   lio_listio()
 *   threads clone   a thread of clone(); raw: the same by the system call itself, which nothing announces
 *   threads 1000    so many threads of pthread_create() at once, 20 ms each
 */
#include "../../program.h"

#include <aio.h>
#include <mqueue.h>
#include <netdb.h>
#include <pthread.h>
#include <threads.h>

#define LONG_NS  2000000000u
#define SHORT_NS 100000000u
#define CROWD_NS 20000000u
#define STACK    ((size_t)1 << 20)
#define THREAD   (CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM)

static atomic_int done;

__attribute__((noipa)) static void thread_hot(uint64_t ns)
{
    static volatile unsigned turns;
    const uint64_t end = clock_ns(CLOCK_THREAD_CPUTIME_ID) + ns;

    while (clock_ns(CLOCK_THREAD_CPUTIME_ID) < end)
        for (unsigned i = 0; i < 20000; i++)
            turns += i;
}

static void *in_crowd(void *barrier)
{
    (void)pthread_barrier_wait(barrier);
    thread_hot(CROWD_NS);
    return NULL;
}

static int make_crowd(unsigned threads)
{
    static pthread_t crowd[4096];
    static pthread_barrier_t barrier;
    pthread_attr_t small;

    if (threads > 4096 || pthread_attr_init(&small) || pthread_attr_setstacksize(&small, STACK / 8) ||
        pthread_barrier_init(&barrier, NULL, threads))
        return 1;
    for (unsigned i = 0; i < threads; i++)
        if (pthread_create(&crowd[i], &small, in_crowd, &barrier))
            return 1;
    for (unsigned i = 0; i < threads; i++)
        (void)pthread_join(crowd[i], NULL);
    atomic_store(&done, 1);
    return 0;
}

static int in_c11(void *unused)
{
    (void)unused;
    thread_hot(SHORT_NS);
    return 0;
}

static void in_notice(union sigval unused)
{
    (void)unused;
    thread_hot(LONG_NS);
    atomic_store(&done, 1);
}

static int in_clone(void *unused)
{
    (void)unused;
    in_notice((union sigval){0});
    for (;;)
        (void)syscall(SYS_exit, 0);
    return 0;
}

static int make_c11(void)
{
    thrd_t thread;

    for (unsigned i = 0; i < 30; i++)
        if (thrd_create(&thread, in_c11, NULL) != thrd_success || thrd_join(thread, NULL) != thrd_success)
            return 1;
    atomic_store(&done, 1);
    return 0;
}

static int make_clone(int raw)
{
    char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (stack == MAP_FAILED)
        return 1;
#ifdef __x86_64__
    if (raw) {
        register uintptr_t fourth __asm__("r10") = 0;
        register uintptr_t fifth __asm__("r8") = 0;
        register int (*body)(void *) __asm__("r12") = in_clone;
        long tid;
        __asm__ volatile("syscall\n\ttest %%rax, %%rax\n\tjnz 1f\n\txor %%ebp, %%ebp\n\tcall *%%r12\n1:"
                         : "=a"(tid)
                         : "a"(SYS_clone), "D"(THREAD), "S"(stack + STACK), "d"(0), "r"(fourth), "r"(fifth), "r"(body)
                         : "rcx", "r11", "memory", "cc");
        return tid < 0;
    }
#endif
    (void)raw;
    return clone(in_clone, stack + STACK, THREAD, NULL) < 0;
}

static int make(const char *how)
{
    struct sigevent event = {.sigev_notify = SIGEV_THREAD};
    const struct itimerspec soon = {.it_value = {.tv_nsec = 1000000}};
    static struct gaicb name = {.ar_name = "127.0.0.1"};
    static struct gaicb *list[] = {&name};
    static char byte;
    static struct aiocb read_one = {.aio_buf = &byte, .aio_nbytes = 1, .aio_lio_opcode = LIO_READ};
    static struct aiocb *reads[] = {&read_one};
    char queue_name[32];
    timer_t timer;

    event.sigev_notify_function = in_notice;
    read_one.aio_fildes = open("/dev/zero", O_RDONLY);
    if (strcmp(how, "c11") == 0)
        return make_c11();
    if (strcmp(how, "timer") == 0)
        return timer_create(CLOCK_MONOTONIC, &event, &timer) != 0 || timer_settime(timer, 0, &soon, NULL) != 0;
    if (strcmp(how, "names") == 0)
        return getaddrinfo_a(GAI_NOWAIT, list, 1, &event) != 0;
    if (strcmp(how, "list") == 0)
        return lio_listio(LIO_NOWAIT, reads, 1, &event) != 0;
    if (strcmp(how, "queue") == 0) {
        (void)snprintf(queue_name, sizeof queue_name, "/threads-%d", (int)getpid());
        mqd_t queue = mq_open(queue_name, O_CREAT | O_RDWR, 0600, NULL);
        (void)mq_unlink(queue_name);
        return mq_notify(queue, &event) != 0 || mq_send(queue, "x", 1, 0) != 0;
    }
    if (atoi(how) > 0)
        return make_crowd((unsigned)atoi(how));
    return make_clone(strcmp(how, "raw") == 0);
}

int main(int argc, char **argv)
{
    if (argc != 2 || make(argv[1]) != 0)
        return 9;
    while (!atomic_load(&done))
        (void)usleep(20000);
    printf("used %llu\n", (unsigned long long)clock_ns(CLOCK_PROCESS_CPUTIME_ID));
    return 0;
}
