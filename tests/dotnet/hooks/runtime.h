/* A stand-in for what the hooks in port/nativeaot/ wrap and call of .NET's runtime, so that they run where that cannot
 * be had: on ARM, in QEMU. Two files, because the linker redirects calls between files only: runtime.c has the
 * runtime's functions, hooks.c is the program and what the runtime calls back. */
#ifndef HOOKS_RUNTIME_H
#define HOOKS_RUNTIME_H

#include <stdbool.h>
#include <stdint.h>

struct method_table {
    uint32_t flags, base_size;
};

struct object {
    const struct method_table *type;
};

void *RhpGcAlloc(const struct method_table *type, uint32_t flags, uintptr_t elements, const uintptr_t *frame);
void *bare_RhpGcAlloc(const struct method_table *type, uint32_t flags, uintptr_t elements, const uintptr_t *frame);
void RhAllocateNewArray(const struct method_table *type, uint32_t elements, uint32_t flags, void **array);
uint64_t RhGetAllocatedBytesForCurrentThread(void);
int64_t RhGetTotalAllocatedBytes(void);
/* As if nothing had been allocated: what is older than the profiler might be alive, as far as it knows. */
void forget_allocated(void);
void RhHandleSet(void *handle, void *object);
void RhpReversePInvoke(void *frame);
void RhpReversePInvokeReturn(void *frame);

void RhThrowEx(struct object *object, void *info);
void RhThrowHwEx(struct object *object, void *info);
void RhRethrow(struct object *object, void *info);
void OnFirstChanceException(struct object *object);

void _ZN15GCToEEInterface9SuspendEEE14SUSPEND_REASON(int reason);
void _ZN15GCToEEInterface9RestartEEEb(bool finished);
void _ZN15GCToEEInterface11GcStartWorkEii(int condemned, int most);
void _ZN15GCToEEInterface6GcDoneEi(int condemned);

/* What the collector left: at the places where the runtime's structure has them. */
struct heap {
    uint64_t committed, size[5], fragmented[5];
};
extern struct heap heap;
void RhGetMemoryInfo(void *info, int which);

/* What the throwing functions were called with last, and how often. */
extern struct object *thrown;
extern void *thrown_info;
extern unsigned throws, reverse_calls;

#endif
