/*
 * Spans of another tracer in this process label samples, whatever its model of thread-local storage, whether it is
 * loaded before or after ep_otel_read(), on threads that were there before it, and on later ones. What is written
 * while a sample is taken, is not valid, or is not there labels nothing and harms nobody.
 *
 * Each case runs in a process of its own, because a process has one tracer.
 */
#include "linux_test.h"

#include "tracer.h"

#define RATE    499
#define BURN_NS (100 * MS)
#define THREADS 3
#define OWN     77 /* a span of ep_span_set() */

/* ---- what arrived ---- */

static struct {
    uint64_t ns[256], broken;
} spans;

static void on_entry(const struct receiver_stack *stack)
{
    const struct receiver_context *with = &stack->with;
    const uint64_t id = with->span_id & 0xff, all = id * UINT64_C(0x0101010101010101);
    const bool whole = with->span_id == all && with->trace_high == all && with->trace_low == all;

    if (stack->kind == EP_KIND_CPU)
        *(whole || with->span_id == OWN ? &spans.ns[id] : &spans.broken) += stack->value;
}

/* ---- the tracer ---- */

static struct {
    void (*span)(uint8_t id, uint8_t valid);
    void (*none)(void);
    void (*point)(void *record);
} tracer;

static void symbol_get(void *handle, const char *name, void *function)
{
    void *symbol = dlsym(handle, name);

    if (!symbol)
        _exit(101);
    memcpy(function, &symbol, sizeof symbol);
}

/* Beside this program. */
static void tracer_load(const char *name)
{
    char path[600];
    ssize_t size = readlink("/proc/self/exe", path, sizeof path - 64);

    if (size <= 0)
        _exit(102);
    path[size] = 0;
    (void)strcpy(strrchr(path, '/') + 1, name);
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        print_message("%s\n", dlerror());
        _exit(103);
    }
    symbol_get(handle, "tracer_span", &tracer.span);
    symbol_get(handle, "tracer_none", &tracer.none);
    symbol_get(handle, "tracer_point", &tracer.point);
}

/* ---- a case, in its own process ---- */

static atomic_int stage;

static void wait_for(int wanted)
{
    while (atomic_load(&stage) < wanted)
        sleep_ms(1);
}

static void require(bool good, int line)
{
    if (good)
        return;
    print_message("line %d: spans", line);
    for (unsigned i = 0; i < 256; i++)
        if (spans.ns[i])
            print_message(" %u: %llu", i, (unsigned long long)spans.ns[i]);
    print_message(" broken: %llu\n", (unsigned long long)spans.broken);
    fflush(NULL);
    _exit(1);
}
#define REQUIRE(condition) require(condition, __LINE__)

/* How much a thread's samples stand for depends on chance and on other load: what belongs to no tick has no span. */
static bool some(uint64_t ns, uint64_t most)
{
    return ns > 0 && ns < most * 3 / 2;
}

/* CPU time of this thread, which is the only one, for some samples. */
static void burn_samples(void)
{
    struct ep_stats before, now;

    REQUIRE(ep_stats_get(&before) == 0);
    for (unsigned i = 0; i < 200; i++) {
        burn(10 * MS);
        (void)ep_flush();
        sleep_ms(1);
        REQUIRE(ep_stats_get(&now) == 0);
        if (now.samples >= before.samples + 4)
            return;
    }
    REQUIRE(!"no samples");
}

/* Until a sample has this thread's span: modules and threads are looked for once in a while. */
static void burn_until_seen(uint8_t id)
{
    for (unsigned i = 0; i < 100 && !spans.ns[id]; i++) {
        burn(50 * MS);
        (void)ep_flush();
        sleep_ms(20);
    }
    REQUIRE(spans.ns[id] != 0);
}

static uint64_t burned[THREADS + 1];

/* First in a span, then in none. */
static void *work(void *argument)
{
    const uint8_t id = (uint8_t)(uintptr_t)argument;
    const uint64_t begin = clock_ns(CLOCK_THREAD_CPUTIME_ID);

    wait_for(1);
    tracer.span(id, 1);
    burn(BURN_NS);
    burn_until_seen(id);
    tracer.none();
    burned[id] = clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin;
    burn(BURN_NS);
    return NULL;
}

