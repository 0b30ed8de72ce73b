/*
 * Stacks of threads of every shape that a program may ask for: the smallest there is, a small one, one of the caller's,
 * one without a guard, all beside 64 KiB of static TLS where that fits. Each thread interrupts itself at many depths
 * and walks as the sampling handler would, with the bounds that its start has noted.
 *
 *   stacks [least share, %]
 *
 * Prints a line a shape: whole stacks (to the root, exact or with a gap), bounds against pthread_getattr_np(). Fails
 * below the least share, and when the bounds hold a byte that is not the thread's.
 */

#include "../../program.h"
#include "tests/unit/core_rooms.h"
#include "port/linux/linux.h"

#define WALKS   500u
#define THREADS 8u
#define DEPTH   6u
#define KIB     1024u

#ifdef STATIC_TLS
static _Thread_local volatile char large[STATIC_TLS];
#else
static _Thread_local volatile char large[16];
#endif

struct shape {
    const char *name;
    size_t size; /* 0: as the C library likes */
    size_t odd;  /* added: no multiple of a page */
    bool own;    /* the caller's memory */
    bool bare;   /* no guard */
};

struct result {
    unsigned walks, whole;
    long hidden; /* bytes of the stack below the bounds */
    bool beyond; /* the bounds begin below the stack */
};

static uint64_t memory[EP_MEMORY_DEFAULT / sizeof(uint64_t)];
static _Thread_local atomic_uintptr_t pcs[EP_MAX_DEPTH];
static _Thread_local volatile struct result *mine;

static void on_signal(int number, siginfo_t *info, void *ucontext)
{
    struct ep_registers registers = {0}, bounds = {0};
    struct ep_stack stack = {.pc = pcs};

    (void)number;
    (void)info;
    (void)ep_port_bounds(&bounds);
    ep_linux_context(ucontext, &registers);
    registers.stack_start = bounds.stack_start;
    registers.stack_end = bounds.stack_end;
    registers.stack_root = bounds.stack_root;
    ep_unwind(&ep_running()->unwinder, &registers, &stack);
    mine->walks++;
    mine->whole += stack.quality != EP_STACK_CUT && stack.depth >= 3;
}

/* Like raise(), from code that has tables: glibc has none on 32-bit ARM. */
#ifdef __arm__
__asm__(".text\n.syntax unified\n.thumb\n.thumb_func\n.type send_signal, %function\n"
        "send_signal:\n.fnstart\npush {r7, lr}\n.save {r7, lr}\n"
        "mov.w r7, #268\nsvc 0\npop {r7, pc}\n.fnend\n"); /* 268: tgkill */
void send_signal(pid_t pid, pid_t tid, int number);
#else
static void send_signal(pid_t pid, pid_t tid, int number)
{
    (void)syscall(SYS_tgkill, pid, tid, number);
}
#endif

__attribute__((noinline)) static void deeper(unsigned depth)
{
    volatile char room[64];

    room[0] = 0;
    if (depth > 0)
        deeper(depth - 1);
    else
        send_signal(getpid(), (pid_t)syscall(SYS_gettid), SIGUSR2);
    room[1] = room[0];
    large[0] = room[1];
}

static void *thread_main(void *argument)
{
    struct result *result = argument;
    struct ep_registers bounds = {0};
    pthread_attr_t attributes;
    void *start = NULL;
    size_t size = 0;

    mine = result;
    (void)ep_port_bounds(&bounds);
    if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
        (void)pthread_attr_getstack(&attributes, &start, &size);
        (void)pthread_attr_destroy(&attributes);
    }
    result->hidden = (long)(bounds.stack_start - (uintptr_t)start);
    result->beyond = bounds.stack_start < (uintptr_t)start;
    for (unsigned i = 0; i < WALKS; i++)
        deeper(i % DEPTH);
    return NULL;
}

static int start_thread(const struct shape *shape, pthread_t *thread, struct result *result)
{
    pthread_attr_t attributes;
    int error = pthread_attr_init(&attributes);

    if (!error && shape->own) {
        void *stack = mmap(NULL, shape->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        error = stack == MAP_FAILED ? 1 : pthread_attr_setstack(&attributes, stack, shape->size);
    } else if (!error && shape->size) {
        error = pthread_attr_setstacksize(&attributes, shape->size + shape->odd);
    }
    if (!error && shape->bare)
        error = pthread_attr_setguardsize(&attributes, 0);
    if (!error)
        error = pthread_create(thread, &attributes, thread_main, result);
    (void)pthread_attr_destroy(&attributes);
    return error;
}

/* All alive at once: their stacks lie next to each other. */
static bool try_shape(const struct shape *shape, double least)
{
    static struct result result[THREADS];
    pthread_t thread[THREADS];
    struct result all = {0};
    unsigned started = 0;

    memset(result, 0, sizeof result);
    while (started < THREADS && start_thread(shape, &thread[started], &result[started]) == 0)
        started++;
    for (unsigned i = 0; i < started; i++) {
        (void)pthread_join(thread[i], NULL);
        all.walks += result[i].walks;
        all.whole += result[i].whole;
        all.beyond |= result[i].beyond;
        all.hidden = result[i].hidden > all.hidden ? result[i].hidden : all.hidden;
    }
    if (started == 0) { /* its TLS alone is larger */
        printf("%-28s | refused by the C library\n", shape->name);
        return true;
    }
    double share = 100.0 * all.whole / all.walks;
    bool good = share >= least && !all.beyond && all.walks == started * WALKS;
    printf("%-28s | %5u walks | %6.2f %% whole | %6ld bytes hidden | %s\n", shape->name, all.walks, share, all.hidden,
           all.beyond ? "BOUNDS BELOW THE STACK"
           : good     ? "ok"
                      : "TOO FEW");
    return good;
}

int main(int argc, char **argv)
{
    const struct ep_config config = {.memory = memory,
                                     .memory_size = sizeof memory,
                                     .service = "stacks",
                                     .rate_hz = 1,
                                     .interval_ms = 3600000,
                                     .flags = EP_MANUAL};
    const struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO};
    const size_t smallest = (size_t)PTHREAD_STACK_MIN;
    const struct shape shapes[] = {
        {.name = "as usual"},
        {.name = "PTHREAD_STACK_MIN", .size = smallest},
        {.name = "PTHREAD_STACK_MIN, no guard", .size = smallest, .bare = true},
        {.name = "64 KiB", .size = 64 * KIB > smallest ? 64 * KIB : smallest},
        {.name = "96 KiB and a bit", .size = (96 * KIB > smallest ? 96 * KIB : smallest), .odd = 1000},
        {.name = "96 KiB, no guard", .size = 96 * KIB > smallest ? 96 * KIB : smallest, .bare = true},
        {.name = "the caller's, 64 KiB", .size = 64 * KIB > smallest ? 64 * KIB : smallest, .own = true},
        {.name = "the caller's, 192 KiB", .size = 192 * KIB, .own = true},
        {.name = "256 KiB", .size = 256 * KIB},
    };
    double least = argc > 1 ? atof(argv[1]) : 99;
    bool good = true;

    if (ep_start(&config) != 0 || sigaction(SIGUSR2, &action, NULL) != 0)
        return 1;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        good &= try_shape(&shapes[i], least);
    (void)ep_stop(0);
    return good ? 0 : 1;
}
