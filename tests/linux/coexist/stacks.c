/*
 * Small, alternate and foreign stacks.
 */
#include "kinds.h"

#include <setjmp.h>

#ifndef SS_AUTODISARM
#define SS_AUTODISARM (1u << 31)
#endif

#define FAULTS 3000
#define GUARD  4096u

/* Memory that ends in pages that cannot be touched at both sides, as careful runtimes have it. */
static void *guarded(size_t size)
{
    size = (size + GUARD - 1) / GUARD * GUARD;
    unsigned char *memory = mmap(NULL, size + 2 * GUARD, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED || mprotect(memory + GUARD, size, PROT_READ | PROT_WRITE) != 0)
        kinds_fail("memory");
    return memory + GUARD;
}

static void alternate(size_t size, int flags)
{
    const stack_t stack = {.ss_sp = guarded(size), .ss_size = size, .ss_flags = flags};

    if (sigaltstack(&stack, NULL) != 0)
        kinds_fail("sigaltstack");
}

static void handle(int signal, int flags, void (*handler)(int, siginfo_t *, void *))
{
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | flags};

    if (sigaction(signal, &action, NULL) != 0)
        kinds_fail("sigaction");
}

/* ---- faults that a barrier or a guard page handles ---- */

static _Thread_local unsigned char *page;
static _Thread_local unsigned handled;

static void open_page(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)info, (void)context;
    for (volatile int i = 0; i < 20000; i++) {
    }
    (void)mprotect(page, GUARD, PROT_READ | PROT_WRITE);
    handled++;
}

static unsigned faults(void)
{
    page = guarded(GUARD);
    for (unsigned i = 0; i < FAULTS; i++) {
        (void)mprotect(page, GUARD, PROT_NONE);
        *(volatile unsigned char *)page = 1;
    }
    return handled;
}

static size_t smallest(void)
{
    const long size = sysconf(_SC_MINSIGSTKSZ);

    return size > 0 ? (size_t)size + 1024 : 2048;
}

static int smallest_stack(void)
{
    alternate(smallest(), 0);
    handle(SIGSEGV, SA_ONSTACK, open_page);
    kinds_say("%u\n", faults());
    return KINDS_DONE;
}

static void *fault_in_thread(void *size)
{
    alternate((size_t)(uintptr_t)size, 0);
    (void)faults();
    return (void *)(uintptr_t)handled;
}

static int threads_with(size_t size)
{
    pthread_t threads[4];
    void *got;

    handle(SIGSEGV, SA_ONSTACK, open_page);
    for (unsigned i = 0; i < 4; i++)
        if (pthread_create(&threads[i], NULL, fault_in_thread, (void *)(uintptr_t)size) != 0)
            kinds_fail("thread");
    for (unsigned i = 0; i < 4; i++) {
        (void)pthread_join(threads[i], &got);
        kinds_say("%u\n", (unsigned)(uintptr_t)got);
    }
    return KINDS_DONE;
}

static int smallest_in_threads(void)
{
    return threads_with(smallest());
}

static int small_in_threads(void)
{
    return threads_with(8192);
}

static int disarms_itself(void)
{
    alternate(8192, (int)SS_AUTODISARM);
    handle(SIGSEGV, SA_ONSTACK, open_page);
    kinds_say("%u\n", faults());
    return KINDS_DONE;
}

/* The handler leaves by another context, which is why SS_AUTODISARM exists. */
static ucontext_t outside, inside;
static volatile int rounds;

static void switch_away(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)info, (void)context;
    (void)swapcontext(&inside, &outside);
}

static int switches_in_handler(void)
{
    alternate(16384, (int)SS_AUTODISARM);
    handle(SIGUSR1, SA_ONSTACK, switch_away);
    for (rounds = 0; rounds < 200; rounds++) {
        const int round = rounds;
        (void)getcontext(&outside);
        if (rounds == round) {
            rounds++;
            (void)raise(SIGUSR1);
        }
        kinds_burn(1);
    }
    kinds_say("%d\n", rounds);
    return KINDS_DONE;
}

/* ---- masks, and memory below a small stack that others use ---- */

#ifdef __aarch64__
#define LEAST 5120u /* the kernel's MINSIGSTKSZ; the C library's may be larger */
#else
#define LEAST 2048u
#endif
#define BELOW 65536u
#define FILL  0x5a

static void take_signal(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)info, (void)context;
    for (volatile int i = 0; i < 300000; i++) {
    }
    handled++;
}

static unsigned ours_blocked(const sigset_t *set)
{
    unsigned blocked = 0;

    for (int signal = SIGRTMIN; signal <= SIGRTMAX; signal++)
        blocked += sigismember(set, signal) == 1;
    return blocked;
}

