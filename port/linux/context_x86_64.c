/* Registers of an interrupted x86-64 thread; see linux.h. */
#include "linux.h"

#include <elf.h>
#include <ucontext.h>

const uint32_t ep_linux_table_segment = PT_GNU_EH_FRAME;
const bool ep_linux_tls_above = false;
const uint32_t ep_linux_rseq_signature = 0x53053053;

__attribute__((hot)) void ep_linux_context(const void *ucontext, struct ep_registers *registers)
{
    const ucontext_t *uc = ucontext;

    registers->pc = (uintptr_t)uc->uc_mcontext.gregs[REG_RIP];
    registers->sp = (uintptr_t)uc->uc_mcontext.gregs[REG_RSP];
    registers->fp = (uintptr_t)uc->uc_mcontext.gregs[REG_RBP];
    registers->lr = 0;
    registers->base = (uintptr_t)uc->uc_mcontext.gregs[REG_RBX];
    registers->argument = (uintptr_t)uc->uc_mcontext.gregs;
    registers->alt_start = (uintptr_t)uc->uc_stack.ss_sp;
    registers->alt_end = registers->alt_start + uc->uc_stack.ss_size;
}

uintptr_t ep_linux_pc(uint32_t tid, uintptr_t pc)
{
    (void)tid;
    return pc;
}

/* call *%reg; call *n(%reg). */
bool ep_linux_is_behind_call(uintptr_t address)
{
    const uint8_t *b = (const uint8_t *)address;

    return (b[-2] == 0xff && (b[-1] & 0xf8) == 0xd0) || (b[-3] == 0xff && (b[-2] & 0xf8) == 0x50) ||
           (b[-4] == 0xff && b[-3] == 0x54 && b[-2] == 0x24);
}

/* ep_port_here: stores the caller's registers as they are after the call, in the order of struct ep_registers. */
__asm__(".text\n"
        ".globl ep_port_here\n"
        ".hidden ep_port_here\n"
        ".type ep_port_here, @function\n"
        "ep_port_here:\n"
        "    movq (%rsp), %rax\n"
        "    movq %rax, 0(%rdi)\n"
        "    leaq 8(%rsp), %rax\n"
        "    movq %rax, 8(%rdi)\n"
        "    movq %rbp, 16(%rdi)\n"
        "    movq $0, 24(%rdi)\n"
        "    movq %rbx, 32(%rdi)\n"
        "    movq $0, 40(%rdi)\n"
        "    jmp ep_port_bounds\n"
        ".size ep_port_here, . - ep_port_here\n");

_Static_assert(offsetof(struct ep_registers, argument) == 5 * sizeof(uintptr_t), "ep_port_here stores six words");

/* ep_wait_begin: passes the same registers on; see ep_wait_open(). */
__asm__(".text\n"
        ".globl ep_wait_begin\n"
        ".hidden ep_wait_begin\n"
        ".type ep_wait_begin, @function\n"
        "ep_wait_begin:\n"
        "    movl %edi, %edi\n"
        "    leaq 8(%rsp,%rdi), %rdi\n"
        "    movq (%rsp), %rsi\n"
        "    movq %rbp, %rdx\n"
        "    movq %rbx, %rcx\n"
        "    jmp ep_wait_open\n"
        ".size ep_wait_begin, . - ep_wait_begin\n");
