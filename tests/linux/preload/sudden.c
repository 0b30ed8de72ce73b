/*
 * Uses CPU time in two functions, on the main thread and on `threads` more, and ends:
 *
 *   sudden exit MS THREADS     by exit()
 *   sudden group MS THREADS    by the system call exit_group(), on the main thread
 *   sudden thread MS THREADS   the same on another thread
 *   sudden wait MS THREADS     writes its process id to standard output, and waits for a signal that ends it
 *   sudden crash MS THREADS    by SIGSEGV
 *   sudden exec MS THREADS PROGRAM [ARGUMENT...]   by exec
 *   sudden child MS THREADS    a child of fork() does `group`; this process waits for it and ends by exit(). 99: memory
 *                              that the child had mapped before is no longer its own
 *   sudden raw MS THREADS      after half the time, a child of the bare system call clone() waits and allocates; then
 * `group`
 */
#include "../../program.h"

static volatile unsigned long sink;
static atomic_bool done;

static double used(void)
{
    struct timespec now;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1000 + (double)now.tv_nsec / 1e6;
}

__attribute__((noinline)) static void hot_main(void)
{
    for (unsigned i = 0; i < 300000; i++)
        sink += i;
    __asm__ volatile("");
}

__attribute__((noinline)) static void hot_thread(void)
{
    for (unsigned i = 0; i < 300000; i++)
        sink ^= i;
    __asm__ volatile("");
}

static void *work(void *ends)
{
    while (!atomic_load(&done))
        hot_thread();
    if (ends)
        syscall(SYS_exit_group, 7);
    for (;;)
        pause();
    return NULL;
}

#define BLOCKS      64
#define BLOCK_BYTES 65536

static unsigned char *blocks[BLOCKS];

static void blocks_take(void)
{
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = mmap(NULL, BLOCK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (blocks[i] != MAP_FAILED)
            memset(blocks[i], 0xa5, BLOCK_BYTES);
    }
}

static bool blocks_kept(void)
{
    for (int i = 0; i < BLOCKS && blocks[i]; i++)
        for (int at = 0; at < BLOCK_BYTES; at += 512)
            if (blocks[i] != MAP_FAILED && blocks[i][at] != 0xa5)
                return false;
    return true;
}

/* A child that the C library does not know takes locks and allocates: hooks of edgeprof run in it. */
static void raw_child(void)
{
    const pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

    if (child == 0) {
        const struct timespec moment = {.tv_nsec = 100000};
        for (unsigned i = 0; i < 2000; i++) {
            pthread_mutex_lock(&lock);
            pthread_mutex_unlock(&lock);
            nanosleep(&moment, NULL);
            free(malloc(i * 64));
        }
        syscall(SYS_exit_group, 0);
    }
    waitpid(child, NULL, 0);
}

static void end(const char *how, char **arguments)
{
    if (strcmp(how, "wait") == 0) {
        printf("%d\n", (int)getpid());
        fflush(stdout);
    }
    if (strcmp(how, "wait") == 0 || strcmp(how, "thread") == 0)
        for (;;)
            pause();
    if (strcmp(how, "crash") == 0)
        raise(SIGSEGV);
    if (strcmp(how, "grow") == 0) /* until the kernel kills it for want of memory */
        for (void *more = &done; more;)
            memset(more = malloc(1 << 20), 1, 1 << 20);
    if (strcmp(how, "exec") == 0)
        execv(arguments[0], arguments);
    if (strcmp(how, "exit") == 0)
        exit(7);
    syscall(SYS_exit_group, 7);
}

int main(int argc, char **argv)
{
    const int threads = argc > 3 ? atoi(argv[3]) : 0;
    pthread_t thread;
    int status;

    if (argc < 4)
        return 2;
    const char *how = argv[1];
    const double most = atof(argv[2]);
    if (strcmp(how, "child") == 0) {
        while (used() < most / 10)
            hot_main();
        if (fork() != 0) {
            wait(&status);
            return WEXITSTATUS(status);
        }
        blocks_take();
    }
    for (int i = 0; i < threads; i++)
        pthread_create(&thread, NULL, work, i == 0 && strcmp(how, "thread") == 0 ? argv : NULL);
    while (used() < most / 2)
        hot_main();
    if (strcmp(how, "raw") == 0)
        raw_child();
    while (used() < most)
        hot_main();
    atomic_store(&done, true);
    if (!blocks_kept())
        syscall(SYS_exit_group, 99);
    end(how, argv + 4);
}
