/*
 * Profiling may not change a service's errno, interrupt its sleeping calls, run its signal handlers on edgeprof's
 * threads, run transport code on its threads, or let a late signal kill it.
 */
#include "linux_test.h"

#include "port/linux/own_signal.h"

#define RATE 1000

/* ---- numbers of signals: first, while no handler is installed ---- */

static atomic_int sent_to_us;

static void theirs(int signal)
{
    (void)signal;
    atomic_fetch_add(&sent_to_us, 1);
}

/* Successive profiles with signal numbers used by the program. Runs in a child, because handlers stay installed. */
static int numbers_taken(void)
{
    struct sigaction action = {.sa_handler = theirs}, now;

    for (int i = SIGRTMIN; i <= SIGRTMAX; i++)
        (void)sigaction(i, &action, NULL);
    int busy = begin_profile(100, 100);
    action.sa_handler = SIG_DFL;
    (void)sigaction(SIGRTMAX - 10, &action, NULL); /* in the range, and free */
    int start = begin_profile(100, 100), number = ep_linux_signal();
    (void)sigaction(number, NULL, &now);
    if (busy != -EBUSY || start != 0 || number != SIGRTMAX - 10 || now.sa_handler != SIG_DFL)
        return 1;
    (void)raise(SIGRTMIN + 3);
    if (end_profile(100) != 0 || atomic_load(&sent_to_us) != 1)
        return 2;
    return begin_profile(100, 100) == 0 && ep_linux_signal() == number && end_profile(100) == 0 ? 0 : 3;
}

/* A number that the program starts to use is given up; the profile continues with another. */
static int numbers_given_back(void)
{
    struct sigaction action = {.sa_handler = theirs};
    struct ep_stats s;

    if (begin_profile(RATE, 100) != 0)
        return 1;
    for (int i = 0; i < 3; i++) {
        int number = ep_linux_signal();
        (void)sigaction(number, &action, NULL);
        (void)raise(number);
        if (ep_linux_signal() == number)
            return 2;
    }
    int last = ep_linux_signal();
    (void)sigaction(last, &action, NULL);
    (void)raise(last);
    burn(200 * MS);
    if (ep_linux_signal() != last || atomic_load(&sent_to_us) != 4 || end_profile(1000) != 0)
        return 3;
    return ep_stats_get(&s) == 0 && s.samples > 10 ? 0 : 4;
}

static void in_a_child(int (*body)(void))
{
    int status;
    pid_t child = fork();

    if (child == 0)
        _exit(body());
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

TEST(test_numbers)
{
    in_a_child(numbers_taken);
    in_a_child(numbers_given_back);
}

/* ---- errno ---- */

TEST(test_errno_is_kept)
{
    struct ep_stats s;
    unsigned changed = 0;

    receiver_reset();
    assert_int_equal(begin_profile(RATE, 100), 0);
    uint64_t end = clock_ns(CLOCK_THREAD_CPUTIME_ID) + 400 * MS;
    errno = 4711;
    for (unsigned i = 1; i % 1024 || clock_ns(CLOCK_THREAD_CPUTIME_ID) < end; i++) {
        __asm__ volatile("" ::: "memory");
        changed += errno != 4711;
        errno = 4711;
    }
    assert_int_equal(end_profile(1000), 0);
    assert_int_equal(ep_stats_get(&s), 0);
    assert_true(s.samples + s.lost_count[EP_LOSS_RING_FULL] > 20); /* collect may be late on a busy machine */
    assert_int_equal(changed, 0);
}

/* ---- interrupted calls ---- */

#define CALLS_LEAST 300u

static atomic_bool enough;

struct sleeper {
    int kind; /* 0 poll, 1 nanosleep, 2 receive with a timeout */
    uint64_t calls, interrupted;
};

static bool sleep_once(int kind, int fd)
{
    struct pollfd none = {.fd = -1};
    struct timespec ms = {.tv_nsec = (long)MS};
    char byte;

    if (kind == 0)
        return poll(&none, 1, 1) < 0 && errno == EINTR;
    if (kind == 1)
        return nanosleep(&ms, NULL) < 0 && errno == EINTR;
    return recv(fd, &byte, 1, 0) < 0 && errno == EINTR;
}

/* Sleeps much and computes little, so that timers expire on this thread. */
static void *sleeper_main(void *argument)
{
    struct sleeper *s = argument;
    struct timeval timeout = {.tv_usec = 1000};
    int fds[2];

    if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds) != 0 ||
        setsockopt(fds[0], SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout) != 0)
        return NULL;
    while (!atomic_load(&enough) || s->calls < CALLS_LEAST) {
        s->interrupted += sleep_once(s->kind, fds[0]);
        s->calls++;
        burn(MS / 2);
    }
    (void)close(fds[0]);
    (void)close(fds[1]);
    return NULL;
}

