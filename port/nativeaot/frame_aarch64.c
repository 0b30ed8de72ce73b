/* The transition frame on aarch64 (PUSH_COOP_PINVOKE_FRAME): fp, lr, thread, flags, x19-x28, sp. */
#include <string.h>

#include "runtime.h"

void ep_dotnet_frame(const uintptr_t *frame, struct ep_registers *registers)
{
    *registers =
        (struct ep_registers){.pc = frame[1], .fp = frame[0], .lr = EP_LR_CALLED, .base = frame[4], .sp = frame[14]};
}

bool ep_dotnet_frame_fits(const uintptr_t *frame, uintptr_t top, const struct ep_registers *registers)
{
    const uintptr_t end = (uintptr_t)(frame + 15);

    return registers->sp >= end && registers->sp <= top && registers->sp % 16 == 0 && registers->fp >= end &&
           registers->fp <= top;
}

/* b, alone or behind a frame that is made and left: methods that only call another one have it. */
uintptr_t ep_dotnet_jump_target(uintptr_t function)
{
    /* stp x29, x30, [sp, #-16]!; mov x29, sp; ldp x29, x30, [sp], #16 */
    static const uint32_t frame[] = {0xa9bf7bfd, 0x910003fd, 0xa8c17bfd};
    const uint32_t *code = (const uint32_t *)function;

    if (*code == *frame && memcmp(code, frame, sizeof frame) == 0)
        code += sizeof frame / sizeof *frame;
    if (*code >> 26 != 5)
        return function;
    return (uintptr_t)code + (uintptr_t)((intptr_t)(int32_t)(*code << 6) >> 4);
}

uintptr_t ep_dotnet_thread_pointer(void)
{
    uintptr_t pointer;

    __asm__("mrs %0, tpidr_el0" : "=r"(pointer));
    return pointer;
}