static void labels(const char *name, bool late)
{
    pthread_t thread[THREADS];

    receiver_reset();
    receiver.on_entry = on_entry;
    if (!late)
        tracer_load(name);
    int found = ep_otel_read();
    REQUIRE(found == !late);
    REQUIRE(begin_profile(RATE, 100) == 0);
    for (uintptr_t i = 1; i < THREADS; i++)
        REQUIRE(pthread_create(&thread[i], NULL, work, (void *)i) == 0);
    sleep_ms(20);
    if (late) {
        tracer_load(name);
        tracer.span(200, 1);
        burn_until_seen(200);
        tracer.none();
    }
    REQUIRE(pthread_create(&thread[0], NULL, work, (void *)(uintptr_t)THREADS) == 0);
    atomic_store(&stage, 1);
    ep_span_set(OWN, 1, 1);
    burn(BURN_NS);
    ep_span_set(0, 0, 0);
    for (unsigned i = 0; i < THREADS; i++)
        REQUIRE(pthread_join(thread[i], NULL) == 0);
    REQUIRE(end_profile(5000) == 0 && !receiver.broken);
    for (unsigned i = 1; i <= THREADS; i++)
        REQUIRE(some(spans.ns[i], burned[i]));
    REQUIRE(some(spans.ns[OWN], BURN_NS) && spans.ns[0] >= THREADS * BURN_NS / 2 && spans.broken == 0);
}

/* Two pages, the second one not mapped. */
static void *edge(void)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uint8_t *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    REQUIRE(pages != MAP_FAILED && munmap(pages + page, page) == 0);
    memset(pages, 1, page);
    return pages + page - 25;
}

/* What is not a valid record. Each is a pointer for some samples. */
static void nonsense(const char *name)
{
    static uint8_t zero[28];
    void *pointers[] = {(void *)1, edge(),      (void *)(UINTPTR_MAX - 20), (void *)(UINTPTR_MAX / 2 + 1),
                        zero,      (void *)4096};

    receiver_reset();
    receiver.on_entry = on_entry;
    tracer_load(name);
    zero[24] = 1;
    REQUIRE(ep_otel_read() == 1 && begin_profile(RATE, 100) == 0);
    ep_span_set(OWN, 1, 1);
    for (unsigned i = 0; i < sizeof pointers / sizeof *pointers; i++) {
        tracer.point(pointers[i]);
        burn_samples();
    }
    tracer.span(5, 0);
    burn_samples();
    tracer.span(6, 2);
    burn_samples();
    tracer.none();
    REQUIRE(end_profile(5000) == 0 && !receiver.broken);
    REQUIRE(spans.ns[OWN] && spans.ns[5] + spans.ns[6] + spans.broken == 0);
}

/* A record that is written all the time is read whole or not at all. */
static void torn(const char *name)
{
    uint64_t end = clock_ns(CLOCK_THREAD_CPUTIME_ID) + 3 * BURN_NS;

    receiver_reset();
    receiver.on_entry = on_entry;
    tracer_load(name);
    REQUIRE(ep_otel_read() == 1 && begin_profile(RATE, 100) == 0);
    while (clock_ns(CLOCK_THREAD_CPUTIME_ID) < end)
        for (unsigned i = 0; i < 30000; i++)
            tracer.span((uint8_t)(100 + i % 2), 1);
    tracer.none();
    REQUIRE(end_profile(5000) == 0 && !receiver.broken && spans.broken == 0);
    REQUIRE(spans.ns[100] && spans.ns[101]);
}

static void in_process(void (*run)(const char *name, bool late), const char *name, bool late)
{
    int status = -1;
    pid_t child = fork();

    if (child == 0) {
        (void)signal(SIGSEGV, SIG_DFL); /* cmocka's handlers would go on with the next test */
        (void)signal(SIGBUS, SIG_DFL);
        run(name, late);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (status)
        print_message("%s %d: status %#x\n", name, late, (unsigned)status);
    assert_int_equal(status, 0);
}

static void run_nonsense(const char *name, bool late)
{
    (void)late;
    nonsense(name);
}

static void run_torn(const char *name, bool late)
{
    (void)late;
    torn(name);
}

static const char *const models[] = {"tracer-desc.so", "tracer-dynamic.so", "tracer-fixed.so", "tracer-big.so"};

TEST(test_models)
{
    for (unsigned i = 0; i < sizeof models / sizeof *models; i++)
        in_process(labels, models[i], false);
}

TEST(test_late)
{
    for (unsigned i = 0; i < sizeof models / sizeof *models; i++)
        in_process(labels, models[i], true);
}

TEST(test_nonsense)
{
    in_process(run_nonsense, models[0], false);
    in_process(run_nonsense, models[3], false);
}

TEST(test_torn)
{
    in_process(run_torn, models[0], false);
}

TEST_MAIN
