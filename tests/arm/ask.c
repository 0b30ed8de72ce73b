/*
 * What the unwinder says of the stack at the instruction where the program stands: guest_answer() makes of the saved
 * registers what a signal handler would be handed, and leaves the walker's answer where truth.py reads it.
 */
#include "../program.h"
#include "guest.h"

#include "port/linux/linux.h"

/* Written and read by truth.py. */
uintptr_t asked_pc, asked_flags;
struct shadow_stack answer;

static const struct shadow_walker *walker;
static uintptr_t stack_start, stack_end, stack_root;

void guest_answer(const struct guest_registers *registers)
{
    static ucontext_t interrupted;
    struct ep_registers context = {0};

#if defined(__aarch64__)
    memcpy(interrupted.uc_mcontext.regs, registers->x, sizeof registers->x);
    interrupted.uc_mcontext.sp = registers->sp;
    interrupted.uc_mcontext.pc = asked_pc;
#else
    memcpy(&interrupted.uc_mcontext.arm_r0, registers->r, sizeof registers->r); /* r0..r10, fp, ip, sp, lr */
    interrupted.uc_mcontext.arm_pc = asked_pc;
    interrupted.uc_mcontext.arm_cpsr = asked_flags;
#endif
    ep_linux_context(&interrupted, &context);
    context.stack_start = stack_start;
    context.stack_end = stack_end;
    context.stack_root = stack_root;
    walker->walk(&context, &answer);
}

int guest_prepare(const char *name, uintptr_t root)
{
    if (strcmp(name, shadow_walker_fp.name) == 0)
        walker = &shadow_walker_fp;
    else if (strcmp(name, shadow_walker_core.name) == 0)
        walker = &shadow_walker_core;
    else
        return -EINVAL;
    stack_root = root;
    return walker->prepare();
}

int guest_refresh(void)
{
    pthread_attr_t attributes;
    void *start;
    size_t size;
    int err = pthread_getattr_np(pthread_self(), &attributes);
    if (err != 0)
        return -err;
    err = pthread_attr_getstack(&attributes, &start, &size);
    pthread_attr_destroy(&attributes);
    stack_start = (uintptr_t)start;
    stack_end = (uintptr_t)start + size;
    walker->refresh();
    return -err;
}
