/* The transition frame on aarch64 (PUSH_COOP_PINVOKE_FRAME): fp, lr, thread, flags, x19-x28, sp. */
#include "runtime.h"

void ep_dotnet_frame(const uintptr_t *frame, struct ep_context *context)
{
    *context = (struct ep_context){.pc = frame[1], .fp = frame[0], .lr = EP_LR_CALLED, .sp = frame[14]};
}

bool ep_dotnet_frame_fits(const uintptr_t *frame, uintptr_t top, const struct ep_context *context)
{
    const uintptr_t end = (uintptr_t)(frame + 15);

    return context->sp >= end && context->sp <= top && context->sp % 16 == 0 && context->fp >= end &&
           context->fp <= top;
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
