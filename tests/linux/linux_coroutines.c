/*
 * Stacks of coroutines: they lie in memory that no thread was announced with, and end at the coroutine's entry. The
 * memory is malloc()ed, static, or mapped below a page that nobody may read. The entry returns to 0, to the start of a
 * function, or to assembly without a table.
 */
#include "linux_test.h"

#define RATE       499
#define STACK_SIZE 65536u
#define DEPTH      40u

static jmp_buf back;
static uint8_t static_stack[STACK_SIZE] __attribute__((aligned(64)));

/* Where an entry returns to: no table describes it, and it never returns. */
__asm__(".text\n"
        ".balign 16\n"
        "    nop\n"
        "    nop\n"
        ".globl coroutine_finish\n"
        "coroutine_finish:\n"
#if defined __x86_64__
        "    ud2\n"
#elif defined __aarch64__
        "    brk #1\n"
#else
        "    udf #1\n"
#endif
        "    nop\n"
        "    nop\n");
extern char coroutine_finish[];

static __attribute__((noinline)) void never(void)
{
    abort();
}

/* A frame of more than a page: the stack's end must be asked for more than once. */
static __attribute__((noinline)) unsigned deep(unsigned depth)
{
    volatile uint8_t room[1100];

    room[depth] = 1;
    if (depth == 0)
        burn(150 * MS);
    else
        room[0] = (uint8_t)deep(depth - 1);
    return room[depth];
}

static __attribute__((noinline, noreturn)) void entry(void)
{
    (void)deep(DEPTH);
    longjmp(back, 1);
}

/* As the switch of a library of coroutines does it the first time. */
static __attribute__((noinline)) void enter(uint8_t *top, const void *returns_to)
{
    uintptr_t *sp = (uintptr_t *)((uintptr_t)top & ~(uintptr_t)63) - 8;

#if defined __x86_64__
    *--sp = (uintptr_t)returns_to;
    __asm__ volatile("movq %0, %%rsp\n xorl %%ebp, %%ebp\n jmpq *%1" : : "r"(sp), "r"(entry) : "memory");
#elif defined __aarch64__
    __asm__ volatile("mov sp, %0\n mov x29, #0\n mov x30, %1\n br %2"
                     :
                     : "r"(sp), "r"(returns_to), "r"(entry)
                     : "memory");
#elif defined __thumb__
    __asm__ volatile("mov sp, %0\n mov lr, %1\n bx %2" : : "r"(sp), "r"(returns_to), "r"(entry) : "memory");
#else
    __asm__ volatile("mov sp, %0\n mov fp, #0\n mov lr, %1\n bx %2"
                     :
                     : "r"(sp), "r"(returns_to), "r"(entry)
                     : "memory");
#endif
    __builtin_unreachable();
}

static void run_on(uint8_t *stack, const void *returns_to)
{
    if (setjmp(back) == 0)
        enter(stack + STACK_SIZE, returns_to);
}

/* The page below and the one above cannot be read. */
static uint8_t *guarded(void)
{
    uint8_t *at = mmap(NULL, STACK_SIZE + 2 * 65536, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_ptr_not_equal(at, MAP_FAILED);
    assert_int_equal(mprotect(at + 65536, STACK_SIZE, PROT_READ | PROT_WRITE), 0);
    return at + 65536;
}

static void assert_whole(const void *returns_to)
{
    uint8_t *heap = malloc(STACK_SIZE), *mapped = guarded();
    struct ep_stats s;

    assert_non_null(heap);
    receiver_reset();
    assert_int_equal(begin_profile(RATE, 3600000), 0);
    run_on(heap, returns_to);
    run_on(mapped, returns_to);
    run_on(static_stack, returns_to);
    assert_int_equal(end_profile(5000), 0);
    assert_int_equal(ep_stats_get(&s), 0);
    free(heap);
    print_message("             %u exact, %u gap, %u cut\n", (unsigned)s.exact, (unsigned)s.gap, (unsigned)s.cut);
    assert_true(s.exact + s.gap > 20);
    assert_in_range(s.cut, 0, (s.exact + s.gap) / 20);
}

TEST(test_returns_to_nothing)
{
    assert_whole(NULL);
}

TEST(test_returns_to_a_function)
{
    assert_whole((const void *)(uintptr_t)never);
}

TEST(test_returns_to_assembly)
{
    assert_whole(coroutine_finish);
}

static void *all(void *unused)
{
    assert_whole(NULL);
    return unused;
}

TEST(test_in_a_thread)
{
    run_thread(all);
}

int main(void)
{
#if defined __SANITIZE_ADDRESS__
    print_message("linux_coroutines: SKIPPED: AddressSanitizer does not know these stacks\n");
    return 0;
#endif
    return test_run();
}
