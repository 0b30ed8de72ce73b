/*
 * unwind.c on this process's own code: with random registers and stack contents between guard pages it never reads
 * outside the stack. It walks through the kernel's signal frame, on the same stack and from an alternate one. A
 * hijacked return is labelled and not followed.
 */
#include "linux_test.h"

#include "tests/unit/core_rooms.h"
#include "port/linux/linux.h"

static uint64_t memory[EP_MEMORY_DEFAULT / sizeof(uint64_t)];
static atomic_uintptr_t pcs[EP_MAX_DEPTH];

static int begin(void **state)
{
    const struct ep_config config = {.memory = memory,
                                     .memory_size = sizeof memory,
                                     .service = "unwind",
                                     .rate_hz = 1,
                                     .interval_ms = 3600000,
                                     .flags = EP_MANUAL};
    (void)state;
    return ep_start(&config);
}

static int end(void **state)
{
    (void)state;
    return ep_stop(0);
}

static uint32_t dice_of(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

static void forget_rules(void)
{
    for (unsigned i = 0; i < EP_RULE_CACHE; i++)
        atomic_store(&ep_running()->unwinder.rule[i], 0);
}

static struct ep_stack walk(const struct ep_registers *registers)
{
    struct ep_stack stack = {.pc = pcs};

    ep_unwind(&ep_running()->unwinder, registers, &stack);
    assert_true(stack.depth >= 1 && stack.depth <= EP_MAX_DEPTH);
    assert_true(stack.quality <= EP_STACK_CUT);
    assert_int_equal(stack.quality == EP_STACK_CUT, stack.end != EP_FRAME_NONE);
    return stack;
}

/* ---- bounds ---- */

#define STACKS 100000u
#define PAGES  4u
#define PAGE   4096u

/* A page between two inaccessible pages. */
static uint8_t *fenced(void)
{
    uint8_t *area = mmap(NULL, (PAGES + 2) * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_ptr_not_equal(area, MAP_FAILED);
    assert_int_equal(mprotect(area + PAGE, PAGES * PAGE, PROT_READ | PROT_WRITE), 0);
    return area + PAGE;
}

/* Like raise(), but from code with tables: glibc has none on 32-bit ARM. */
#ifdef __arm__
__asm__(".text\n.syntax unified\n.thumb\n.thumb_func\n.type send_signal, %function\n"
        "send_signal:\n.fnstart\npush {r7, lr}\n.save {r7, lr}\n"
        "mov.w r7, #268\nsvc 0\npop {r7, pc}\n.fnend\n"); /* 268: tgkill */
void send_signal(pid_t pid, pid_t tid, int number);

static void send_here(int number)
{
    send_signal(getpid(), (pid_t)syscall(SYS_gettid), number);
}
#else
static void send_here(int number)
{
    (void)raise(number);
}
#endif

static uintptr_t some_code(uint64_t *dice)
{
    const struct ep_modules *m = &ep_running()->unwinder.modules;
    const struct ep_module *module = &m->slot[dice_of(dice) % atomic_load(&m->count)];

    return module->start + dice_of(dice) % (module->end - module->start);
}

/* A plausible word for a register or the stack. */
static uintptr_t some_word(uint64_t *dice, uint8_t *const stacks[2])
{
    uintptr_t in = (uintptr_t)stacks[dice_of(dice) % 2] + dice_of(dice) % (PAGES * PAGE);

    switch (dice_of(dice) % 8) {
    case 0:
        return (uintptr_t)((uint64_t)dice_of(dice) << 32 | dice_of(dice));
    case 1:
        return dice_of(dice) % 3;
    case 2:
        return (uintptr_t)stacks[dice_of(dice) % 2] + PAGES * PAGE - dice_of(dice) % 24;
    case 3:
        return (uintptr_t)stacks[dice_of(dice) % 2] + dice_of(dice) % 64 - 32;
    case 4:
        return in;
    case 5:
        return in & ~(uintptr_t)7;
    default:
        return some_code(dice);
    }
}

TEST(test_random_stacks_stay_in_bounds)
{
    const unsigned count = STACKS / unit_part();
    uint8_t *const stacks[2] = {fenced(), fenced()};
    uint64_t dice = 7, depths = 0;

    for (unsigned i = 0; i < count; i++) {
        uintptr_t sp = dice_of(&dice) % 4 ? ((uintptr_t)stacks[0] + dice_of(&dice) % (PAGES * PAGE)) & ~(uintptr_t)7
                                          : some_word(&dice, stacks);
        uintptr_t *words = (uintptr_t *)(void *)stacks[0];
        for (unsigned n = 0; n < 64; n++) {
            size_t at = (sp - (uintptr_t)stacks[0]) / sizeof(uintptr_t) + n;
            words[at % (PAGES * PAGE / sizeof(uintptr_t))] = some_word(&dice, stacks);
        }
        struct ep_registers c = {
            .pc = dice_of(&dice) % 8 ? some_code(&dice) : some_word(&dice, stacks),
            .sp = sp,
            .fp = some_word(&dice, stacks),
            .lr = some_word(&dice, stacks),
            .base = some_word(&dice, stacks),
            .stack_start = (uintptr_t)stacks[0],
            .stack_end = (uintptr_t)stacks[0] + PAGES * PAGE,
            .alt_start = i % 3 ? (uintptr_t)stacks[1] : 0,
            .alt_end = i % 3 ? (uintptr_t)stacks[1] + PAGES * PAGE : 0,
        };
        depths += walk(&c).depth;
    }
    print_message("             %.2f frames a stack\n", (double)depths / count);
    forget_rules(); /* some are of addresses where no processor stops, and the cache takes those for return addresses */
    assert_true(depths > count * 9 / 8); /* walks do get beyond the first frame */
}

/* With unknown bounds it reads nothing and returns only the top frame. */
TEST(test_unknown_bounds)
{
    uint8_t *stack = fenced();
    uint64_t dice = 3;

    for (unsigned i = 0; i < 1000; i++) {
        struct ep_registers c = {.pc = some_code(&dice), .sp = (uintptr_t)stack - 4096, .fp = (uintptr_t)stack - 2048};
        assert_int_equal(walk(&c).depth, 1);
    }
}

/* ---- signals inside signals ---- */

#define IN_SECTION(name) __attribute__((noinline, section(#name)))
extern char __start_fn_outer[], __stop_fn_outer[], __start_fn_handler[], __stop_fn_handler[];

static struct ep_stack seen;
static volatile sig_atomic_t walked, spin;

static struct ep_linux_bounds stack_of_thread(void)
{
    pthread_attr_t attributes;
    void *start;
    size_t size;

    assert_int_equal(pthread_getattr_np(pthread_self(), &attributes), 0);
    assert_int_equal(pthread_attr_getstack(&attributes, &start, &size), 0);
    (void)pthread_attr_destroy(&attributes);
    return (struct ep_linux_bounds){.start = (uintptr_t)start, .end = (uintptr_t)start + size};
}

static struct ep_linux_bounds bounds;
static _Thread_local uintptr_t root; /* in the thread's first function */

static void on_sample(int signal, siginfo_t *info, void *ucontext)
{
    struct ep_registers registers = {0};

    (void)signal;
    (void)info;
    ep_linux_context(ucontext, &registers);
    registers.stack_start = bounds.start;
    registers.stack_end = bounds.end;
    registers.stack_root = bounds.root;
    seen = walk(&registers);
    walked = 1;
}

IN_SECTION(fn_handler) static void on_usr1(int signal)
{
    (void)signal;
    send_here(SIGUSR2);
    spin++;
}

IN_SECTION(fn_outer) static void outer(void)
{
    send_here(SIGUSR1);
    spin++;
}

static unsigned place_of(const char *start, const char *stop)
{
    for (unsigned i = 0; i < seen.depth; i++)
        if (pcs[i] - (uintptr_t)start < (uintptr_t)(stop - start))
            return i;
    return UINT32_MAX;
}

/* ---- a thread that sleeps: pc and sp alone are known ---- */

#ifdef __aarch64__
extern char __start_fn_rim[], __stop_fn_rim[];

/* A system call as in most functions of the C library: no frame, the caller is in x30 alone. */
__asm__(".text\n.type leaf_send, %function\nleaf_send:\n.cfi_startproc\nmov x8, #131\nsvc #0\nret\n.cfi_endproc\n"
        ".size leaf_send, .-leaf_send\n"); /* 131: tgkill */
long leaf_send(pid_t pid, pid_t tid, int number);

static void on_asleep(int signal, siginfo_t *info, void *ucontext)
{
    struct ep_registers registers = {0};

    (void)signal;
    (void)info;
    ep_linux_context(ucontext, &registers);
    registers.fp = registers.lr = registers.base = EP_PORT_UNKNOWN;
    registers.stack_start = bounds.start;
    registers.stack_end = bounds.end;
    registers.stack_root = bounds.root;
    seen = walk(&registers);
    walked = 1;
}

__attribute__((noinline)) static void sleep_in_leaf(size_t size)
{
    spin += leaf_send(getpid(), (pid_t)syscall(SYS_gettid), SIGUSR2) == 0 && size;
}

/* Its own system call, in a frame that only x29 leads to. */
__attribute__((noinline)) static void sleep_below_array(size_t size)
{
    volatile char *array = __builtin_alloca(size);
    for (size_t i = 0; i < size; i++)
        array[i] = 1; /* no record of an old call */
    const long process = getpid(), thread = syscall(SYS_gettid);
    register long pid __asm__("x0") = process;
    register long tid __asm__("x1") = thread;
    register long number __asm__("x2") = SIGUSR2;
    register long call __asm__("x8") = SYS_tgkill;

    __asm__ volatile("svc #0" : "+r"(pid) : "r"(tid), "r"(number), "r"(call) : "memory");
    spin += array[0];
}

IN_SECTION(fn_rim) static void rim(void (*sleeps)(size_t size))
{
    sleeps(200 + (size_t)spin);
    spin++;
}

static void check_asleep(void (*sleeps)(size_t size))
{
    const struct sigaction action = {.sa_sigaction = on_asleep, .sa_flags = SA_SIGINFO};

    assert_int_equal(sigaction(SIGUSR2, &action, NULL), 0);
    bounds = stack_of_thread();
    bounds.root = root;
    walked = 0;
    forget_rules(); /* cached ones are not for a copy of a stack, as that of a thread that sleeps is */
    rim(sleeps);
    assert_int_equal(walked, 1);
    const unsigned place = place_of(__start_fn_rim, __stop_fn_rim);
    assert_true(place != UINT32_MAX && place < seen.depth - 1u);
    assert_int_equal(seen.quality, EP_STACK_GAP);
}

TEST(test_asleep_in_a_leaf)
{
    check_asleep(sleep_in_leaf);
}

TEST(test_asleep_below_an_array)
{
    check_asleep(sleep_below_array);
}

static void *sleep_in_thread(void *argument)
{
    root = (uintptr_t)&argument;
    check_asleep(sleep_in_leaf);
    return NULL;
}

TEST(test_asleep_in_a_thread)
{
    run_thread(sleep_in_thread);
}
#endif

/* The frame between handler and interrupted function is the first instruction of what the handler returns to, not the
 * end of the function in front of it. 32-bit ARM has several such functions. */
static void check_trampoline(uintptr_t pc)
{
#if defined(__x86_64__)
    static const uint8_t code[] = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05}; /* mov $15,%rax; syscall */
#elif defined(__aarch64__)
    static const uint32_t code[] = {0xd2801168, 0xd4000001}; /* mov x8, #139; svc #0 */
#endif
#if defined(__x86_64__) || defined(__aarch64__)
    assert_memory_equal((const void *)pc, code, sizeof code);
#else
    assert_int_not_equal(pc, 0);
#endif
}

static void through_signals(int flags)
{
    struct sigaction inner = {.sa_sigaction = on_sample, .sa_flags = SA_SIGINFO};
    struct sigaction middle = {.sa_handler = on_usr1, .sa_flags = flags};

    assert_int_equal(sigaction(SIGUSR2, &inner, NULL), 0);
    assert_int_equal(sigaction(SIGUSR1, &middle, NULL), 0);
    bounds = stack_of_thread();
    bounds.root = root;
    walked = 0;
    outer();
    assert_int_equal(walked, 1);
    unsigned handler = place_of(__start_fn_handler, __stop_fn_handler);
    unsigned caller = place_of(__start_fn_outer, __stop_fn_outer);
    assert_true(handler != UINT32_MAX && caller != UINT32_MAX);
    assert_true(handler < caller && caller < seen.depth - 1u);
    check_trampoline(pcs[handler + 1]);
    assert_int_equal(seen.quality, EP_STACK_EXACT);
    assert_int_equal(seen.end, EP_FRAME_NONE);
}

TEST(test_nested_signal)
{
    through_signals(0);
}

TEST(test_alternate_stack)
{
    static uint8_t alternate[65536];
    const stack_t stack = {.ss_sp = alternate, .ss_size = sizeof alternate}, off = {.ss_flags = SS_DISABLE};

    assert_int_equal(sigaltstack(&stack, NULL), 0);
    through_signals(SA_ONSTACK);
    assert_int_equal(sigaltstack(&off, NULL), 0);
}

static void *in_thread(void *argument)
{
    (void)argument;
    root = (uintptr_t)&argument;
    through_signals(0);
    return NULL;
}

TEST(test_nested_signal_in_a_thread)
{
    run_thread(in_thread);
}

/* ---- assembly that aligns its stack, with tables that say where the caller's stack pointer is ---- */

#ifdef __x86_64__
/* As OpenSSL's: in rax, in memory, and below the stack pointer. Four traps; the last is in a function called by the
 * first, where rax is still the same. */
__asm__(".text\n.type trap_leaf, @function\ntrap_leaf:\n.cfi_startproc\nint3\nret\n.cfi_endproc\n.size trap_leaf, "
        ".-trap_leaf\n"
        ".type traps, @function\ntraps:\n.cfi_startproc\n"
        "mov %rsp, %rax\n.cfi_def_cfa_register %rax\nint3\nnop\n"
        "push %rbp\n.cfi_offset %rbp, -16\nsub $64, %rsp\nand $-64, %rsp\nmov $1, %ebp\ncall trap_leaf\nnop\n"
        "mov %rax, 24(%rsp)\n.cfi_escape 0x0f, 5, 0x77, 24, 0x06, 0x23, 8\nint3\nnop\n"
        "mov %rax, -8(%rsp)\n.cfi_escape 0x0f, 5, 0x77, 0x78, 0x06, 0x23, 8\nint3\nnop\n"
        "mov 24(%rsp), %rax\n.cfi_def_cfa %rax, 8\nmov -8(%rax), %rbp\nmov %rax, %rsp\n.cfi_def_cfa %rsp, 8\nret\n"
        ".cfi_endproc\n.size traps, .-traps\n");
void traps(void);

static unsigned trapped, rooted, exact;

IN_SECTION(fn_aligned) static void aligned(void)
{
    traps();
    spin++;
}
extern char __start_fn_aligned[], __stop_fn_aligned[];

static void on_trap(int signal, siginfo_t *info, void *ucontext)
{
    on_sample(signal, info, ucontext);
    trapped++;
    rooted += place_of(__start_fn_aligned, __stop_fn_aligned) != UINT32_MAX && seen.quality != EP_STACK_CUT;
    exact += seen.quality == EP_STACK_EXACT;
}

TEST(test_stack_pointer_in_another_register_or_in_memory)
{
    const struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};

    assert_int_equal(sigaction(SIGTRAP, &action, NULL), 0);
    bounds = stack_of_thread();
    bounds.root = root;
    aligned();
    assert_int_equal(trapped, 4);
    assert_int_equal(rooted, 4);
    assert_int_equal(exact, 3); /* what a callee has in rax may be something else */
}
#endif

/* ---- the hijack stub ---- */

/* Replaces the return address of on_usr1's caller, like .NET's suspension: the walk ends there with a label. */
TEST(test_hijack_is_labelled)
{
    through_signals(0);
    unsigned caller = place_of(__start_fn_outer, __stop_fn_outer);
    uintptr_t stub = pcs[caller] + 1; /* outer's return address acts as the stub */
    ep_running()->unwinder.hijack_stub = stub;
    forget_rules(); /* set before any rule is cached */
    struct sigaction inner = {.sa_sigaction = on_sample, .sa_flags = SA_SIGINFO};
    assert_int_equal(sigaction(SIGUSR2, &inner, NULL), 0);
    outer();
    ep_running()->unwinder.hijack_stub = 0;
    assert_int_equal(seen.end, EP_FRAME_HIJACK);
    assert_int_equal(seen.quality, EP_STACK_CUT);
    assert_int_equal(seen.depth, caller);
    assert_true(place_of(__start_fn_handler, __stop_fn_handler) < caller);
}

static int (*test_begin)(void **state) = begin;
static int (*test_end)(void **state) = end;

int main(void)
{
    root = (uintptr_t)__builtin_frame_address(0);
    return test_run();
}
