/*
 * Single steps without a trap: user code of aarch64 cannot switch single-stepping on. Jumps and what depends on the
 * program counter are done here, on registers in memory; every other instruction is executed, in a copy that lies
 * between two switches of all registers (switch_aarch64.S). The stack is the program's own, so it looks at each
 * instruction as it would look without this.
 *
 *   shadow_step_run -> shadow_enter -> shadow_loop -> shadow_step, shadow_out -> a copy -> shadow_in
 *
 * A copy works wherever its instruction stands, so there is one for each different instruction. Many are made at once:
 * in QEMU, writing next to code that has run is slow. A new thread leaves its copy at once and runs unwatched. A fault
 * in a copy is shown to the program's handler as one at the instruction; handlers of signals are not stepped.
 * Encodings are from the Arm Architecture Reference Manual for A-profile, C4.1.
 */
#include "../../program.h"
#include "step.h"

#include <link.h>

#define COPIES 131072u /* power of two, the room for instructions; at most half of it is used */
#define AHEAD  256     /* instructions that are copied at once */
#define STACK  (1 << 18)
#define LR     30
#define USER   0xffffffffffffu /* pointers without their authentication codes */

/* Offsets are known to switch_aarch64.S. */
struct machine {
    uint64_t x[31], sp;
    uint64_t nzcv, host;
    uint64_t v[32][2];
    uintptr_t pc;
};
_Static_assert(offsetof(struct machine, sp) == 248 && offsetof(struct machine, v) == 272, "switch_aarch64.S");

struct copy {
    uint32_t code[6];
    uint64_t machine, in;
};

static struct machine machine;
static struct copy *copies;
static uint32_t copied[COPIES];
static unsigned copies_used;
static uint8_t stack[STACK] __attribute__((aligned(16)));
static struct sigaction faults_before;
static struct copy *starts; /* for system calls that start a thread or a process */

void shadow_enter(struct machine *machine, void *stack_end);
void shadow_loop(struct machine *machine);
void shadow_out(struct machine *machine, const void *copy);
extern const char shadow_back[], shadow_in[], shadow_faulted[];

static int64_t field(uint32_t code, unsigned low, unsigned bits)
{
    return (int32_t)(code << (32 - low - bits)) >> (32 - bits);
}

/* ---- what an instruction is ---- */

static bool is_register_jump(uint32_t code)
{
    return (code & 0xfe000000) == 0xd6000000;
}

static bool is_call(uint32_t code)
{
    return (code & 0xfc000000) == 0x94000000 || (is_register_jump(code) && (code >> 21 & 3) == 1);
}

static bool is_return(uint32_t code)
{
    return is_register_jump(code) && (code >> 21 & 3) == 2;
}

/* ---- instructions that are done here ---- */

static uint64_t reg(const struct machine *m, unsigned number)
{
    return number == 31 ? 0 : m->x[number];
}

static void set(struct machine *m, unsigned number, uint64_t value)
{
    if (number != 31)
        m->x[number] = value;
}

static bool holds(const struct machine *m, unsigned condition)
{
    const bool n = m->nzcv >> 31 & 1, z = m->nzcv >> 30 & 1, c = m->nzcv >> 29 & 1, v = m->nzcv >> 28 & 1;
    const bool base[8] = {z, c, n, v, c && !z, n == v, n == v && !z, true};

    return base[condition >> 1] != ((condition & 1) && condition != 15);
}

/* Conditional branches: taken or not, and how far in bytes. */
static bool branch(const struct machine *m, uint32_t code, bool *taken, int64_t *distance)
{
    const bool odd = code >> 24 & 1;
    const uint64_t value = reg(m, code & 31);

    *distance = field(code, 5, 19) * 4;
    if ((code & 0xff000000) == 0x54000000) {
        *taken = holds(m, code & 15);
    } else if ((code & 0x7e000000) == 0x34000000) {
        *taken = ((code >> 31 ? value : (uint32_t)value) != 0) == odd;
    } else if ((code & 0x7e000000) == 0x36000000) {
        *distance = field(code, 5, 14) * 4;
        *taken = (value >> ((code >> 31) * 32 + (code >> 19 & 31)) & 1) == odd;
    } else {
        return false;
    }
    return true;
}

