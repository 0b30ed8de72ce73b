/* The transition frame on arm (PUSH_COOP_PINVOKE_FRAME): r11, lr, r11, thread, flags, r4-r10, sp. */
#include "runtime.h"

void ep_dotnet_frame(const uintptr_t *frame, struct ep_registers *registers)
{
    /* The lowest bit of lr marks Thumb code. r7 is the frame pointer of gcc's and clang's Thumb code. */
    *registers = (struct ep_registers){
        .pc = frame[1] & ~(uintptr_t)1, .fp = frame[0], .lr = EP_LR_CALLED, .base = frame[8], .sp = frame[12]};
}

bool ep_dotnet_frame_fits(const uintptr_t *frame, uintptr_t top, const struct ep_registers *registers)
{
    /* fp may be anything: not all managed code keeps it. */
    return registers->sp >= (uintptr_t)(frame + 13) && registers->sp <= top && registers->sp % sizeof(uintptr_t) == 0;
}

/* The next two are not needed here: no register that holds objects is followed, so there are no async parents. */
uintptr_t ep_dotnet_jump_target(uintptr_t function)
{
    return function;
}

uintptr_t ep_dotnet_thread_pointer(void)
{
    return 0;
}
