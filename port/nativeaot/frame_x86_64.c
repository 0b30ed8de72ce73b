/* The transition frame on x86-64 (PUSH_COOP_PINVOKE_FRAME): return address, rbp, thread, flags, rbx, r12-r15, rsp. */
#include <string.h>

#include "runtime.h"

void ep_dotnet_frame(const uintptr_t *frame, struct ep_registers *registers)
{
    *registers =
        (struct ep_registers){.pc = frame[0], .fp = frame[1], .lr = EP_LR_CALLED, .base = frame[4], .sp = frame[9]};
}

bool ep_dotnet_frame_fits(const uintptr_t *frame, uintptr_t top, const struct ep_registers *registers)
{
    const uintptr_t end = (uintptr_t)(frame + 10);

    /* The call has left the return address below the caller's frame. */
    return registers->sp > end && registers->sp <= top && registers->sp % sizeof(uintptr_t) == 0 &&
           registers->fp >= end && registers->fp <= top && ((const uintptr_t *)registers->sp)[-1] == registers->pc;
}

/* jmp, alone or behind an argument that is set to 0: methods that only call another one have it. */
uintptr_t ep_dotnet_jump_target(uintptr_t function)
{
    const uint8_t *code = (const uint8_t *)function;
    int32_t distance;

    if ((*code | 2) == 0x33 && (code[1] >> 3) == (0xc0 >> 3 | (code[1] & 7))) /* xor of a register with itself */
        code += 2;
    if (*code != 0xe9)
        return function;
    memcpy(&distance, code + 1, sizeof distance);
    return (uintptr_t)code + 5 + (uintptr_t)(intptr_t)distance;
}

uintptr_t ep_dotnet_thread_pointer(void)
{
    uintptr_t pointer;

    __asm__("movq %%fs:0, %0" : "=r"(pointer));
    return pointer;
}
