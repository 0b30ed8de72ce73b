/*
 * The .NET runtime as seen by the hooks of this folder, and what they share. Functions of the runtime are weak: if this
 * runtime does not have one, a kind of profile is unavailable, but the program links.
 *
 *   alloc_hooks.c      RhpGcAlloc, RhAllocateNewArray    gc_hooks.c           GCToEEInterface's four
 *   exception_hooks.c  OnFirstChanceException            trampoline_<arch>.S  hooks that must leave no frame
 *   live_handles.c     weak handles                      frame_<arch>.c       a transition frame's registers
 *   heap_sizes.c       RhGetMemoryInfo                   thread_names.c       SystemNative_CreateThread
 *   self_check.c       compares the runtime with what the hooks expect
 *   async_parents.c    the methods that wait for a continuation; async_measure.c: where its objects have what
 *   thread_mode.c      RhpReversePInvoke: cooperative mode
 *   pending.c          GCHeap::DiagWalkHeap: what pending async methods wait for
 */
#ifndef EP_DOTNET_RUNTIME_H
#define EP_DOTNET_RUNTIME_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <edgeprof/hooks.h>

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
void ep_dotnet_frame(const uintptr_t *frame, struct ep_registers *registers);

/* The same in bounds, for an object that managed code below `top` on this stack has just asked for: whether the
 * registers are those of a caller between `frame` and `top`. Reads nothing outside. */
bool ep_dotnet_frame_fits(const uintptr_t *frame, uintptr_t top, const struct ep_registers *registers);

/* Where a function's first instruction jumps to, if it is a jump; else the function. One per architecture. Context:
 * signal. */
uintptr_t ep_dotnet_jump_target(uintptr_t function);

/* The linker's bounds of the section with managed code. */
extern const char ep_dotnet_managed_start[] __asm__("__start___managedcode")
    __attribute__((weak, visibility("hidden")));
extern const char ep_dotnet_managed_end[] __asm__("__stop___managedcode") __attribute__((weak, visibility("hidden")));

/* False as well where the bounds are not known. Context: signal. */
static inline bool ep_dotnet_is_managed(uintptr_t pc)
{
    return ep_dotnet_managed_start && pc >= (uintptr_t)ep_dotnet_managed_start && pc < (uintptr_t)ep_dotnet_managed_end;
}

/* The thread pointer of thread-local storage; 0: there are no async parents here. One per architecture. Context:
 * signal. */
uintptr_t ep_dotnet_thread_pointer(void);

/* ---- thread_mode.c ---- */

/* Returns true if the calling thread is in cooperative mode: then a signal handler that it runs keeps objects where
 * they are. False as well where that is not known. Context: signal. */
bool ep_dotnet_is_cooperative(void);

/* Takes a thread in preemptive mode into cooperative mode and back; waits for a collection in between. False: not known
 * to be in preemptive mode, and nothing has changed. Must not block between the two. */
struct ep_dotnet_mode {
    uintptr_t frame[4]; /* ReversePInvokeFrame: transition frame, thread */
};
/* Context: any thread, also in a signal handler of the program that waits. */
bool ep_dotnet_cooperative_begin(struct ep_dotnet_mode *mode);
/* Context: the same, a signal handler too. */
void ep_dotnet_cooperative_end(struct ep_dotnet_mode *mode);

/* ---- async_parents.c ---- */

/* Finds the continuation that runs at the context, and the methods that wait for it; parents->count 0: none. Only in
 * cooperative mode. Context: signal. */
void ep_dotnet_async_find(const struct ep_registers *registers, struct ep_hook_parents *parents);

/* The same for a thread in preemptive mode, as the functions that wait are called. False: there are none. Context: any
 * thread, also in a signal handler of the program that waits. */
bool ep_dotnet_async_find_waited(const struct ep_registers *registers, struct ep_hook_parents *parents);

/* ep_hook_event() with async parents if they are on. Only in cooperative mode. Context: signal. */
int ep_dotnet_event(const struct ep_hook_event *event);

/* While objects cannot move: what objects of a type are, and the task that waits for a task, 0: none is known. Known
 * after ep_dotnet_async_measure(). Context: signal. */
enum ep_dotnet_task_kind { EP_TASK_NONE, EP_TASK_OTHER, EP_TASK_METHOD };
enum ep_dotnet_task_kind ep_dotnet_task_kind(uintptr_t type);
uintptr_t ep_dotnet_task_waiter(uintptr_t task);

/* ---- pending.c ---- */

/* At the end of a full collection, while all threads stand: makes the list of pending tasks if one is wanted. */
void ep_dotnet_tasks_walk(void);

/* Switches a kind off for good; the first reason stays. Context: signal. */
static inline void ep_dotnet_refuse(enum ep_kind kind, const char *why)
{
    const char *none = NULL;

    (void)atomic_compare_exchange_strong(&ep_kind_missing[kind], &none, why);
}

static inline bool ep_dotnet_refuses(enum ep_kind kind)
{
    return atomic_load_explicit(&ep_kind_missing[kind], memory_order_relaxed) != NULL;
}

/* ---- self_check.c ---- */

/* Returns true if a word can be read there, asked of the kernel. Context: signal. */
bool ep_dotnet_is_readable(uintptr_t at);

/* ---- what it asks of the hooks; each refuses its kinds. Context: init ---- */

/* `allocate` is managed code that makes an array of EP_DOTNET_PROBE_ARRAY bytes, and an uninitialised one of
 * EP_DOTNET_PROBE_RAW. */
void ep_dotnet_alloc_check(void (*allocate)(void));
void ep_dotnet_exception_check(void);
void ep_dotnet_gc_check(void);
void ep_dotnet_wait_check(void);
bool ep_dotnet_live_check(
    void *object); /* in cooperative mode: whether a weak reference of a live object is its address */

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