static void run_sleepers(struct sleeper *sleepers)
{
    pthread_t threads[3];

    atomic_store(&enough, false);
    for (int i = 0; i < 3; i++) {
        sleepers[i] = (struct sleeper){.kind = i};
        assert_int_equal(pthread_create(&threads[i], NULL, sleeper_main, &sleepers[i]), 0);
    }
    sleep_ms(1000);
    atomic_store(&enough, true);
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
}

TEST(test_no_interrupted_calls)
{
    struct sleeper with[3], without[3];
    struct ep_stats s;

    run_sleepers(without);
    receiver_reset();
    assert_int_equal(begin_profile(RATE, 200), 0);
    run_sleepers(with);
    assert_int_equal(end_profile(1000), 0);
    assert_int_equal(ep_stats_get(&s), 0);
    assert_true(s.samples + s.lost_count[EP_LOSS_RING_FULL] > 10); /* under load short bursts run between ticks */
    for (int i = 0; i < 3; i++) {
        print_message("             kind %d: %llu of %llu interrupted, %llu without\n", i,
                      (unsigned long long)with[i].interrupted, (unsigned long long)with[i].calls,
                      (unsigned long long)without[i].interrupted);
        assert_true(with[i].calls > 100);
        /* A tick may hit just before the call. Signals to sleepers would interrupt most calls. */
        assert_true(with[i].interrupted <= without[i].interrupted + 1 + with[i].calls / 500);
    }
}

/* ---- edgeprof's own threads ---- */

/* The blocked signals of an edgeprof thread; *ours is false for other threads. */
static uint64_t blocked_of(const char *tid, bool *ours)
{
    char path[64], line[256];
    unsigned long long mask = 0;

    *ours = false;
    snprintf(path, sizeof path, "/proc/self/task/%.20s/status", tid);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file)) {
        if (strncmp(line, "Name:\tedgeprof", 14) == 0)
            *ours = true;
        (void)sscanf(line, "SigBlk: %llx", &mask);
    }
    if (file)
        (void)fclose(file);
    return mask;
}

TEST(test_own_threads_block_all_signals)
{
    const int open_to_all[] = {SIGKILL, SIGSTOP, 32, 33}; /* the last two are reserved by the C library */
    unsigned found = 0;

    receiver_reset();
    assert_int_equal(begin_profile(19, 1000), 0);
    sleep_ms(50);
    DIR *tasks = opendir("/proc/self/task");
    assert_non_null(tasks);
    for (struct dirent *entry; (entry = readdir(tasks)) != NULL;) {
        bool ours;
        uint64_t expected = UINT64_MAX, mask = blocked_of(entry->d_name, &ours);
        if (!ours)
            continue;
        for (int i = 0; i < 4; i++)
            expected &= ~(1ull << (open_to_all[i] - 1));
        assert_int_equal(mask & expected, expected);
        found++;
    }
    (void)closedir(tasks);
    assert_int_equal(found, 2);
    assert_int_equal(end_profile(1000), 0);
}

/* ---- the thread that runs transport code ---- */

static uint32_t service_tids[8], sender;
static unsigned senders, by_service;
static char sender_name[32];

static void note_sender(const struct ep_message *message, const struct ep_deadline *deadline)
{
    uint32_t tid = tid_of();

    (void)message;
    (void)deadline;
    if (tid != sender) {
        sender = tid;
        senders++;
        (void)pthread_getname_np(pthread_self(), sender_name, sizeof sender_name);
    }
    for (unsigned i = 0; i < 8; i++)
        by_service += tid == service_tids[i];
}

