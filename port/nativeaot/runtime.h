/*
 * .NET's runtime as the hooks of this folder see it, and what they tell each other. Functions of the runtime are weak:
 * one that this runtime does not have makes a kind of profile unavailable, not the program unlinkable.
 *
 *   alloc_hooks.c      RhpGcAlloc, RhAllocateNewArray    gc_hooks.c           GCToEEInterface's four
 *   exception_hooks.c  OnFirstChanceException            trampoline_<arch>.S  hooks that must leave no frame
 *   live_handles.c     weak handles                      frame_<arch>.c       a transition frame's registers
 *   heap_sizes.c       RhGetMemoryInfo                   thread_names.c       SystemNative_CreateThread
 */
#ifndef EP_DOTNET_RUNTIME_H
#define EP_DOTNET_RUNTIME_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/hooks.h"

#define EP_RUNTIME_FUNCTION extern __attribute__((weak))

/* The beginning of a MethodTable. */
struct ep_dotnet_type {
    uint32_t flags; /* EP_TYPE_HAS_ELEMENTS: the lower half is the size of one */
    uint32_t base_size;
};
#define EP_TYPE_HAS_ELEMENTS 0x80000000u

/* Bytes that the calling thread has allocated so far, to the byte. Context: signal. */
EP_RUNTIME_FUNCTION uint64_t RhGetAllocatedBytesForCurrentThread(void);

/* Registers of the managed code that called a helper of the runtime, from the frame that the helper made
 * (PInvokeTransitionFrame). One per architecture. Context: signal. */
void ep_dotnet_frame(const uintptr_t *frame, struct ep_context *context);

/* How often threads have been stopped: from one to the next, allocation contexts stay. Whether they are now. And how
 * often the collector has looked. gc_hooks.c writes them. */
extern atomic_uint ep_dotnet_stops, ep_dotnet_collections;
extern atomic_bool ep_dotnet_stopped;

/* Follows an object that was just allocated: its token, 0 when there is no place for it. Only in cooperative mode.
 * Context: signal. */
uint32_t ep_dotnet_follow(void *object);

#endif
