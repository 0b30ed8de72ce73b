/* Registers of an interrupted aarch64 thread; see linux.h. */
#include "linux.h"

#include <elf.h>
#include <ucontext.h>

const uint32_t ep_linux_table_segment = PT_GNU_EH_FRAME;

void ep_linux_context(const void *ucontext, struct ep_context *context)
{
    const ucontext_t *uc = ucontext;

    context->pc = (uintptr_t)uc->uc_mcontext.pc;
    context->sp = (uintptr_t)uc->uc_mcontext.sp;
    context->fp = (uintptr_t)uc->uc_mcontext.regs[29];
    context->lr = (uintptr_t)uc->uc_mcontext.regs[30];
    context->base = 0;
    context->alt_start = (uintptr_t)uc->uc_stack.ss_sp;
    context->alt_end = context->alt_start + uc->uc_stack.ss_size;
}
