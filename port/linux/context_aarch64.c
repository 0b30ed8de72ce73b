/* Registers of an interrupted aarch64 thread; see linux.h. */
#include "linux.h"

#include <elf.h>
#include <ucontext.h>

const uint32_t ep_linux_table_segment = PT_GNU_EH_FRAME;
const bool ep_linux_tls_above = true;
const uint32_t ep_linux_rseq_signature = 0xd428bc00;

void ep_linux_context(const void *ucontext, struct ep_registers *registers)
{
    const ucontext_t *uc = ucontext;

    registers->pc = (uintptr_t)uc->uc_mcontext.pc;
    registers->sp = (uintptr_t)uc->uc_mcontext.sp;
    registers->fp = (uintptr_t)uc->uc_mcontext.regs[29];
    registers->lr = ep_lr_of((uintptr_t)uc->uc_mcontext.regs[30]);
    registers->base = (uintptr_t)uc->uc_mcontext.regs[19];
    registers->argument = (uintptr_t)uc->uc_mcontext.regs[1];
    registers->alt_start = (uintptr_t)uc->uc_stack.ss_sp;
    registers->alt_end = registers->alt_start + uc->uc_stack.ss_size;
}

uintptr_t ep_linux_pc(uint32_t tid, uintptr_t pc)
{
    (void)tid;
    return pc;
}

/* blr */
bool ep_linux_is_behind_call(uintptr_t address)
{
    return address % 4 == 0 && (((const uint32_t *)address)[-1] & 0xfffffc1f) == 0xd63f0000;
}

/* ep_port_here: stores the caller's registers as they are after the call, in the order of struct ep_registers. */
__asm__(".text\n"
        ".globl ep_port_here\n"
        ".hidden ep_port_here\n"
        ".type ep_port_here, %function\n"
        "ep_port_here:\n"
        "    mov x1, sp\n"
        "    stp x30, x1, [x0]\n"
        "    stp x29, xzr, [x0, #16]\n"
        "    str x19, [x0, #32]\n"
        "    b ep_port_bounds\n"
        ".size ep_port_here, . - ep_port_here\n");

_Static_assert(offsetof(struct ep_registers, base) == 4 * sizeof(uintptr_t), "ep_port_here stores five words");

/* ep_wait_begin: passes the same registers on; see ep_wait_open(). */
__asm__(".text\n"
        ".globl ep_wait_begin\n"
        ".hidden ep_wait_begin\n"
        ".type ep_wait_begin, %function\n"
        "ep_wait_begin:\n"
        "    mov x1, sp\n"
        "    add x0, x1, w0, uxtw\n"
        "    mov x1, x30\n"
        "    mov x2, x29\n"
        "    mov x3, x19\n"
        "    b ep_wait_open\n"
        ".size ep_wait_begin, . - ep_wait_begin\n");
