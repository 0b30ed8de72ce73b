/* Registers of an interrupted x86-64 thread; see linux.h. */
#include "linux.h"

#include <elf.h>
#include <ucontext.h>

const uint32_t ep_linux_table_segment = PT_GNU_EH_FRAME;

void ep_linux_context(const void *ucontext, struct ep_context *context)
{
    const ucontext_t *uc = ucontext;

    context->pc = (uintptr_t)uc->uc_mcontext.gregs[REG_RIP];
    context->sp = (uintptr_t)uc->uc_mcontext.gregs[REG_RSP];
    context->fp = (uintptr_t)uc->uc_mcontext.gregs[REG_RBP];
    context->lr = 0;
    context->base = (uintptr_t)uc->uc_mcontext.gregs[REG_RBX];
    context->alt_start = (uintptr_t)uc->uc_stack.ss_sp;
    context->alt_end = context->alt_start + uc->uc_stack.ss_size;
}
