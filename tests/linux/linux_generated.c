/*
 * Code that is generated at run time and keeps frame pointers, between C functions in several places of a stack and at
 * its leaf: the stack reaches the thread's first function behind a [gap] for each place. It is in anonymous memory or
 * in a memfd. On x86-64 the same holds for one place without frame pointers, and old return addresses in its frame are
 * not taken for callers.
 */
#include "linux_test.h"

#include "core/unwind/frames.h"

#define RATE  499
#define BARE  256u /* where the code without frame pointers is */
#define SPINS 4096u

/* Functions that call each other: each one calls the first of the list with the rest. */
typedef void (*hop)(const void *list);

#if defined __x86_64__
/* push rbp; mov rbp, rsp; add rdi, 8; call [rdi - 8]; pop rbp; ret */
static const uint8_t calls[] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xc7, 8, 0xff, 0x57, 0xf8, 0x5d, 0xc3};
/* push rbp; mov rbp, rsp; mov ecx, 1000000; again: dec ecx; jnz again; pop rbp; ret */
static const uint8_t spins[] = {0x55, 0x48, 0x89, 0xe5, 0xb9, 0x40, 0x42, 0xf, 0, 0xff, 0xc9, 0x75, 0xfc, 0x5d, 0xc3};
/* push rbp; mov ebp, 1; sub rsp, 256; add rdi, 8; call [rdi - 8]; add rsp, 256; pop rbp; ret */
static const uint8_t calls_bare[] = {0x55, 0xbd, 1,    0,    0,    0,    0x48, 0x81, 0xec, 0, 1, 0, 0,    0x48, 0x83,
                                     0xc7, 8,    0xff, 0x57, 0xf8, 0x48, 0x81, 0xc4, 0,    1, 0, 0, 0x5d, 0xc3};
/* push rbp; mov ebp, 1000000; sub rsp, 256; again: dec ebp; jnz again; add rsp, 256; pop rbp; ret */
static const uint8_t spins_bare[] = {0x55, 0xbd, 0x40, 0x42, 0xf,  0,    0x48, 0x81, 0xec, 0, 1, 0,    0,
                                     0xff, 0xcd, 0x75, 0xfc, 0x48, 0x81, 0xc4, 0,    1,    0, 0, 0x5d, 0xc3};
#elif defined __aarch64__
/* stp x29, x30, [sp, #-16]!; mov x29, sp; ldr x1, [x0], #8; blr x1; ldp x29, x30, [sp], #16; ret */
static const uint32_t calls[] = {0xa9bf7bfd, 0x910003fd, 0xf8408401, 0xd63f0020, 0xa8c17bfd, 0xd65f03c0};
/* stp x29, x30, [sp, #-16]!; mov x29, sp; mov w1, #0xf0000; again: subs w1, w1, #1; b.ne again; ldp ...; ret */
static const uint32_t spins[] = {0xa9bf7bfd, 0x910003fd, 0x52a001e1, 0x71000421, 0x54ffffe1, 0xa8c17bfd, 0xd65f03c0};
#else
static const uint32_t calls[1], spins[1];
#endif
#if !defined __x86_64__
static const uint32_t calls_bare[1], spins_bare[1];
#endif

static uint8_t *code;
static uint64_t gaps_ns[8];
/* Frames between a stack's only gap and its root: the time with so many. */
static uint64_t outer_ns[64];

