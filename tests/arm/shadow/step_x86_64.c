/*
 * Single steps by the trap flag: the kernel raises SIGTRAP after every instruction. The handler runs with the flag off
 * (the kernel clears it).
 */
#include "step.h"

#include <errno.h>
#include <signal.h>
#include <ucontext.h>

#define TRAP_FLAG 0x100

static volatile bool on;

static int skip_prefixes(const uint8_t *code)
{
    int n = 0;
    while (n < 8 && (code[n] == 0x66 || code[n] == 0x67 || code[n] == 0xf2 || code[n] == 0xf3 || code[n] == 0x2e ||
                     code[n] == 0x3e || code[n] == 0x64 || code[n] == 0x65))
        n++;
    return (code[n] & 0xf0) == 0x40 ? n + 1 : n; /* REX */
}

static bool is_call(const uint8_t *code)
{
    code += skip_prefixes(code);
    return code[0] == 0xe8 || (code[0] == 0xff && (code[1] & 0x38) == 0x10);
}

static bool is_return(const uint8_t *code)
{
    code += skip_prefixes(code);
    return code[0] == 0xc3 || code[0] == 0xc2;
}

/* By return, unwinding, longjmp. */
static bool is_over(struct shadow_call *call, uintptr_t sp)
{
    call->left = call->left || sp < call->slot;
    return call->fault ? call->left && sp >= call->slot : sp > call->slot;
}

/* After a fault the first trap comes behind the first instruction there. */
static bool throws_hardware(uintptr_t pc)
{
    return shadow_throw_hardware != NULL && pc - (uintptr_t)shadow_throw_hardware <= 3;
}

void shadow_follow(const struct ep_registers *before, const struct ep_registers *now)
{
    const uint8_t *code = (const uint8_t *)before->pc;
    const uintptr_t top = now->sp < now->stack_end ? *(const uintptr_t *)now->sp : 0;
    const uintptr_t length = top - before->pc;
    struct shadow_call *last = shadow_top();

    if (is_call(code) && now->sp == before->sp - sizeof(uintptr_t) && length >= 2 && length <= 15) {
        shadow_push(now->sp, top, false);
        return;
    }
    /* The executed return is to go where the call at its slot said. */
    if (is_return(code) && now->sp > before->sp && last != NULL)
        shadow_returned(last->slot != before->sp || last->to == now->pc);
    while (last != NULL && is_over(last, now->sp)) {
        shadow_pop();
        last = shadow_top();
    }
    if (throws_hardware(now->pc) && !throws_hardware(before->pc))
        shadow_push(now->sp, before->pc, true);
}

static void on_trap(int signal, siginfo_t *info, void *context)
{
    (void)signal;
    (void)info;
    const int saved = errno;
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    struct ep_registers now = {.pc = (uintptr_t)registers[REG_RIP],
                               .sp = (uintptr_t)registers[REG_RSP],
                               .fp = (uintptr_t)registers[REG_RBP],
                               .base = (uintptr_t)registers[REG_RBX],
                               .argument = (uintptr_t)registers};
    on = on && shadow_step(&now);
    if (!on)
        registers[REG_EFL] &= ~(greg_t)TRAP_FLAG;
    errno = saved;
}

int shadow_step_prepare(void)
{
    struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};

    sigfillset(&action.sa_mask);
    return sigaction(SIGTRAP, &action, NULL) == 0 ? 0 : -errno;
}

/* With the trap flag on from the pushed flags' pop to the handler's switching it off. */
__attribute__((noinline)) void shadow_step_run(void (*function)(void *), void *argument)
{
    on = true;
    __asm__ volatile("pushfq\n\torl %0, (%%rsp)\n\tpopfq" : : "i"(TRAP_FLAG) : "cc", "memory");
    function(argument);
    on = false;
    __asm__ volatile("nop" : : : "memory"); /* the handler has its turn before anything else runs */
}
