/*
 * Ways in which a process ends.
 */
#include "kinds.h"

#include <threads.h>

static void say_quick(void)
{
    kinds_say("at_quick_exit\n");
}

static int quick(void)
{
    (void)at_quick_exit(say_quick);
    kinds_burn(100);
    quick_exit(4);
}

static void *end_at_once(void *unused)
{
    (void)unused;
    kinds_burn(100);
    _exit(5);
}

static void *end_orderly(void *unused)
{
    (void)unused;
    kinds_burn(100);
    exit(6);
}

static int in_thread(void *(*end)(void *))
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, end, NULL) != 0 || pthread_join(thread, NULL) != 0)
        return KINDS_FAILED;
    return KINDS_FAILED;
}

static int at_once_in_thread(void)
{
    return in_thread(end_at_once);
}

static int orderly_in_thread(void)
{
    return in_thread(end_orderly);
}

static void exit_again(void)
{
    kinds_say("atexit\n");
    exit(8);
}

static int exits_at_exit(void)
{
    (void)atexit(exit_again);
    kinds_burn(100);
    exit(7);
}

static void end_at_exit(void)
{
    kinds_say("atexit\n");
    _exit(8);
}

static int ends_at_exit(void)
{
    (void)atexit(end_at_exit);
    kinds_burn(100);
    return 7;
}

static void work_at_exit(void)
{
    kinds_burn(100);
    kinds_say("worked\n");
}

static int works_at_exit(void)
{
    (void)atexit(work_at_exit);
    kinds_burn(50);
    return 7;
}

static void thread_at_exit(void)
{
    kinds_burn_beside();
    kinds_burn(100);
}

static int thread_begins_at_exit(void)
{
    (void)atexit(thread_at_exit);
    kinds_burn(50);
    return 7;
}

static void *work_and_leave(void *unused)
{
    kinds_burn(150);
    kinds_say("last\n");
    return unused;
}

static int main_leaves(void)
{
    pthread_t thread;

    for (unsigned i = 0; i < 2; i++)
        if (pthread_create(&thread, NULL, work_and_leave, NULL) != 0 || pthread_detach(thread) != 0)
            return KINDS_FAILED;
    pthread_exit(NULL);
}

static int main_leaves_raw(void)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, work_and_leave, NULL) != 0)
        return KINDS_FAILED;
    kinds_burn(50);
    (void)syscall(SYS_exit, 0);
    return KINDS_FAILED;
}

static void *leave_raw(void *unused)
{
    (void)unused;
    kinds_burn(150);
    (void)syscall(SYS_exit, 0);
    return NULL;
}

/* All threads leave by the system call, and nobody waits for them. */
static int all_leave_raw(void)
{
    pthread_t thread;

    for (unsigned i = 0; i < 2; i++)
        if (pthread_create(&thread, NULL, leave_raw, NULL) != 0)
            return KINDS_FAILED;
    (void)syscall(SYS_exit, 0);
    return KINDS_FAILED;
}

static int leave_c11(void *unused)
{
    (void)unused;
    kinds_burn(150);
    kinds_say("last\n");
    thrd_exit(3);
}

static int main_leaves_c11(void)
{
    thrd_t thread;

    if (thrd_create(&thread, leave_c11, NULL) != thrd_success || thrd_detach(thread) != thrd_success)
        return KINDS_FAILED;
    thrd_exit(2);
}

/* The last thread is cancelled. */
static void *cancel_and_leave(void *thread)
{
    kinds_burn(100);
    (void)pthread_cancel(*(pthread_t *)thread);
    return NULL;
}

static void *wait_for_ever(void *unused)
{
    for (;;)
        (void)pause();
    return unused;
}

static int last_is_cancelled(void)
{
    static pthread_t waiting;
    pthread_t thread;

    if (pthread_create(&waiting, NULL, wait_for_ever, NULL) != 0 ||
        pthread_create(&thread, NULL, cancel_and_leave, &waiting) != 0)
        return KINDS_FAILED;
    pthread_exit(NULL);
}

static int group_raw(void)
{
    kinds_burn_beside();
    kinds_burn(100);
    (void)syscall(SYS_exit_group, 11);
    return KINDS_FAILED;
}

static void end_in_handler(int signal)
{
    _exit(signal);
}

static void exit_in_handler(int signal)
{
    exit(signal);
}

static int by_timer(void (*handler)(int), int flags)
{
    const struct itimerval soon = {.it_value = {0, 150000}};
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};

    (void)sigaction(SIGALRM, &action, NULL);
    kinds_burn_beside();
    (void)setitimer(ITIMER_REAL, &soon, NULL);
    for (;;)
        free(malloc(100));
    return KINDS_FAILED;
}

