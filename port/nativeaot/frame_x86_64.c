/* The transition frame on x86-64 (PUSH_COOP_PINVOKE_FRAME): return address, rbp, thread, flags, rbx, r12-r15, rsp. */
#include "runtime.h"

void ep_dotnet_frame(const uintptr_t *frame, struct ep_context *context)
{
    *context =
        (struct ep_context){.pc = frame[0], .fp = frame[1], .lr = EP_LR_CALLED, .base = frame[4], .sp = frame[9]};
}
