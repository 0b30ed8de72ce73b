/* Registers of an interrupted 32-bit ARM thread; see linux.h. The pc carries the Thumb bit. */
#include "linux.h"

#include <elf.h>
#include <ucontext.h>

const uint32_t ep_linux_table_segment = PT_ARM_EXIDX;
const bool ep_linux_tls_above = true;
const uint32_t ep_linux_rseq_signature = 0xe7f5def3;

void ep_linux_context(const void *ucontext, struct ep_registers *registers)
{
    const ucontext_t *uc = ucontext;
    const uintptr_t thumb = 1u << 5; /* bit of cpsr */

    registers->pc = uc->uc_mcontext.arm_pc | (uc->uc_mcontext.arm_cpsr & thumb ? 1u : 0u);
    registers->sp = uc->uc_mcontext.arm_sp;
    registers->fp = uc->uc_mcontext.arm_fp;
    registers->lr = ep_lr_of(uc->uc_mcontext.arm_lr);
    registers->base = uc->uc_mcontext.arm_r7;
    registers->argument = uc->uc_mcontext.arm_r1;
    registers->alt_start = (uintptr_t)uc->uc_stack.ss_sp;
    registers->alt_end = registers->alt_start + uc->uc_stack.ss_size;
}

/* /proc does not show the Thumb bit. The thread is in a system call, so the two bytes before pc show its state: svc
 * 0. */
uintptr_t ep_linux_pc(uint32_t tid, uintptr_t pc)
{
    const uint16_t thumb_svc = 0xdf00;
    uint16_t before = 0;

    if (ep_port_copy(tid, pc - sizeof before, &before, sizeof before) != sizeof before)
        return pc;
    return before == thumb_svc ? pc | 1u : pc;
}

/* blx register */
bool ep_linux_is_behind_call(uintptr_t address)
{
    if (address & 1)
        return (((const uint16_t *)(address - 1))[-1] & 0xff87) == 0x4780;
    return address % 4 == 0 && (((const uint32_t *)address)[-1] & 0x0ffffff0) == 0x012fff30;
}

/* ep_port_here: stores the caller's registers as they are after the call, in the order of struct ep_registers. */
__asm__(".text\n"
        ".syntax unified\n"
#ifdef __thumb__
        ".thumb\n"
        ".thumb_func\n"
#endif
        ".globl ep_port_here\n"
        ".hidden ep_port_here\n"
        ".type ep_port_here, %function\n"
        "ep_port_here:\n"
        "    mov r1, sp\n"
        "    mov r2, #0\n"
        "    str lr, [r0]\n"
        "    str r1, [r0, #4]\n"
        "    str r11, [r0, #8]\n"
        "    str r2, [r0, #12]\n"
        "    str r7, [r0, #16]\n"
        "    b ep_port_bounds\n"
        ".size ep_port_here, . - ep_port_here\n");

_Static_assert(offsetof(struct ep_registers, base) == 4 * sizeof(uintptr_t), "ep_port_here stores five words");

/* ep_wait_begin: passes the same registers on; see ep_wait_open(). */
__asm__(".text\n"
        ".syntax unified\n"
#ifdef __thumb__
        ".thumb\n"
        ".thumb_func\n"
#endif
        ".globl ep_wait_begin\n"
        ".hidden ep_wait_begin\n"
        ".type ep_wait_begin, %function\n"
        "ep_wait_begin:\n"
        "    add r0, r0, sp\n"
        "    mov r1, lr\n"
        "    mov r2, r11\n"
        "    mov r3, r7\n"
        "    b ep_wait_open\n"
        ".size ep_wait_begin, . - ep_wait_begin\n");