/* As code that must not be interrupted does. */
static void block_and_restore(int signal, siginfo_t *info, void *context)
{
    sigset_t all, old;

    (void)sigfillset(&all);
    (void)sigprocmask(SIG_BLOCK, &all, &old);
    if (ours_blocked(&old))
        kinds_say("blocked in the handler\n");
    take_signal(signal, info, context);
    (void)sigprocmask(SIG_SETMASK, &old, NULL);
    for (volatile int i = 0; i < 3000000; i++) {
    }
}

static void unblock_all(int signal, siginfo_t *info, void *context)
{
    const struct timespec ms1 = {.tv_nsec = 1000000};
    sigset_t none;

    (void)sigemptyset(&none);
    (void)pthread_sigmask(SIG_SETMASK, &none, NULL);
    for (volatile int i = 0; i < 3000000; i++) {
    }
    if (ppoll(NULL, 0, &ms1, &none) != 0)
        kinds_say("interrupted\n");
    take_signal(signal, info, context);
}

static int set_by_call(const stack_t *stack, stack_t *old)
{
    return (int)syscall(SYS_sigaltstack, stack, old);
}

static int watch_below(size_t size, int flags, int (*set)(const stack_t *, stack_t *),
                       void (*handler)(int, siginfo_t *, void *))
{
    unsigned char *memory = mmap(NULL, BELOW + size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const stack_t stack = {.ss_sp = memory + BELOW, .ss_size = size, .ss_flags = flags};
    unsigned changed = 0;
    sigset_t mask;

    if (memory == MAP_FAILED)
        return KINDS_FAILED;
    memset(memory, FILL, BELOW);
    if (set(&stack, NULL) != 0)
        return KINDS_CANNOT;
    kinds_burn(100);
    handle(SIGUSR1, SA_ONSTACK, handler ? handler : take_signal);
    for (unsigned i = 0; handler && i < 100; i++)
        (void)raise(SIGUSR1);
    (void)sigprocmask(SIG_BLOCK, NULL, &mask);
    for (unsigned i = 0; i < BELOW; i++)
        changed += memory[i] != FILL;
    kinds_say("%u handled, %u bytes below have changed, %u blocked\n", handled, changed, ours_blocked(&mask));
    return KINDS_DONE;
}

static int masks_in_handler(void)
{
    return watch_below(8192, 0, sigaltstack, block_and_restore);
}

static int masks_in_handler_disarmed(void)
{
    return watch_below(8192, (int)SS_AUTODISARM, sigaltstack, block_and_restore);
}

static int no_masks_in_handler(void)
{
    return watch_below(8192, 0, sigaltstack, unblock_all);
}

static int small_by_call(void)
{
    return watch_below(8192, 0, set_by_call, take_signal);
}

/* Without a signal it is enough. */
static int least_by_call(void)
{
    return watch_below(LEAST, 0, set_by_call, NULL);
}

/* A mask from before it had the stack. */
static int jumps_to_old_mask(void)
{
    sigjmp_buf at;

    if (sigsetjmp(at, 1) != 0)
        kinds_burn(100);
    else if (watch_below(LEAST, 0, sigaltstack, NULL) != KINDS_DONE)
        return KINDS_CANNOT;
    else
        siglongjmp(at, 1);
    return KINDS_DONE;
}

/* ---- stacks that change while ticks come ---- */

static int swapped_always(void)
{
    const stack_t off = {.ss_flags = SS_DISABLE};
    stack_t stacks[2] = {{.ss_sp = guarded(8192), .ss_size = 8192}, {.ss_sp = guarded(65536), .ss_size = 65536}}, old;

    for (unsigned i = 0; i < 20000; i++) {
        if (sigaltstack(&stacks[i & 1], NULL) != 0 || sigaltstack(i % 3 ? &off : NULL, &old) != 0)
            return KINDS_FAILED;
        if (old.ss_sp != stacks[i & 1].ss_sp || old.ss_size != stacks[i & 1].ss_size || old.ss_flags != 0)
            return KINDS_FAILED;
        for (volatile int n = 0; n < 5000; n++) {
        }
    }
    return KINDS_DONE;
}

static int unmapped_after(void)
{
    const stack_t off = {.ss_flags = SS_DISABLE};

    for (unsigned i = 0; i < 300; i++) {
        const stack_t stack = {.ss_sp = guarded(16384), .ss_size = 16384};
        if (sigaltstack(&stack, NULL) != 0)
            return KINDS_FAILED;
        kinds_burn(1);
        if (sigaltstack(&off, NULL) != 0 || munmap((unsigned char *)stack.ss_sp - GUARD, 16384 + 2 * GUARD) != 0)
            return KINDS_FAILED;
    }
    return KINDS_DONE;
}

static int asked_only(void)
{
    stack_t now;

    kinds_burn(100);
    if (sigaltstack(NULL, &now) != 0)
        return KINDS_FAILED;
    kinds_say("%d %zu\n", now.ss_flags, now.ss_flags ? (size_t)0 : now.ss_size);
    return KINDS_DONE;
}

/* ---- stack overflow ---- */

static sigjmp_buf recovered;

static void overflowed(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)info, (void)context;
    for (volatile int i = 0; i < 500000; i++) {
    }
    siglongjmp(recovered, 1);
}

