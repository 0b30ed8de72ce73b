/*
 * Code that is generated at run time and keeps frame pointers, between C functions in several places of a stack and at
 * its leaf: the stack reaches the thread's first function behind a [gap] for each place. It is in anonymous memory or
 * in a memfd.
 */
#include "linux_test.h"

#include "core/unwind/frames.h"

#define RATE 499

/* Functions that call each other: each one calls the first of the list with the rest. */
typedef void (*hop)(const void *list);

#if defined __x86_64__
/* push rbp; mov rbp, rsp; add rdi, 8; call [rdi - 8]; pop rbp; ret */
static const uint8_t calls[] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xc7, 8, 0xff, 0x57, 0xf8, 0x5d, 0xc3};
/* push rbp; mov rbp, rsp; mov ecx, 1000000; again: dec ecx; jnz again; pop rbp; ret */
static const uint8_t spins[] = {0x55, 0x48, 0x89, 0xe5, 0xb9, 0x40, 0x42, 0xf, 0, 0xff, 0xc9, 0x75, 0xfc, 0x5d, 0xc3};
#elif defined __aarch64__
/* stp x29, x30, [sp, #-16]!; mov x29, sp; ldr x1, [x0], #8; blr x1; ldp x29, x30, [sp], #16; ret */
static const uint32_t calls[] = {0xa9bf7bfd, 0x910003fd, 0xf8408401, 0xd63f0020, 0xa8c17bfd, 0xd65f03c0};
/* stp x29, x30, [sp, #-16]!; mov x29, sp; mov w1, #0xf0000; again: subs w1, w1, #1; b.ne again; ldp ...; ret */
static const uint32_t spins[] = {0xa9bf7bfd, 0x910003fd, 0x52a001e1, 0x71000421, 0x54ffffe1, 0xa8c17bfd, 0xd65f03c0};
#else
static const uint32_t calls[1], spins[1];
#endif

static uint8_t *code;
static uint64_t gaps_ns[8];

static void make(bool file)
{
    int fd = file ? (int)syscall(SYS_memfd_create, "generated", 0) : -1;

    if (file)
        assert_int_equal(ftruncate(fd, 8192), 0);
    code = mmap(NULL, 8192, PROT_READ | PROT_WRITE, file ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, fd, 0);
    assert_ptr_not_equal(code, MAP_FAILED);
    memcpy(code, calls, sizeof calls);
    memcpy(code + 4096, spins, sizeof spins);
    __builtin___clear_cache((char *)code, (char *)code + 8192);
    assert_int_equal(mprotect(code, 8192, PROT_READ | PROT_EXEC), 0);
    if (file)
        (void)close(fd);
}

static hop generated(size_t at)
{
    hop function;
    void *address = code + at;

    memcpy(&function, &address, sizeof function);
    return function;
}

static __attribute__((noinline)) void in_c(const void *list)
{
    const hop *next = list;

    next[0](next + 1);
    __asm__ volatile("");
}

static void burn_in_c(const void *list)
{
    (void)list;
    burn(MS);
}

static void count_gaps(const uint32_t *frames, unsigned depth, uint64_t ns)
{
    unsigned gaps = 0;

    for (unsigned i = 0; i < depth; i++)
        gaps += frames[i] == EP_FRAME_GAP;
    gaps_ns[gaps < 8 ? gaps : 7] += ns;
}

/* Nearly all of the time is in stacks with so many gaps, and nothing is cut. */
static void assert_gaps(const hop *list, unsigned gaps)
{
    struct ep_stats s;

    receiver_reset();
    memset(gaps_ns, 0, sizeof gaps_ns);
    receiver.on_stack = count_gaps;
    assert_int_equal(begin_profile(RATE, 3600000), 0);
    for (uint64_t start = clock_of(CLOCK_THREAD_CPUTIME_ID); clock_of(CLOCK_THREAD_CPUTIME_ID) - start < 300 * MS;)
        in_c(list);
    assert_int_equal(end_profile(5000), 0);
    assert_int_equal(ep_stats_get(&s), 0);
    print_message("             %u exact, %u gap, %u cut\n", (unsigned)s.exact, (unsigned)s.gap, (unsigned)s.cut);
    assert_true(s.gap > 20);
    assert_in_range(s.cut, 0, s.gap / 20);
    assert_true(gaps_ns[gaps] > receiver.ns / 10 * 8);
}

static void assert_both(bool file)
{
    make(file);
    hop step = generated(0);
    const hop between[] = {in_c, step, step, in_c, step, in_c, in_c, burn_in_c};
    const hop leaf[] = {in_c, step, in_c, in_c, generated(4096)};
    assert_gaps(between, 2);
    assert_gaps(leaf, 2);
    (void)munmap(code, 8192);
}

static void test_anonymous(void **state)
{
    (void)state;
    assert_both(false);
}

static void test_memfd(void **state)
{
    (void)state;
    assert_both(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_anonymous), cmocka_unit_test(test_memfd)};

    if (sizeof calls == 4) {
        print_message("linux_generated: SKIPPED: no code for this processor\n");
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
