/* The transition frame on arm (PUSH_COOP_PINVOKE_FRAME): r11, lr, r11, thread, flags, r4-r10, sp. */
#include "runtime.h"

void ep_dotnet_frame(const uintptr_t *frame, struct ep_context *context)
{
    /* The lowest bit of lr marks Thumb code. r7 is the frame pointer of gcc's and clang's Thumb code. */
    *context = (struct ep_context){
        .pc = frame[1] & ~(uintptr_t)1, .fp = frame[0], .lr = EP_LR_CALLED, .base = frame[8], .sp = frame[12]};
}