static bool jump(struct machine *m, uint32_t code)
{
    bool taken;
    int64_t distance;

    if ((code & 0x7c000000) == 0x14000000) {
        if (code >> 31)
            m->x[LR] = m->pc + 4;
        m->pc += (uint64_t)(field(code, 0, 26) * 4);
    } else if (is_register_jump(code)) {
        const bool signs = code >> 11 & 1, zero_modifier = !(code >> 24 & 1);
        const unsigned from = signs && zero_modifier && is_return(code) ? LR : code >> 5 & 31;
        const uintptr_t to = reg(m, from) & (signs ? USER : UINT64_MAX);
        if (is_call(code))
            m->x[LR] = m->pc + 4;
        m->pc = to;
    } else if (branch(m, code, &taken, &distance)) {
        m->pc += taken ? (uint64_t)distance : 4;
    } else {
        return false;
    }
    return true;
}

/* adr, adrp, and loads from beside the code. */
static bool beside(struct machine *m, uint32_t code)
{
    const uintptr_t at = m->pc + (uint64_t)(field(code, 5, 19) * 4);
    const unsigned to = code & 31;

    if ((code & 0x1f000000) == 0x10000000) {
        const uint64_t amount = (uint64_t)(field(code, 5, 19) * 4 + (code >> 29 & 3));
        set(m, to, code >> 31 ? (m->pc & ~(uint64_t)4095) + (amount << 12) : m->pc + amount);
    } else if ((code & 0x3b000000) == 0x18000000) {
        const bool vector = code >> 26 & 1;
        const unsigned form = code >> 30; /* 32, 64, signed 32 or 128 bits, prefetch */
        uint64_t value = 0;
        if (vector) {
            memset(m->v[to], 0, sizeof m->v[to]);
            memcpy(m->v[to], (const void *)at, 4u << form);
        } else if (form != 3) {
            memcpy(&value, (const void *)at, form == 1 ? 8 : 4);
            set(m, to, form == 2 ? (uint64_t)(int64_t)(int32_t)value : value);
        }
    } else {
        return false;
    }
    m->pc += 4;
    return true;
}

/* ---- instructions that are executed ---- */

static struct copy copy_of(uint32_t code)
{
    return (struct copy){.code = {0xa9484610,       /* ldp x16, x17, [x16, #128] */
                                  code, 0xa9bf47f0, /* stp x16, x17, [sp, #-16]! */
                                  0x58000070,       /* ldr x16, machine */
                                  0x58000091,       /* ldr x17, in */
                                  0xd61f0220},      /* br x17 */
                         .machine = (uintptr_t)&machine,
                         .in = (uintptr_t)shadow_in};
}

static unsigned slot_of(uint32_t code)
{
    unsigned slot = code * 0x9e3779b1u >> 15;

    while (copied[slot] != 0 && copied[slot] != code)
        slot = (slot + 1) & (COPIES - 1);
    return slot;
}

static void add_copy(uint32_t code)
{
    const unsigned slot = slot_of(code);

    if (code == 0 || copied[slot] != 0 || copies_used >= COPIES / 2)
        return;
    copied[slot] = code;
    copies_used++;
    copies[slot] = copy_of(code);
    __builtin___clear_cache((char *)&copies[slot], (char *)&copies[slot + 1]);
}

/* Copies what follows as well, as far as the page goes: whatever lies there does no harm. */
static const struct copy *find_copy(uintptr_t pc, uint32_t code)
{
    unsigned slot = slot_of(code);

    if (copied[slot] == 0) {
        for (uintptr_t at = pc; at - pc < AHEAD * 4 && (at == pc || at % 4096 != 0); at += 4)
            add_copy(*(const uint32_t *)at);
        slot = slot_of(code);
        if (copied[slot] == 0)
            __builtin_trap(); /* COPIES is too small */
    }
    return &copies[slot];
}

static bool starts_a_thread(const struct machine *m, uint32_t code)
{
    return code == 0xd4000001 && (m->x[8] == 220 || m->x[8] == 435); /* svc #0: clone, clone3 */
}

/* The child, whose x0 is 0, goes on where the instruction stands: by br x17, which no caller of clone expects to keep.
 */
static const struct copy *start_copy(uintptr_t pc)
{
    const struct copy back = copy_of(0xd503201f);

    starts[0] = (struct copy){.code = {0xa9484610,          /* ldp x16, x17, [x16, #128] */
                                       0xd4000001,          /* svc #0 */
                                       0xb5000000 | 8 << 5, /* cbnz x0, starts[1].code + 0 */
                                       0x58000071,          /* ldr x17, .machine */
                                       0xd61f0220,          /* br x17 */
                                       0xd503201f},
                              .machine = pc + 4};
    starts[1] = back;
    starts[1].code[0] = 0xd503201f;
    __builtin___clear_cache((char *)starts, (char *)(starts + 2));
    return starts;
}

