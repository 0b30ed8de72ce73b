/*
 * Alternate signal stacks. Properties: a handler of the program on a small one and a tick never overflow it; what the
 * program sees of its masks is what it set; a tick never lands on a stack that has no room for it alone; code on a
 * stack of 2 KiB, as Go has, is profiled.
 */
#include "linux_test.h"

#include <alloca.h>
#include <sys/auxv.h>
#include "port/linux/own_signal.h"

#define RATE   1000
#define FAULTS 6000
#define PAGE   4096u

static _Thread_local char *page;
static atomic_uint handled;
static size_t use;

static size_t frame_bytes(void)
{
    size_t bytes = (size_t)getauxval(51); /* AT_MINSIGSTKSZ */

    return bytes ? bytes : 2048;
}

/* Memory above a page that faults. */
static char *guarded(size_t bytes)
{
    char *at = mmap(NULL, bytes + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_true(at != MAP_FAILED && mprotect(at, PAGE, PROT_NONE) == 0);
    return at + PAGE;
}

static void alternate_set(size_t bytes)
{
    const stack_t stack = {.ss_sp = guarded(bytes), .ss_size = bytes};

    assert_int_equal(sigaltstack(&stack, NULL), 0);
}

static void on_fault(int signal, siginfo_t *info, void *ucontext)
{
    volatile char *room = alloca(use);

    (void)signal;
    (void)ucontext;
    for (size_t i = 0; i < use; i += 64)
        room[i] = (char)i;
    for (volatile int i = 0; i < 20000; i++) {
    }
    char *at = (char *)((uintptr_t)info->si_addr & ~(uintptr_t)(PAGE - 1));
    if (at != page || mprotect(at, PAGE, PROT_READ | PROT_WRITE) != 0)
        _exit(9);
    (void)atomic_fetch_add(&handled, 1);
}

static void *fault_many(void *unused)
{
    alternate_set(8192);
    page = guarded(PAGE);
    for (unsigned i = 0; i < FAULTS; i++) {
        (void)mprotect(page, PAGE, PROT_NONE);
        ((volatile char *)page)[i % PAGE] = 1;
    }
    return unused;
}

/* The handler uses what leaves no room for a second frame and edgeprof's handler. */
TEST(test_tick_in_a_handler)
{
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK}, seen;
    pthread_t threads[2];
    struct ep_stats stats;

    if (8192 < 2 * frame_bytes() + 400)
        skip();
    use = 8192 - 2 * frame_bytes() - 200;
    assert_int_equal(sigaction(SIGSEGV, &action, NULL), 0);
    receiver_reset();
    assert_int_equal(begin_profile(RATE, 100), 0);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, fault_many, NULL), 0);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(sigaction(SIGSEGV, NULL, &seen), 0);
    assert_int_equal(end_profile(1000), 0);
    assert_int_equal(handled, 2 * FAULTS);
    assert_true(ep_linux_set_bits(&seen.sa_mask) == 0);
    assert_int_equal(ep_stats_get(&stats), 0);
    /* A thread that is nearly always in the handler may have no sample; its CPU time counts all the same. */
    assert_true(stats.weight_ns + stats.thread_exit_ns > 0);
}

static void *burn_on_tiny(void *unused)
{
    static struct ep_stats stats;

    alternate_set(frame_bytes() + 256 > 5120 ? frame_bytes() + 256 : 5120); /* the least of every kernel */
    burn(200 * MS);
    const stack_t off = {.ss_flags = SS_DISABLE};
    assert_int_equal(sigaltstack(&off, NULL), 0);
    for (unsigned i = 0; i < 200 && ep_stats_get(&stats) == 0 && stats.samples < 10; i++)
        burn(50 * MS); /* the thread gets its timer back with the next scan */
    return unused;
}

/* Even a tick alone has no room; when the stack is gone the thread has samples. */
TEST(test_tiny)
{
    struct ep_stats stats;

    receiver_reset();
    assert_int_equal(begin_profile(RATE, 100), 0);
    run_thread(burn_on_tiny);
    assert_int_equal(end_profile(1000), 0);
    assert_int_equal(ep_stats_get(&stats), 0);
    assert_true(stats.samples > 5);
}

static ucontext_t back, there;

static void burn_there(void)
{
    burn(300 * MS);
    (void)swapcontext(&there, &back);
}

/* A stack without room for the kernel's frame, and an alternate one with room. */
TEST(test_small_stack)
{
    struct ep_stats stats;
    const size_t bytes = 2048; /* burn() needs some hundred bytes */

    alternate_set(64 * 1024);
    receiver_reset();
    assert_int_equal(begin_profile(RATE, 100), 0);
    assert_int_equal(getcontext(&there), 0);
    there.uc_stack.ss_sp = guarded(PAGE) + PAGE - bytes;
    there.uc_stack.ss_size = bytes;
    there.uc_link = &back;
    makecontext(&there, burn_there, 0);
    assert_int_equal(swapcontext(&back, &there), 0);
    assert_int_equal(end_profile(1000), 0);
    assert_int_equal(ep_stats_get(&stats), 0);
    assert_true(stats.samples > 10);
}

TEST_MAIN
