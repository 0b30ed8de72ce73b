/*
 * Lazy start of edgeprof's threads: a single-threaded program stays single-threaded until the ring is nearly full or a
 * message is due, or until it runs code of a library that it opened after the start. Then, or at a stop before that,
 * all samples are delivered. A signal handler detects the need. With a C library other than glibc the threads start at
 * once.
 */
#include "linux_test.h"

#include "plugin.h"

#define RATE   250
#define ROUNDS 100

static void *memory;

/* Number of tasks without edgeprof: an emulator has its own threads. */
static unsigned tasks_without;

static unsigned tasks_now(void)
{
    DIR *directory = opendir("/proc/self/task");
    unsigned count = 0;

    assert_non_null(directory);
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;)
        count += entry->d_name[0] != '.';
    (void)closedir(directory);
    return count;
}

static unsigned tasks(void)
{
    return 1 + tasks_now() - tasks_without;
}

static void begin_lazily(uint32_t interval_ms)
{
    const struct ep_config config = {.memory = memory,
                                     .memory_size = EP_MEMORY_DEFAULT,
                                     .service = "lazy",
                                     .rate_hz = RATE,
                                     .interval_ms = interval_ms,
                                     .flags = EP_LAZY_THREADS,
                                     .transport = &receiver_transport};

    receiver_reset();
    assert_int_equal(ep_start(&config), 0);
}

/* A joined thread is still listed for a moment. */
static unsigned tasks_soon(unsigned expected)
{
    for (unsigned i = 0; i < 1000 && tasks() != expected; i++)
        sleep_ms(1);
    return tasks();
}

static bool parks(void)
{
    begin_lazily(3600000);
    bool parked = tasks() == 1;
    assert_int_equal(ep_stop(5000), 0);
    return parked;
}

static void burn_until_three(void)
{
    for (unsigned i = 0; i < 300 && tasks() != 3; i++)
        burn(20 * MS);
    assert_int_equal(tasks(), 3);
}

static double account_stopped_early(void)
{
    uint64_t cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID);

    begin_lazily(3600000);
    burn(100 * MS); /* less than what fills half of the ring */
    assert_int_equal(tasks(), 1);
    assert_int_equal(ep_stop(5000), 0);
    assert_int_equal(tasks_soon(1), 1);
    return accounted(cpu);
}

TEST(test_stop_before_need)
{
    /* Less than a period is not shown: 4 ms. The last ticks, which come by chance, may stand for 12 ms too much. */
    ASSERT_RATIO(account_stopped_early(), 0.965, 1.125);
    assert_true(receiver.ns > 0);
}

static double account_full_ring(void)
{
    uint64_t cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    struct ep_stats stats;

    begin_lazily(3600000);
    assert_int_equal(tasks(), 1);
    burn_until_three();
    burn(500 * MS);
    assert_int_equal(ep_stop(5000), 0);
    assert_int_equal(ep_stats_get(&stats), 0);
    assert_int_equal(stats.lost_count[EP_LOSS_RING_FULL], 0);
    return accounted(cpu);
}

TEST(test_ring_nearly_full)
{
    ASSERT_RATIO(account_full_ring(), 0.985, 1.005);
}

TEST(test_flush)
{
    begin_lazily(100);
    assert_int_equal(tasks(), 1);
    burn(20 * MS);
    assert_int_equal(tasks(), 1);
    assert_int_equal(ep_flush(), 0);
    assert_int_equal(tasks_soon(3), 3);
    for (unsigned i = 0; i < 500 && receiver.ns == 0; i++)
        sleep_ms(10);
    assert_true(receiver.ns > 0);
    assert_int_equal(ep_stop(5000), 0);
}

static void *idle(void *argument)
{
    return argument;
}

TEST(test_program_creates_thread)
{
    begin_lazily(3600000);
    run_thread(idle);
    assert_int_equal(tasks_soon(3), 3);
    assert_int_equal(ep_stop(5000), 0);
}

/* Opens the plugin that was built beside this program. */
static void *plugin_open(unsigned (**call)(void (*)(void *), void *))
{
    char path[512];
    ssize_t size = readlink("/proc/self/exe", path, sizeof path - 16);

    assert_true(size > 0);
    path[size] = 0;
    (void)strcpy(strrchr(path, '/'), "/plugin.so");
    void *plugin = dlopen(path, RTLD_NOW);
    assert_non_null(plugin);
    *(void **)call = dlsym(plugin, "plugin_call");
    assert_non_null(*call);
    return plugin;
}

static void burn_in_plugin(void *unused)
{
    (void)unused;
    burn(400 * MS);
}

/* Only the collect thread can look up a library, long before the ring is full or a message due. */
TEST(test_library_opened_early)
{
    unsigned (*call)(void (*)(void *), void *);
    struct ep_stats s;

    begin_lazily(3600000);
    burn(50 * MS);
    assert_int_equal(tasks(), 1);
    void *plugin = plugin_open(&call);
    assert_int_equal(call(burn_in_plugin, NULL), 1);
    assert_int_equal(tasks_soon(3), 3);
    assert_int_equal(ep_stop(5000), 0);
    assert_int_equal(ep_stats_get(&s), 0);
    assert_true(s.exact + s.gap + s.cut > 20);
    assert_in_range(s.cut, 0, (s.exact + s.gap + s.cut) / 10);
    (void)dlclose(plugin);
}

/* Each thread's stack and block are released: memory does not grow, and the C library's state stays intact. */
TEST(test_many_rounds)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        begin_lazily(3600000);
        if (i % 2)
            assert_int_equal(ep_flush(), 0);
        burn(2 * MS);
        assert_int_equal(ep_stop(5000), 0);
        assert_int_equal(tasks_soon(1), 1);
    }
}

/* Only single-threaded programs may create a user namespace. EPERM: this system forbids it. */
TEST(test_unshare)
{
    pid_t child = fork();
    if (child == 0) {
        begin_lazily(3600000);
        burn(50 * MS);
        int error = unshare(CLONE_NEWUSER) == 0 ? 0 : errno;
        _exit(error == EINVAL ? 1 : 0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

int main(void)
{
    memory = mmap(NULL, EP_MEMORY_DEFAULT, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return 1;
    tasks_without = tasks_now();
    if (!parks()) {
        print_message("linux_lazy: SKIPPED: this C library's threads cannot be parked\n");
        return 0;
    }
    return test_run();
}
