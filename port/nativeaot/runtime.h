/*
 * The .NET runtime as seen by the hooks of this folder, and what they share. Functions of the runtime are weak: if this
 * runtime does not have one, a kind of profile is unavailable, but the program links.
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

/* The first members of a MethodTable. */
struct ep_dotnet_type {
    uint32_t flags; /* with EP_TYPE_HAS_ELEMENTS, the lower half is an element's size */
    uint32_t base_size;
};
#define EP_TYPE_HAS_ELEMENTS 0x80000000u

/* Exact number of bytes that the calling thread has allocated. Context: signal. */
EP_RUNTIME_FUNCTION uint64_t RhGetAllocatedBytesForCurrentThread(void);

/* Reads the registers of managed code that called a helper of the runtime, from the helper's frame
 * (PInvokeTransitionFrame). One per architecture. Context: signal. */
void ep_dotnet_frame(const uintptr_t *frame, struct ep_context *context);

/* Number of times that threads were stopped (allocation contexts stay valid in between), whether they are stopped
 * now, and number of collections. Written by gc_hooks.c. */
extern atomic_uint ep_dotnet_stops, ep_dotnet_collections;
extern atomic_bool ep_dotnet_stopped;

/* Bytes in use after the last collection, dead objects of generations that it did not collect included; 0: none yet,
 * or not known. Context: collect. */
uint64_t ep_dotnet_heap_in_use(void);

/* Follows a newly allocated object. Returns its token, 0: no place. Only in cooperative mode. Context: signal. */
uint32_t ep_dotnet_follow(void *object);

#endif