static __attribute__((noinline)) int descend(int depth)
{
    volatile char room[512];

    room[0] = (char)depth;
    return depth < 0 ? 0 : descend(depth + 1) + room[0];
}

static void *overflows(void *unused)
{
    volatile unsigned times = 0;

    alternate(16384, 0);
    for (unsigned i = 0; i < 20; i++)
        if (sigsetjmp(recovered, 1) == 0)
            (void)descend(1);
        else
            times++;
    kinds_say("%u\n", times);
    return unused;
}

static int overflow_handled(void)
{
    handle(SIGSEGV, SA_ONSTACK, overflowed);
    (void)overflows(NULL);
    return KINDS_DONE;
}

static int overflow_in_thread(void)
{
    pthread_t thread;

    handle(SIGSEGV, SA_ONSTACK, overflowed);
    if (pthread_create(&thread, NULL, overflows, NULL) != 0 || pthread_join(thread, NULL) != 0)
        return KINDS_FAILED;
    return KINDS_DONE;
}

/* ---- stacks without room for a handler ---- */

static ucontext_t back;
static volatile unsigned worked;

static void work_there(void)
{
    for (unsigned i = 0; i < 200; i++)
        for (volatile int n = 0; n < 1000000; n++) {
        }
    worked++;
}

static int coroutine_of(size_t size)
{
    ucontext_t there;

    if (getcontext(&there) != 0)
        return KINDS_FAILED;
    there.uc_stack.ss_sp = guarded(size);
    there.uc_stack.ss_size = size;
    there.uc_link = &back;
    makecontext(&there, work_there, 0);
    if (swapcontext(&back, &there) != 0)
        return KINDS_FAILED;
    kinds_say("%u\n", worked);
    return KINDS_DONE;
}

/* As a goroutine: a stack of a page, and an alternate stack for signals. */
static int page_stack(void)
{
    alternate(32768, 0);
    return coroutine_of(4096);
}

static int coroutine_16k(void)
{
    return coroutine_of(16384);
}

static int coroutine_12k_beside_alternate(void)
{
    alternate(8192, 0);
    return coroutine_of(12288);
}

/* A coroutine that a signal makes (GNU Pth, QEMU's coroutine-sigaltstack): its stack was an alternate one. */
static sigjmp_buf born, caller;

static void trampoline(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)info, (void)context;
    if (sigsetjmp(born, 0) == 0)
        return;
    work_there();
    siglongjmp(caller, 1);
}

static int coroutine_by_signal(void)
{
    const stack_t stack = {.ss_sp = guarded(32768), .ss_size = 32768}, off = {.ss_flags = SS_DISABLE};

    handle(SIGUSR2, SA_ONSTACK, trampoline);
    if (sigaltstack(&stack, NULL) != 0 || raise(SIGUSR2) != 0 || sigaltstack(&off, NULL) != 0)
        return KINDS_FAILED;
    if (sigsetjmp(caller, 0) == 0)
        siglongjmp(born, 1);
    kinds_say("%u\n", worked);
    return KINDS_DONE;
}

/* ---- nested handlers ---- */

static void nest(int signal, siginfo_t *info, void *context)
{
    (void)info, (void)context;
    for (volatile int i = 0; i < 300000; i++) {
    }
    if (signal == SIGUSR1)
        (void)raise(SIGUSR2);
    worked++;
}

static int nested(void)
{
    alternate(3 * smallest() + 4096, 0);
    handle(SIGUSR1, SA_ONSTACK, nest);
    handle(SIGUSR2, SA_ONSTACK, nest);
    for (unsigned i = 0; i < 300; i++)
        (void)raise(SIGUSR1);
    kinds_say("%u\n", worked);
    return KINDS_DONE;
}

const struct kinds_form kinds_stacks[] = {
    {"smallest", smallest_stack},
    {"smallest-in-threads", smallest_in_threads},
    {"small-in-threads", small_in_threads},
    {"disarms-itself", disarms_itself},
    {"switches-in-handler", switches_in_handler},
    {"masks-in-handler", masks_in_handler},
    {"masks-in-handler-disarmed", masks_in_handler_disarmed},
    {"no-masks-in-handler", no_masks_in_handler},
    {"small-by-call", small_by_call},
    {"least-by-call", least_by_call},
    {"jumps-to-old-mask", jumps_to_old_mask},
    {"swapped-always", swapped_always},
    {"unmapped-after", unmapped_after},
    {"asked-only", asked_only},
    {"overflow-handled", overflow_handled},
    {"overflow-in-thread", overflow_in_thread},
    {"page-stack", page_stack},
    {"coroutine-16k", coroutine_16k},
    {"coroutine-12k-beside-alternate", coroutine_12k_beside_alternate},
    {"coroutine-by-signal", coroutine_by_signal},
    {"nested", nested},
    {0},
};