static void *service_main(void *argument)
{
    service_tids[(uintptr_t)argument] = tid_of();
    burn(100 * MS);
    (void)ep_flush();
    burn(50 * MS);
    return NULL;
}

TEST(test_transport_runs_on_the_deliver_thread)
{
    pthread_t threads[7];

    receiver_reset();
    receiver.on_send = note_sender;
    service_tids[7] = tid_of();
    assert_int_equal(begin_profile(RATE, 100), 0);
    for (unsigned i = 0; i < 7; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, service_main, (void *)(uintptr_t)i), 0);
    for (unsigned i = 0; i < 7; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(end_profile(5000), 0);
    assert_true(receiver.sends > 1);
    assert_int_equal(senders, 1);
    assert_int_equal(by_service, 0);
    assert_string_equal(sender_name, "edgeprof-dlvr");
}

/* ---- late and foreign signals ---- */

/* Blocks all signals in the kernel, but keeps the C library's view of this thread's mask. */
static void block_really(int how)
{
    (void)ep_linux_mask_raw(how, ep_linux_signals_ours());
}

static void queue_tick(uint32_t slot, uint32_t generation)
{
    siginfo_t info = {.si_code = SI_TIMER};

    info.si_value.sival_ptr = (void *)ep_linux_tick_value(slot, generation);
    assert_int_equal(syscall(SYS_rt_tgsigqueueinfo, getpid(), tid_of(), ep_linux_signal(), &info), 0);
}

/* ---- handlers that leave by siglongjmp() ---- */

#define JUMPS 10000u
static sigjmp_buf jump_to;

static void jump_out(int signal)
{
    siglongjmp(jump_to, signal);
}

/* A handler that never returns must not leave a sample half done: nothing would end at stop, and the ring be stuck. */
TEST(test_jumps_out_of_handlers)
{
    struct sigaction action = {.sa_handler = jump_out}, before;
    struct itimerval often = {{0, 100}, {0, 100}}, never = {{0, 0}, {0, 0}};
    static volatile unsigned jumps;
    struct ep_stats s;

    receiver_reset();
    assert_int_equal(sigaction(SIGALRM, &action, &before), 0);
    uint64_t cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    assert_int_equal(begin_profile(1000, 200), 0);
    assert_int_equal(setitimer(ITIMER_REAL, &often, NULL), 0);
    for (jumps = 0; jumps < JUMPS;) {
        if (sigsetjmp(jump_to, 1) == 0)
            burn(50 * MS);
        else
            jumps++;
    }
    assert_int_equal(setitimer(ITIMER_REAL, &never, NULL), 0);
    assert_int_equal(ep_stats_get(&s), 0);
    uint64_t samples = s.samples;
    burn(100 * MS);
    assert_int_equal(end_profile(5000), 0);
    assert_int_equal(ep_stats_get(&s), 0);
    assert_true(s.samples > samples); /* the ring still takes samples */
    assert_int_equal(s.lost_count[EP_LOSS_RING_FULL], 0);
    assert_int_equal(sigaction(SIGALRM, &before, NULL), 0);
    double share = accounted(cpu);
    assert_true(share > 0.97 && share < 1.01);
}

TEST(test_signals_pending_over_stop)
{
    for (unsigned i = 0; i < 20; i++) {
        receiver_reset();
        assert_int_equal(begin_profile(RATE, 100), 0);
        block_really(SIG_BLOCK);
        burn(10 * MS);
        queue_tick(0, 1);
        assert_int_equal(end_profile(1000), 0);
        block_really(SIG_UNBLOCK);
        burn(2 * MS);
        queue_tick(0, 1);
    }
}

/* Ticks for earlier owners of a slot, and for slots that do not exist, are dropped. */
TEST(test_foreign_ticks)
{
    struct ep_stats s;

    receiver_reset();
    assert_int_equal(begin_profile(1, 100), 0);
    for (uint32_t slot = 0; slot <= EP_THREADS; slot++)
        for (uint32_t generation = 128; generation < 138; generation++)
            queue_tick(slot, generation);
    assert_int_equal(end_profile(1000), 0);
    assert_int_equal(ep_stats_get(&s), 0);
    assert_true(s.samples < 10);
}

TEST_MAIN
