/*
 * Looks for async parents as the profiler does, but when the test wants it: in a signal handler, as a CPU sample does,
 * and behind a call with a transition, as a wait does.
 *
 *   async_interrupt_start  a thread that signals all threads in a section, all the time
 *   async_interrupt_begin  a section begins: each signal is a capture
 *   async_interrupt_end    it ends; copies the captures
 *   async_is_managed       whether managed code is there
 */

#include "../../program.h"
#include "port/linux/linux.h"
#include "port/nativeaot/runtime.h"

#define THREADS  64u
#define CAPTURES 64u

void async_interrupt_start(void);
void async_interrupt_begin(void);
unsigned async_interrupt_end(struct ep_hook_parents *parents);
int async_find_waited(struct ep_hook_parents *parents);
bool async_is_managed(uintptr_t at);

static atomic_int inside[THREADS]; /* ids of threads in a section; 0: free */
static _Thread_local struct {
    struct ep_hook_parents found[CAPTURES];
    unsigned slot, captures;
    volatile sig_atomic_t counts;
} mine;

static void on_signal(int number, siginfo_t *info, void *ucontext)
{
    const int kept = errno;
    struct ep_registers registers;

    (void)number;
    (void)info;
    if (mine.counts && mine.captures < CAPTURES) {
        struct ep_hook_parents *parents = &mine.found[mine.captures++];
        parents->count = 0;
        ep_linux_context(ucontext, &registers);
        (void)ep_hook_interrupted(&registers, parents);
    }
    errno = kept;
}

static void *signal_all(void *unused)
{
    const struct timespec pause = {.tv_nsec = 20000};

    prctl(PR_SET_TIMERSLACK, 1);
    for (;;) {
        for (unsigned i = 0; i < THREADS; i++)
            if (atomic_load(&inside[i]))
                syscall(SYS_tgkill, getpid(), atomic_load(&inside[i]), SIGUSR2);
        nanosleep(&pause, NULL);
    }
    return unused;
}

void async_interrupt_start(void)
{
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART};
    pthread_t thread;

    sigaction(SIGUSR2, &action, NULL);
    if (pthread_create(&thread, NULL, signal_all, NULL) == 0)
        pthread_detach(thread);
}

void async_interrupt_begin(void)
{
    int none = 0;

    mine.captures = mine.slot = 0;
    mine.counts = 1;
    while (mine.slot < THREADS && !atomic_compare_exchange_strong(&inside[mine.slot], &none, (int)gettid())) {
        none = 0;
        mine.slot++;
    }
}

unsigned async_interrupt_end(struct ep_hook_parents *parents)
{
    mine.counts = 0;
    if (mine.slot < THREADS)
        atomic_store(&inside[mine.slot], 0);
    for (unsigned i = 0; i < mine.captures; i++)
        parents[i] = mine.found[i];
    return mine.captures;
}

bool async_is_managed(uintptr_t at)
{
    return ep_dotnet_is_managed(at);
}

/* Objects may move before it looks. */
int async_find_waited(struct ep_hook_parents *parents)
{
    const struct timespec pause = {.tv_nsec = 1000};
    static atomic_uint turn;

    if (atomic_fetch_add(&turn, 1) % 4 == 0)
        nanosleep(&pause, NULL);
    return ep_dotnet_async_find_waited(NULL, parents);
}
