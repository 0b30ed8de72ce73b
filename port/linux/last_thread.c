/*
 * The end of a process whose own threads are all gone. The kernel and the C library end a process with its last
 * thread, but they count edgeprof's threads too, so edgeprof does it.
 *
 *   ep_linux_thread_ended   a thread that was announced ends: the C library's exit(0), at once
 *   ep_linux_process_look   the collect thread's scan finds none of the program's: also threads that nobody announced
 *                           (thrd_create(), clone()), and the system call exit
 *
 * The status is the main thread's, as the kernel has it. Status 0 may have come from pthread_exit(), which ends in
 * exit(0), so that handlers of atexit() run.
 */
#include "thread_start.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <edgeprof/edgeprof.h>

#define LAST_TRIALS 100
#define STATUS_AT   52 /* field "exit_code" of /proc/PID/stat */
#define END_MS      2000u

static atomic_uint others; /* result of count_other() */
static atomic_uint ending; /* a thread that ends the process was started */

/* The state of the main thread; its exit status, if the kernel shows it. */
static bool is_ended_main(uint32_t tid, int *status)
{
    char text[512];
    const char *at;

    if (tid != (uint32_t)getpid() || ep_linux_task_read(tid, "/stat", text, sizeof text) <= 0 ||
        (at = strrchr(text, ')')) == NULL || strncmp(at, ") Z", 3) != 0)
        return false;
    for (int field = 2; at && field < STATUS_AT; field++) {
        at = strchr(at, ' ');
        at = at ? at + 1 : NULL;
    }
    *status = at ? (int)ep_linux_number(&at) : 0;
    return true;
}

static void count_other(uint32_t tid)
{
    int status;

    if (tid != (uint32_t)syscall(SYS_gettid) && !ep_linux_thread_is_own(tid) && !is_ended_main(tid, &status))
        (void)atomic_fetch_add(&others, 1);
}

static bool is_last(void)
{
    atomic_store(&others, 0);
    return ep_linux_tasks(count_other) == 0 && atomic_load(&others) == 0;
}

bool ep_linux_process_is_alone(void)
{
    return is_last();
}

void ep_linux_thread_ended(void)
{
    const struct timespec moment = {.tv_nsec = 1000000};

    if (!ep_hold())
        return;
    ep_release();
    /* A main thread that has called pthread_exit() takes a moment to end. */
    for (unsigned i = 0; i < LAST_TRIALS; i++) {
        if (is_last())
            exit(0);
        (void)nanosleep(&moment, NULL);
    }
}

/* A thread of its own: ep_stop() waits for the collect thread. */
static void *end_process(void *unused)
{
    int status = 0;

    (void)unused;
    (void)is_ended_main((uint32_t)getpid(), &status);
    if (status == 0)
        exit(0);
    (void)ep_stop(END_MS);
    _exit(status >> 8);
}

void ep_linux_process_look(void)
{
    pthread_t thread;
    int status;
    unsigned none = 0;

    /* Only a main thread that has ended can leave none but edgeprof's; a process ends with exit_group() otherwise. */
    if (!is_ended_main((uint32_t)getpid(), &status) || !is_last() || !atomic_compare_exchange_strong(&ending, &none, 1))
        return;
    if (pthread_create(&thread, NULL, end_process, NULL) == 0)
        (void)pthread_detach(thread);
    else
        atomic_store(&ending, 0);
}
