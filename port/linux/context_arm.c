/* Registers of an interrupted 32-bit ARM thread; see linux.h. The pc carries the Thumb bit. */
#include "linux.h"

#include <elf.h>
#include <ucontext.h>

const uint32_t ep_linux_table_segment = PT_ARM_EXIDX;

void ep_linux_context(const void *ucontext, struct ep_context *context)
{
    const ucontext_t *uc = ucontext;
    const uintptr_t thumb = 1u << 5; /* of cpsr */

    context->pc = uc->uc_mcontext.arm_pc | (uc->uc_mcontext.arm_cpsr & thumb ? 1u : 0u);
    context->sp = uc->uc_mcontext.arm_sp;
    context->fp = uc->uc_mcontext.arm_fp;
    context->lr = uc->uc_mcontext.arm_lr;
    context->base = uc->uc_mcontext.arm_r7;
    context->alt_start = (uintptr_t)uc->uc_stack.ss_sp;
    context->alt_end = context->alt_start + uc->uc_stack.ss_size;
}