static void make(bool file)
{
    int fd = file ? (int)syscall(SYS_memfd_create, "generated", 0) : -1;

    if (file)
        assert_int_equal(ftruncate(fd, 8192), 0);
    code = mmap(NULL, 8192, PROT_READ | PROT_WRITE, file ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, fd, 0);
    assert_ptr_not_equal(code, MAP_FAILED);
    memcpy(code, calls, sizeof calls);
    memcpy(code + BARE, calls_bare, sizeof calls_bare);
    memcpy(code + SPINS, spins, sizeof spins);
    memcpy(code + SPINS + BARE, spins_bare, sizeof spins_bare);
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

static __attribute__((noinline)) void leave_words(const void *rest)
{
    const void *volatile room[3] = {rest};

    (void)room[0];
}

/* Its calls through pointers leave their return addresses where the next function has its frame. */
static __attribute__((noinline)) void leave_more(const void *rest)
{
    hop volatile next = leave_words;

    next(rest);
    next(rest);
    __asm__ volatile("");
}

static __attribute__((noinline)) void littering(const void *list)
{
    const hop *next = list;
    hop volatile before = leave_more;

    before(list);
    next[0](next + 1);
    __asm__ volatile("");
}

#if defined __x86_64__
/* Behind bytes that look like a call of what a pointer 1 GiB away points to. */
extern const uint8_t no_call[] __attribute__((visibility("hidden")));
__asm__(".text; .balign 8; .byte 0, 0, 0xff, 0x15; .long 0x40000000; no_call: ret");
#else
static const uint8_t no_call[1];
#endif

static __attribute__((noinline)) void leave_no_calls(void)
{
    const void *volatile room[32];

    for (unsigned i = 0; i < 32; i++)
        room[i] = no_call;
    (void)room[0];
}

static __attribute__((noinline)) void misleading(const void *list)
{
    const hop *next = list;

    leave_no_calls();
    next[0](next + 1);
    __asm__ volatile("");
}

/* Calls it by its name. */
static __attribute__((noinline)) void naming(const void *list)
{
    littering(list);
    __asm__ volatile("");
}

static void burn_in_c(const void *list)
{
    (void)list;
    burn(MS);
}

static void count_gaps(const uint32_t *frames, unsigned depth, uint64_t ns)
{
    unsigned gaps = 0, outer = 0;

    for (unsigned i = 0; i < depth; i++) {
        outer = frames[i] == EP_FRAME_GAP ? depth - i : outer;
        gaps += frames[i] == EP_FRAME_GAP;
    }
    gaps_ns[gaps < 8 ? gaps : 7] += ns;
    if (gaps == 1)
        outer_ns[outer % 64] += ns;
}

/* Nearly all of the time is in stacks with so many gaps, and nothing is cut. */
static void assert_gaps(const hop *list, unsigned gaps)
{
    struct ep_stats s;

    receiver_reset();
    memset(gaps_ns, 0, sizeof gaps_ns);
    memset(outer_ns, 0, sizeof outer_ns);
    receiver.on_stack = count_gaps;
    assert_int_equal(begin_profile(RATE, 3600000), 0);
    for (uint64_t start = clock_ns(CLOCK_THREAD_CPUTIME_ID); clock_ns(CLOCK_THREAD_CPUTIME_ID) - start < 300 * MS;)
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
    const hop leaf[] = {in_c, step, in_c, in_c, generated(SPINS)};
    assert_gaps(between, 2);
    assert_gaps(leaf, 2);
    (void)munmap(code, 8192);
}

TEST(test_anonymous)
{
    assert_both(false);
}

TEST(test_memfd)
{
    assert_both(true);
}

/* The number of frames outside the only gap of nearly all stacks. */
static unsigned outer_frames(const hop *list)
{
    unsigned most = 0;

    assert_gaps(list, 1);
    for (unsigned i = 0; i < 64; i++)
        most = outer_ns[i] > outer_ns[most] ? i : most;
    assert_true(outer_ns[most] > receiver.ns / 10 * 8);
    return most;
}

TEST(test_without_frame_pointers)
{
    if (sizeof calls_bare == sizeof(uint32_t))
        skip();
    make(false);
    hop step = generated(0), bare = generated(BARE);
    const hop known[] = {in_c, naming, step, in_c, burn_in_c}, between[] = {in_c, naming, bare, in_c, burn_in_c};
    const hop leaf[] = {in_c, naming, generated(SPINS + BARE)}, two[] = {naming, naming, bare, in_c, bare, burn_in_c};
    unsigned frames = outer_frames(known);
    assert_int_equal(outer_frames(between), frames);
    assert_int_equal(outer_frames(leaf), frames);
    assert_int_equal(outer_frames(two), frames + 1); /* from both places to the outer one's caller */
    (void)munmap(code, 8192);
}

/* Words of the stack may point behind anything, and what is there names no memory to read. */
TEST(test_bytes_that_are_no_call)
{
    if (sizeof calls_bare == sizeof(uint32_t))
        skip();
    make(false);
    const hop list[] = {in_c, misleading, generated(BARE), in_c, burn_in_c};
    assert_gaps(list, 1);
    (void)munmap(code, 8192);
}

int main(void)
{
    if (sizeof calls == 4) {
        print_message("linux_generated: SKIPPED: no code for this processor\n");
        return 0;
    }
    return test_run();
}
