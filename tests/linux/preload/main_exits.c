/*
 * main_exits THREADS: the main thread ends by pthread_exit(), the process with the last of its threads. What atexit()
 * and stdio do at the end must be done.
 */
#include "../../program.h"

static atomic_uint done;
static unsigned threads;

static void *worker(void *argument)
{
    struct timespec pause = {.tv_nsec = 3000000};

    for (volatile unsigned i = 0; i < 30000000; i++)
        ;
    (void)nanosleep(&pause, NULL);
    (void)atomic_fetch_add(&done, 1);
    return argument;
}

static void at_exit(void)
{
    (void)printf("at exit: %s %u\n", atomic_load(&done) == threads ? "all" : "not all", threads);
}

int main(int argc, char **argv)
{
    pthread_t thread;

    threads = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 1;
    (void)atexit(at_exit);
    for (unsigned i = 0; i < threads; i++)
        if (pthread_create(&thread, NULL, worker, NULL) != 0)
            return 1;
    for (volatile unsigned i = 0; i < 30000000; i++)
        ;
    pthread_exit(NULL);
}
