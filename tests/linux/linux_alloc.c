/*
 * Intercepts every allocation of the process: between the return of ep_start() and ep_stop() the profiler makes none,
 * on any thread. ep_start() itself causes allocations only within the C library (pthread_create, pthread_atfork,
 * pinning of modules), which are listed. One more may come later: when the service has loaded a module, pinning it may
 * make ld.so allocate once.
 */
#include "linux_test.h"

#include <malloc.h>

#define SEEN 256u

enum { IDLE, STARTING, RUNNING };

static struct {
    const void *caller;
    const char *what;
    uint32_t tid;
} seen[SEEN];
static atomic_uint seen_count, phase;

static void note(const char *what, const void *caller)
{
    if (atomic_load(&phase) == IDLE)
        return;
    unsigned at = atomic_fetch_add(&seen_count, 1);
    if (at < SEEN) {
        seen[at].caller = caller;
        seen[at].what = what;
        seen[at].tid = (uint32_t)syscall(SYS_gettid);
    }
}

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *block, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void __libc_free(void *block);

#define NOTE(what) note(what, __builtin_return_address(0))

void *malloc(size_t size)
{
    NOTE("malloc");
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    NOTE("calloc");
    return __libc_calloc(count, size);
}

void *realloc(void *block, size_t size)
{
    NOTE("realloc");
    return __libc_realloc(block, size);
}

void *memalign(size_t alignment, size_t size)
{
    NOTE("memalign");
    return __libc_memalign(alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    NOTE("aligned_alloc");
    return __libc_memalign(alignment, size);
}

int posix_memalign(void **block, size_t alignment, size_t size)
{
    NOTE("posix_memalign");
    *block = __libc_memalign(alignment, size);
    return *block ? 0 : ENOMEM;
}

void free(void *block)
{
    if (block)
        NOTE("free");
    __libc_free(block);
}

void *mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset)
{
    NOTE("mmap");
#ifdef SYS_mmap2
    long result = syscall(SYS_mmap2, address, size, protection, flags, fd, offset / 4096);
#else
    long result = syscall(SYS_mmap, address, size, protection, flags, fd, offset);
#endif
    return (void *)result; /* -1 is MAP_FAILED */
}

/* The file that contains the caller. */
static const char *object_of(const void *caller)
{
    Dl_info info;

    return dladdr(caller, &info) && info.dli_fname ? info.dli_fname : "?";
}

static void list(const char *title)
{
    unsigned count = atomic_load(&seen_count);

    print_message("             %s: %u calls\n", title, count);
    for (unsigned i = 0; i < count && i < SEEN; i++)
        print_message("               %s from %s, thread %s\n", seen[i].what, object_of(seen[i].caller),
                      seen[i].tid == (uint32_t)getpid() ? "main" : "other");
}

/* But for the page that says that this process is profiled (claim.c). */
static void assert_callers_are_libc(void)
{
    unsigned pages = 0;

    assert_true(atomic_load(&seen_count) < SEEN);
    for (unsigned i = 0; i < atomic_load(&seen_count); i++)
        if (!strstr(object_of(seen[i].caller), "libc.so") && !strstr(object_of(seen[i].caller), "ld-linux")) {
            assert_string_equal(seen[i].what, "mmap");
            pages++;
        }
    assert_true(pages <= 1);
}

/* ---- a service that does not allocate ---- */

static pthread_barrier_t barrier;

static void *worker(void *argument)
{
    (void)argument;
    for (unsigned i = 0; i < 3; i++) {
        (void)pthread_barrier_wait(&barrier);
        burn(80 * MS);
    }
    return NULL;
}

static int answers[] = {0, -ECONNREFUSED, 0, -ESTALE, -EBADMSG};

TEST(test_no_allocation)
{
    pthread_t threads[3];
    struct ep_stats s;

    receiver_reset();
    receiver.answers = answers;
    receiver.answer_count = sizeof answers / sizeof answers[0];
    assert_int_equal(pthread_barrier_init(&barrier, NULL, 4), 0);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, worker, NULL), 0);
    /* Mapped now, because this mapping is the test's. */
    assert_int_equal(begin_profile(1001, 100), -EINVAL);

    atomic_store(&phase, STARTING);
    int error = begin_profile(1000, 100);
    atomic_store(&phase, IDLE);
    assert_int_equal(error, 0);
    list("ep_start()");
    assert_callers_are_libc();

    atomic_store(&seen_count, 0);
    atomic_store(&phase, RUNNING);
    for (unsigned i = 0; i < 3; i++) {
        (void)pthread_barrier_wait(&barrier);
        (void)ep_flush();
        (void)ep_stats_get(&s);
        burn(80 * MS);
    }
    sleep_ms(1500); /* a retry */
    (void)ep_stats_get(&s);
    atomic_store(&phase, IDLE);
    if (atomic_load(&seen_count))
        list("while running");
    assert_int_equal(atomic_load(&seen_count), 0);
    assert_true(s.samples > 30 && s.messages > 3 && receiver.sends > 3);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(end_profile(2000), 0);
}

/* The service loads modules: ld.so allocates on the service's thread, and once per module on the collect thread. */
TEST(test_module_scan)
{
    static const char *const names[] = {"libanl.so.1", "libnss_compat.so.2", "libBrokenLocale.so.1",
                                        "libnss_hesiod.so.2"};
    unsigned others[2] = {0};

    receiver_reset();
    assert_int_equal(begin_profile(1000, 100), 0);
    for (unsigned round = 0; round < 2; round++) {
        atomic_store(&seen_count, 0);
        atomic_store(&phase, RUNNING);
        for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++) {
            assert_non_null(dlopen(names[i], RTLD_NOW));
            burn(30 * MS);
            (void)ep_flush();
            sleep_ms(30);
        }
        atomic_store(&phase, IDLE);
        assert_callers_are_libc();
        for (unsigned i = 0; i < atomic_load(&seen_count); i++)
            others[round] += seen[i].tid != (uint32_t)getpid();
    }
    print_message("             pinning what was loaded: %u allocations by ld.so, then %u\n", others[0], others[1]);
    assert_int_equal(others[1], 0);
    assert_int_equal(end_profile(2000), 0);
}

TEST_MAIN
