/*
 * edgeprof's interpreter of seccomp filters against the kernel: random programs, each set by a child that makes one
 * system call. And what edgeprof makes of a filter's verdicts for its own system calls.
 */
#include "linux_test.h"

#include "port/linux/filter.h"

#define PROGRAMS 600
#define LONGEST  14u
#define ARRAY(a) (sizeof(a) / sizeof *(a))

#if defined __x86_64__
#define ARCH 0xc000003eu
#elif defined __aarch64__
#define ARCH 0xc00000b7u
#else
#define ARCH 0x40000028u
#endif

static uint64_t dice_state = 0x9e3779b97f4a7c15u;

static uint32_t dice(uint32_t below)
{
    dice_state ^= dice_state << 13;
    dice_state ^= dice_state >> 7;
    dice_state ^= dice_state << 17;
    return (uint32_t)(dice_state >> 24) % below;
}

/* ---- programs ---- */

static struct sock_filter random_return(void)
{
    static const uint32_t verdicts[] = {SECCOMP_RET_ALLOW,        SECCOMP_RET_ERRNO | 5,    SECCOMP_RET_ERRNO | 7,
                                        SECCOMP_RET_ERRNO | 5000, SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_KILL_THREAD,
                                        SECCOMP_RET_TRAP,         SECCOMP_RET_LOG,          0x12340000};

    if (dice(6) == 0)
        return (struct sock_filter)BPF_STMT(BPF_RET | BPF_A, 0);
    return (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, verdicts[dice(ARRAY(verdicts))]);
}

static uint32_t random_value(void)
{
    static const uint32_t values[] = {0, 1, 2, 31, 40, 64, SYS_getppid, ARCH, 0x7fff0000, 0x50000, 0xffffffff};

    return values[dice(ARRAY(values))];
}

/* Not the address of the call: the interpreter's callers do not know it. */
static uint32_t random_offset(void)
{
    static const uint32_t offsets[] = {0, 4, 16, 20, 24, 28, 32, 60, 61, 64, 2};

    return offsets[dice(dice(4) ? 8 : ARRAY(offsets))];
}

static struct sock_filter random_instruction(unsigned left)
{
    static const uint16_t arithmetic[] = {BPF_ADD, BPF_SUB, BPF_MUL, BPF_DIV, BPF_OR, BPF_AND,
                                          BPF_LSH, BPF_RSH, BPF_NEG, BPF_XOR, 0x90};
    static const uint16_t tests[] = {BPF_JA, BPF_JEQ, BPF_JGT, BPF_JGE, BPF_JSET, 0x50};
    static const uint16_t others[] = {BPF_LD | BPF_IMM,
                                      BPF_LDX | BPF_IMM,
                                      BPF_LD | BPF_W | BPF_LEN,
                                      BPF_LDX | BPF_W | BPF_LEN,
                                      BPF_MISC | BPF_TAX,
                                      BPF_MISC | BPF_TXA,
                                      BPF_ST,
                                      BPF_STX,
                                      BPF_LD | BPF_MEM,
                                      BPF_LDX | BPF_MEM,
                                      BPF_LD | BPF_H | BPF_ABS,
                                      BPF_LDX | BPF_B | BPF_MSH};
    const uint16_t source = dice(2) ? BPF_X : BPF_K;
    const uint8_t to = (uint8_t)dice(left + (dice(20) == 0)), or = (uint8_t)dice(left + 1);

    switch (dice(4)) {
    case 0:
        return (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, random_offset());
    case 1:
        return (struct sock_filter)BPF_STMT((uint16_t)(BPF_ALU | source | arithmetic[dice(ARRAY(arithmetic))]),
                                            random_value());
    case 2: {
        const uint16_t test = tests[dice(ARRAY(tests) - (dice(8) != 0))];
        return (struct sock_filter)BPF_JUMP((uint16_t)(BPF_JMP | test | (test == BPF_JA ? BPF_K : source)),
                                            test == BPF_JA ? to : random_value(), to, or < left ? or : 0);
    }
    default: {
        const uint16_t code = others[dice(ARRAY(others) - (dice(8) ? 2 : 0))];
        const bool is_memory = code == BPF_ST || code == BPF_STX || BPF_MODE(code) == BPF_MEM;
        return (struct sock_filter)BPF_STMT(code, is_memory ? dice(3) : random_value());
    }
    }
}

static unsigned random_program(struct sock_filter *program)
{
    const unsigned length = 1 + dice(LONGEST);

    for (unsigned i = 0; i + 1 < length; i++)
        program[i] = dice(9) ? random_instruction(length - 1 - i) : random_return();
    program[length - 1] = random_return();
    return length;
}

/* ---- what the kernel does ---- */

enum { REFUSED = 1, SET, RETURNED };

struct outcome {
    _Atomic int step;
    long value;
    int error;
};

