/*
 * An interpreter of seccomp's filters: the classic BPF instructions that the kernel takes for seccomp (seccomp_check_
 * filter() of kernel/seccomp.c), without its checks of privileges. Jumps only go forward, so a valid program ends after
 * as many steps as it has instructions.
 */
#include "filter.h"

#include <string.h>

#define WORDS     (sizeof(struct seccomp_data) / sizeof(uint32_t))
#define SHIFT_MAX 31u

struct machine {
    uint32_t a, x, memory[BPF_MEMWORDS];
    uint32_t data[WORDS];
};

/* ---- validity ---- */

static bool is_jump_valid(const struct sock_filter *at, unsigned left)
{
    if (at->code == (BPF_JMP | BPF_JA))
        return at->k < left;
    return at->jt < left && at->jf < left;
}

static bool is_instruction_valid(const struct sock_filter *at, unsigned left)
{
    switch (at->code) {
    case BPF_LD | BPF_W | BPF_ABS:
        return at->k < sizeof(struct seccomp_data) && at->k % sizeof(uint32_t) == 0;
    case BPF_LD | BPF_MEM:
    case BPF_LDX | BPF_MEM:
    case BPF_ST:
    case BPF_STX:
        return at->k < BPF_MEMWORDS;
    case BPF_ALU | BPF_DIV | BPF_K:
        return at->k != 0;
    case BPF_ALU | BPF_LSH | BPF_K:
    case BPF_ALU | BPF_RSH | BPF_K:
        return at->k <= SHIFT_MAX;
    case BPF_LD | BPF_IMM:
    case BPF_LDX | BPF_IMM:
    case BPF_LD | BPF_W | BPF_LEN:
    case BPF_LDX | BPF_W | BPF_LEN:
    case BPF_MISC | BPF_TAX:
    case BPF_MISC | BPF_TXA:
    case BPF_RET | BPF_K:
    case BPF_RET | BPF_A:
        return true;
    default:
        break;
    }
    const unsigned operation = BPF_OP(at->code), class = at->code & ~(0xf0u | BPF_X);
    if (class == BPF_ALU)
        return operation < BPF_NEG || operation == BPF_XOR || at->code == (BPF_ALU | BPF_NEG);
    return class == BPF_JMP && is_jump_valid(at, left) && operation <= BPF_JSET &&
           (operation != BPF_JA || BPF_SRC(at->code) == BPF_K);
}

bool ep_linux_filter_is_valid(const struct sock_filter *program, unsigned length)
{
    if (length == 0 || length > BPF_MAXINSNS || BPF_CLASS(program[length - 1].code) != BPF_RET)
        return false;
    for (unsigned at = 0; at < length; at++)
        if (!is_instruction_valid(&program[at], length - 1 - at))
            return false;
    return true;
}

/* ---- running ---- */

static uint32_t shifted(uint32_t value, uint32_t by, bool left)
{
    by &= SHIFT_MAX;
    return left ? value << by : value >> by;
}

/* Returns false where the kernel ends the program with 0: a division by zero. */
static bool calculate(struct machine *machine, const struct sock_filter *at)
{
    const uint32_t with = BPF_SRC(at->code) == BPF_X ? machine->x : at->k;

    switch (BPF_OP(at->code)) {
    case BPF_ADD:
        machine->a += with;
        break;
    case BPF_SUB:
        machine->a -= with;
        break;
    case BPF_MUL:
        machine->a *= with;
        break;
    case BPF_DIV:
        if (with == 0)
            return false;
        machine->a /= with;
        break;
    case BPF_OR:
        machine->a |= with;
        break;
    case BPF_AND:
        machine->a &= with;
        break;
    case BPF_XOR:
        machine->a ^= with;
        break;
    case BPF_LSH:
    case BPF_RSH:
        machine->a = shifted(machine->a, with, BPF_OP(at->code) == BPF_LSH);
        break;
    default: /* BPF_NEG */
        machine->a = -machine->a;
        break;
    }
    return true;
}

static unsigned distance(const struct machine *machine, const struct sock_filter *at)
{
    const uint32_t with = BPF_SRC(at->code) == BPF_X ? machine->x : at->k, a = machine->a;
    bool holds;

    switch (BPF_OP(at->code)) {
    case BPF_JA:
        return at->k;
    case BPF_JEQ:
        holds = a == with;
        break;
    case BPF_JGT:
        holds = a > with;
        break;
    case BPF_JGE:
        holds = a >= with;
        break;
    default: /* BPF_JSET */
        holds = (a & with) != 0;
        break;
    }
    return holds ? at->jt : at->jf;
}

static uint32_t loaded(const struct machine *machine, const struct sock_filter *at)
{
    switch (BPF_MODE(at->code)) {
    case BPF_ABS:
        return machine->data[at->k / sizeof(uint32_t)];
    case BPF_LEN:
        return sizeof(struct seccomp_data);
    case BPF_MEM:
        return machine->memory[at->k];
    default: /* BPF_IMM */
        return at->k;
    }
}

uint32_t ep_linux_filter_verdict(const struct sock_filter *program, unsigned length, const struct seccomp_data *data)
{
    struct machine machine = {0};

    memcpy(machine.data, data, sizeof machine.data);
    for (unsigned i = 0; i < length; i++) {
        const struct sock_filter *at = &program[i];
        switch (BPF_CLASS(at->code)) {
        case BPF_LD:
            machine.a = loaded(&machine, at);
            break;
        case BPF_LDX:
            machine.x = loaded(&machine, at);
            break;
        case BPF_ST:
            machine.memory[at->k] = machine.a;
            break;
        case BPF_STX:
            machine.memory[at->k] = machine.x;
            break;
        case BPF_ALU:
            if (!calculate(&machine, at))
                return SECCOMP_RET_KILL_THREAD;
            break;
        case BPF_JMP:
            i += distance(&machine, at);
            break;
        case BPF_RET:
            return BPF_RVAL(at->code) == BPF_A ? machine.a : at->k;
        default: /* BPF_MISC */
            if (BPF_MISCOP(at->code) == BPF_TAX)
                machine.x = machine.a;
            else
                machine.a = machine.x;
            break;
        }
    }
    return SECCOMP_RET_KILL_THREAD;
}
