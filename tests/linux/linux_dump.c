/*
 * A stack dump of all threads of a real process: threads in announced waits, on the CPU, asleep in the C library, and
 * threads that change state all the time. The dump has each thread once, with its name and current function, and
 * interrupts no system call. Two threads that wait for each other's lock show both functions.
 */
#include "linux_test.h"

#include "tests/unit/core_rooms.h"

#define RATE      97
#define CREW      16u
#define NAME_SIZE 16u

/* A sanitizer intercepts poll() with a function whose frame requires the frame pointer. */
#ifdef __SANITIZE_ADDRESS__
#define SLEEPERS_NAMED 0
#else
#define SLEEPERS_NAMED 1
#endif

struct member {
    char name[NAME_SIZE];
    void (*in)(void);
    unsigned leaf; /* special frame of the leaf; 0: code */
};

static atomic_bool over;
static atomic_uint interrupted, ready;

/* Stacks of the crew. The deliver thread writes them; the test reads them after the profiler has stopped. */
static struct {
    unsigned times, leaf, depth;
    bool named;
} seen[CREW];
static unsigned all, strangers;

static void pause_ms(int ms)
{
    if (poll(NULL, 0, ms) < 0)
        (void)atomic_fetch_add(&interrupted, 1);
}

/* One call each, so that the waiting frame is this function's; a compiler could move a loop's call elsewhere. */
static __attribute__((noinline)) void in_wait(void)
{
    ep_wait_begin(EP_WAIT_SLEEP);
    while (!atomic_load(&over))
        pause_ms(20000);
    ep_wait_end();
}

static __attribute__((noinline)) void in_network(void)
{
    ep_wait_begin(EP_WAIT_NETWORK);
    while (!atomic_load(&over))
        pause_ms(20000);
    ep_wait_end();
}

static __attribute__((noinline)) void on_cpu(void)
{
    while (!atomic_load(&over))
        for (volatile int i = 0; i < 1000; i++) {
        }
}

/* Without frame pointers: unwinding from the C library to the thread's start does not need them. */
static __attribute__((noinline, optimize("omit-frame-pointer"))) void in_library(void)
{
    while (!atomic_load(&over))
        pause_ms(20000);
}

static sem_t never;

static __attribute__((noinline, optimize("omit-frame-pointer"))) void in_semaphore(void)
{
    while (sem_wait(&never) != 0)
        (void)atomic_fetch_add(&interrupted, 1);
}

/* Usually awake when observed, but never for long. */
static __attribute__((noinline, optimize("omit-frame-pointer"))) void restless(void)
{
    while (!atomic_load(&over))
        (void)usleep(50);
}

static const struct member crew[CREW] = {
    {"wait-0", in_wait, EP_FRAME_WAIT + EP_WAIT_SLEEP},
    {"wait-1", in_wait, EP_FRAME_WAIT + EP_WAIT_SLEEP},
    {"wait-2", in_network, EP_FRAME_WAIT + EP_WAIT_NETWORK},
    {"wait-3", in_network, EP_FRAME_WAIT + EP_WAIT_NETWORK},
    {"cpu-0", on_cpu, 0},
    {"cpu-1", on_cpu, 0},
    {"cpu-2", on_cpu, 0},
    {"cpu-3", on_cpu, 0},
    {"libc-0", in_library, 0},
    {"libc-1", in_library, 0},
    {"libc-2", in_library, 0},
    {"sem-0", in_semaphore, 0},
    {"sem-1", in_semaphore, 0},
    {"sem-2", in_semaphore, 0},
    {"restless-0", restless, 0},
    {"restless-1", restless, 0},
};

static void *member_main(void *argument)
{
    const struct member *member = argument;

    (void)pthread_setname_np(pthread_self(), member->name);
    (void)atomic_fetch_add(&ready, 1);
    member->in();
    return NULL;
}

/* Whether the frame is within the function. */
static bool is_in(uint32_t frame, void (*function)(void))
{
    const struct ep_module *module = ep_module_of_linear(&ep_running()->unwinder.modules, frame);
    uintptr_t start = ep_code_address((uintptr_t)function);

    return module && frame - module->base + module->start >= start &&
           frame - module->base + module->start < ep_function_end(&ep_running()->unwinder.modules, start);
}

static void on_entry(const struct receiver_stack *stack)
{
    unsigned i = 0;

    if (stack->kind != EP_KIND_THREAD)
        return;
    all += (unsigned)stack->value;
    while (i < CREW && strcmp(crew[i].name, stack->with.thread) != 0)
        i++;
    if (i == CREW) {
        strangers++;
        return;
    }
    seen[i].times += (unsigned)stack->value;
    seen[i].leaf = stack->frame[0] < EP_FRAME_FIRST_ADDRESS ? stack->frame[0] : 0;
    seen[i].depth = stack->depth;
    for (unsigned at = 0; at < stack->depth; at++)
        seen[i].named |= stack->frame[at] >= EP_FRAME_FIRST_ADDRESS && is_in(stack->frame[at], crew[i].in);
}

static void begin(uint32_t kinds, uint32_t interval_ms)
{
    receiver_reset();
    memset(seen, 0, sizeof seen);
    all = strangers = 0;
    receiver.on_entry = on_entry;
    assert_int_equal(begin_profile(RATE, interval_ms), 0);
    assert_int_equal(ep_kinds_set(kinds), 0);
}

static void until(unsigned threads)
{
    struct ep_stats s;

    for (unsigned tries = 0; tries < 600; tries++) {
        assert_int_equal(ep_stats_get(&s), 0);
        if (s.kind_value[EP_KIND_THREAD] >= threads)
            return;
        sleep_ms(50);
    }
}

static bool is_sleeper(unsigned i)
{
    return crew[i].in == in_library || crew[i].in == in_semaphore;
}

TEST(test_dump_has_every_thread)
{
    pthread_t thread[CREW];

    assert_int_equal(ep_threads_dump(), -ESRCH);
    assert_int_equal(sem_init(&never, 0, 0), 0);
    begin(EP_KIND_BIT(EP_KIND_CPU) | EP_KIND_BIT(EP_KIND_WAIT), 20000);
    cpu_checks = CPU_MOST; /* some threads are at work at the end */
    for (unsigned i = 0; i < CREW; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, member_main, (void *)(uintptr_t)&crew[i]), 0);
    while (atomic_load(&ready) < CREW)
        sleep_ms(5);
    sleep_ms(100);
    assert_int_equal(ep_threads_dump(), 0);
    until(CREW + 1);
    assert_int_equal(end_profile(5000), 0);
    atomic_store(&over, true);
    assert_int_equal(atomic_load(&interrupted), 0);
    for (unsigned i = 0; i < CREW; i++)
        assert_int_equal(sem_post(&never), 0);
    assert_null(receiver.broken);
    for (unsigned i = 0; i < CREW; i++) {
        print_message("%-10s %u frames%s\n", crew[i].name, seen[i].depth, seen[i].named ? ", named" : "");
        assert_int_equal(seen[i].times, 1);
        assert_int_equal(seen[i].leaf, crew[i].leaf);
        assert_true(seen[i].depth >= 1);
        if (SLEEPERS_NAMED && is_sleeper(i))
            assert_true(seen[i].named);
        if (crew[i].leaf || crew[i].in == on_cpu)
            assert_true(seen[i].named);
    }
    assert_int_equal(strangers, 1); /* main */
    assert_int_equal(all, CREW + 1);
}

TEST_MAIN