/* Without a system call after the one that counts. */
static _Noreturn void in_child(struct outcome *outcome, const struct sock_fprog *program,
                               const struct seccomp_data *data)
{
    (void)signal(SIGSYS, SIG_DFL);
    (void)signal(SIGILL, SIG_DFL);
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program, 0, 0) != 0) {
        outcome->step = REFUSED;
        _exit(0);
    }
    outcome->step = SET;
    errno = 0;
    outcome->value = syscall(data->nr, (long)data->args[0], (long)data->args[1], (long)data->args[2],
                             (long)data->args[3], (long)data->args[4], (long)data->args[5]);
    outcome->error = errno;
    outcome->step = RETURNED;
    __builtin_trap();
}

static void expect(uint32_t verdict, const struct outcome *outcome, int status)
{
    const uint32_t action = verdict & SECCOMP_RET_ACTION_FULL, data = verdict & SECCOMP_RET_DATA;

    if (action == SECCOMP_RET_ALLOW || action == SECCOMP_RET_LOG) {
        assert_int_equal(outcome->step, RETURNED);
        assert_int_equal(outcome->value, getpid());
    } else if (action == SECCOMP_RET_ERRNO) {
        assert_int_equal(outcome->step, RETURNED);
        assert_int_equal(outcome->error, data > 4095 ? 4095 : data);
    } else if (action == SECCOMP_RET_TRACE || action == SECCOMP_RET_USER_NOTIF) {
        assert_int_equal(outcome->step, RETURNED);
        assert_int_equal(outcome->error, ENOSYS);
    } else {
        assert_int_equal(outcome->step, SET);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS);
    }
}

static bool loads_memory(const struct sock_filter *program, unsigned length)
{
    for (unsigned i = 0; i < length; i++)
        if ((BPF_CLASS(program[i].code) == BPF_LD || BPF_CLASS(program[i].code) == BPF_LDX) &&
            BPF_MODE(program[i].code) == BPF_MEM)
            return true;
    return false;
}

TEST(verdicts_are_the_kernels)
{
    struct outcome *outcome = mmap(NULL, sizeof *outcome, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    const unsigned programs = PROGRAMS / unit_part();
    unsigned tried = 0, refused = 0, killed = 0;

    assert_true(outcome != MAP_FAILED);
    for (unsigned i = 0; i < programs; i++) {
        struct sock_filter code[LONGEST];
        struct sock_fprog program = {.filter = code, .len = (unsigned short)random_program(code)};
        struct seccomp_data data = {.nr = SYS_getppid, .arch = ARCH};
        int status;
        for (unsigned at = 0; at < 6; at++)
            data.args[at] = (unsigned long)(random_value() | (uint64_t)random_value() << (dice(2) * 32));
        *outcome = (struct outcome){0};
        const pid_t child = fork();
        if (child == 0)
            in_child(outcome, &program, &data);
        assert_int_equal(waitpid(child, &status, 0), child);
        const bool valid = ep_linux_filter_is_valid(code, program.len);
        if (outcome->step == REFUSED) { /* the kernel also refuses memory that nothing has stored */
            assert_true(!valid || loads_memory(code, program.len));
            refused++;
            continue;
        }
        assert_true(valid);
        expect(ep_linux_filter_verdict(code, program.len, &data), outcome, status);
        tried++;
        killed += outcome->step == SET;
    }
    (void)munmap(outcome, sizeof *outcome);
    print_message("linux_filter: %u programs judged as by the kernel, %u of them end it; %u refused\n", tried, killed,
                  refused);
    assert_true(tried > programs / 4 && refused > programs / 50 && killed > programs / 20);
}

/* ---- what edgeprof makes of it ---- */

static const struct ep_linux_call *met(uint32_t number, uint32_t verdict, uint32_t otherwise)
{
    const struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, verdict),
        BPF_STMT(BPF_RET | BPF_K, otherwise),
    };

    assert_true(ep_linux_filter_is_valid(code, ARRAY(code)));
    return ep_linux_filter_meets(code, ARRAY(code));
}

TEST(each_call_counts)
{
    static const uint32_t end[] = {SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_KILL_THREAD, SECCOMP_RET_TRAP,
                                   SECCOMP_RET_TRACE,        SECCOMP_RET_USER_NOTIF,  0x12340000};

    for (unsigned i = 0; i < ep_linux_call_count; i++) {
        const struct ep_linux_call *call = &ep_linux_calls[i];
        for (unsigned at = 0; at < ARRAY(end); at++)
            assert_ptr_equal(met(call->number, end[at], SECCOMP_RET_ALLOW), call);
        assert_null(met(call->number, SECCOMP_RET_LOG, SECCOMP_RET_ALLOW));
        assert_ptr_equal(met(call->number, SECCOMP_RET_ERRNO | EPERM, SECCOMP_RET_ALLOW),
                         call->must_return ? call : NULL);
    }
    assert_null(met(SYS_seccomp, SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_ALLOW));
    assert_non_null(met(SYS_read, SECCOMP_RET_ALLOW, SECCOMP_RET_KILL_PROCESS));
}

TEST_MAIN