static int in_handler(void)
{
    return by_timer(end_in_handler, 0);
}

static int exits_in_handler(void)
{
    return by_timer(exit_in_handler, 0);
}

/* The handler's stack is small. */
static int in_handler_on_small_stack(void)
{
    static _Alignas(64) unsigned char memory[12288];
    const stack_t stack = {.ss_sp = memory, .ss_size = 8192};

    if (sigaltstack(&stack, NULL) != 0)
        return KINDS_FAILED;
    return by_timer(end_in_handler, SA_ONSTACK);
}

static ucontext_t back;

static void end_here(void)
{
    exit(12);
}

/* On a coroutine's stack with a page below that cannot be touched. */
static int on_coroutine(void)
{
    unsigned char *memory = mmap(NULL, 32768, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ucontext_t there;

    kinds_burn(150);
    if (memory == MAP_FAILED || mprotect(memory + 8192, 16384, PROT_READ | PROT_WRITE) != 0 || getcontext(&there) != 0)
        return KINDS_FAILED;
    there.uc_stack.ss_sp = memory + 8192;
    there.uc_stack.ss_size = 16384;
    there.uc_link = &back;
    makecontext(&there, end_here, 0);
    (void)swapcontext(&back, &there);
    return KINDS_FAILED;
}

static int both_at_once(void)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, end_orderly, NULL) != 0)
        return KINDS_FAILED;
    kinds_burn(100);
    exit(6);
}

/* Another thread holds the loader's lock for ever: it is in a constructor. */
static void *open_stuck(void *unused)
{
    (void)setenv("KINDS_CONSTRUCTOR", "waits", 1);
    (void)dlopen(kinds_plugin(), RTLD_NOW);
    return unused;
}

static void begin_stuck(void)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, open_stuck, NULL) != 0)
        kinds_fail("thread");
    kinds_burn(100);
}

static int at_once_beside_loader(void)
{
    begin_stuck();
    _exit(13);
}

static int killed_beside_loader(void)
{
    begin_stuck();
    (void)raise(SIGTERM);
    return KINDS_FAILED;
}

/* The heap's lock is held by the thread that the handler interrupted. */
static void touch_and_end(int signal)
{
    (void)signal;
    _exit(14);
}

static int in_handler_of_fault(void)
{
    struct sigaction action = {.sa_handler = touch_and_end};

    kinds_burn(150);
    (void)sigaction(SIGSEGV, &action, NULL);
    volatile int *volatile nowhere = NULL;
    *nowhere = 1;
    return KINDS_FAILED;
}

static int with_status(void)
{
    kinds_burn(100);
    exit(0x12345);
}

static int child_exits(void)
{
    kinds_burn(100);
    const int child = fork();
    if (child == 0) {
        kinds_burn_beside();
        kinds_burn(150);
        exit(21);
    }
    kinds_say("%d\n", kinds_wait(child));
    return KINDS_DONE;
}

static int child_of_thread_ends(void)
{
    kinds_burn_beside();
    kinds_burn(50);
    const int child = fork();
    if (child == 0) {
        kinds_burn(150);
        (void)syscall(SYS_exit, 22);
    }
    kinds_say("%d\n", kinds_wait(child));
    return KINDS_DONE;
}

const struct kinds_form kinds_ends[] = {
    {"quick", quick},
    {"at-once-in-thread", at_once_in_thread},
    {"orderly-in-thread", orderly_in_thread},
    {"exits-at-exit", exits_at_exit},
    {"ends-at-exit", ends_at_exit},
    {"works-at-exit", works_at_exit},
    {"thread-begins-at-exit", thread_begins_at_exit},
    {"main-leaves", main_leaves},
    {"main-leaves-raw", main_leaves_raw},
    {"all-leave-raw", all_leave_raw},
    {"main-leaves-c11", main_leaves_c11},
    {"last-is-cancelled", last_is_cancelled},
    {"group-raw", group_raw},
    {"in-handler", in_handler},
    {"exits-in-handler", exits_in_handler},
    {"in-handler-on-small-stack", in_handler_on_small_stack},
    {"on-coroutine", on_coroutine},
    {"both-at-once", both_at_once},
    {"at-once-beside-loader", at_once_beside_loader},
    {"killed-beside-loader", killed_beside_loader},
    {"in-handler-of-fault", in_handler_of_fault},
    {"with-status", with_status},
    {"child-exits", child_exits},
    {"child-of-thread-ends", child_of_thread_ends},
    {0},
};