/* One instruction. */
static void execute(struct machine *m)
{
    uint32_t code;

    memcpy(&code, (const void *)m->pc, sizeof code);
    shadow_signed += (code == 0xd50323bf || code == 0xd65f0bff) && m->x[LR] & ~USER; /* autiasp, retaa */
    if (jump(m, code) || beside(m, code))
        return;
    const struct copy *copy = starts_a_thread(m, code) ? start_copy(m->pc) : find_copy(m->pc, code);
    const uintptr_t pc = m->pc;
    m->pc = pc + 4;
    shadow_out(m, copy); /* a fault's handler sets another pc */
}

void shadow_loop(struct machine *m)
{
    for (bool on = true; m->pc != (uintptr_t)shadow_back;) {
        struct ep_registers now = {
            .pc = m->pc, .sp = m->sp, .fp = m->x[29], .lr = ep_lr_of(m->x[LR]), .argument = m->x[1]};
        on = on && shadow_step(&now);
        execute(m);
    }
}

/* In a copy: the program's handler is to see the instruction, and decides where the program goes on. */
static void on_fault(int signal, siginfo_t *info, void *context)
{
    mcontext_t *now = &((ucontext_t *)context)->uc_mcontext;
    const bool stepped = now->pc - (uintptr_t)copies < COPIES * sizeof *copies;

    if (stepped)
        now->pc = machine.pc - 4;
    if (faults_before.sa_flags & SA_SIGINFO)
        faults_before.sa_sigaction(signal, info, context);
    else
        (void)sigaction(signal, &faults_before, NULL); /* it happens again */
    if (!stepped || !(faults_before.sa_flags & SA_SIGINFO))
        return;
    memcpy(machine.x, now->regs, sizeof machine.x);
    machine.sp = now->sp;
    machine.nzcv = now->pstate & 0xf0000000u;
    machine.pc = now->pc;
    now->regs[16] = (uintptr_t)&machine;
    now->sp = machine.host;
    now->pc = (uintptr_t)shadow_faulted;
}

int shadow_step_prepare(void)
{
    void *memory = mmap(NULL, (COPIES + 2) * sizeof *copies, PROT_READ | PROT_WRITE | PROT_EXEC,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED)
        return -errno;
    copies = memory;
    starts = copies + COPIES;
    return 0;
}

void shadow_step_run(void (*function)(void *), void *argument)
{
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};

    (void)sigaction(SIGSEGV, &action, &faults_before);
    memset(&machine, 0, sizeof machine);
    machine.pc = (uintptr_t)function;
    machine.x[0] = (uintptr_t)argument;
    shadow_enter(&machine, stack + sizeof stack);
    (void)sigaction(SIGSEGV, &faults_before, NULL);
}

/* ---- the shadow stack ---- */

struct function {
    void *text, *data, *start;
};
extern const void *_Unwind_Find_FDE(void *pc, struct function *function);

/* A jump back into the function that has made the innermost call, from another one: its exception was caught there, or
 * it is longjmp's. Not to its start: that would be a call instead of a return. */
static bool resumes(const struct shadow_call *call, uintptr_t from, uintptr_t pc, uintptr_t sp)
{
    struct function caller = {0}, now = {0}, before = {0};

    return call->slot == sp && !call->fault && _Unwind_Find_FDE((void *)(call->to - 1), &caller) != NULL &&
           _Unwind_Find_FDE((void *)pc, &now) != NULL && now.start == caller.start && (void *)pc != now.start &&
           (_Unwind_Find_FDE((void *)from, &before) == NULL || before.start != now.start);
}

static bool is_over(struct shadow_call *call, uintptr_t sp)
{
    call->left = call->left || sp < call->slot;
    return call->fault ? call->left && sp >= call->slot : sp > call->slot;
}

void shadow_follow(const struct ep_registers *before, const struct ep_registers *now)
{
    uint32_t code;
    struct shadow_call *last;

    memcpy(&code, (const void *)before->pc, sizeof code);
    if (shadow_throw_hardware && now->pc == (uintptr_t)shadow_throw_hardware && !is_call(code)) {
        shadow_push(now->sp, before->pc, true);
        return;
    }
    while ((last = shadow_top()) != NULL && is_over(last, now->sp))
        shadow_pop();
    if (is_call(code)) {
        shadow_push(before->sp, before->pc + 4, false);
        return;
    }
    if (now->pc == before->pc + 4 || last == NULL)
        return;
    if (last->to == now->pc && last->slot == now->sp) {
        shadow_pop();
        shadow_returned(true);
    } else if (is_register_jump(code) && resumes(last, before->pc, now->pc, now->sp)) {
        shadow_pop();
    } else if (is_return(code)) {
        shadow_returned(false);
    }
}
