/*
 * Cooperative and preemptive mode. The collector moves objects only while each thread is in preemptive mode or stopped
 * at a safe point, and in both cases the thread's transition frame is set. So a thread without one is in cooperative
 * mode, and objects stay where they are until it leaves that mode or, in managed code, reaches a safe point. Only the
 * thread itself writes the field: a signal handler that has interrupted it reads what stays true while it runs.
 * A thread that returns into managed code clears the field first and then looks whether threads are being stopped, and
 * so must whoever asks.
 *
 * The runtime keeps the field in its Thread, in thread-local storage. Where that is is measured: in an executable it is
 * the same place for all threads. A shared library has none such, and there nothing is known.
 */
#include <link.h>

#include "glue.h"
#include "runtime.h"

#define THREAD_WORDS 40u /* of a Thread, that are looked at */

/* Switches from preemptive to cooperative mode and back, like a call from C into managed code. */
EP_RUNTIME_FUNCTION void RhpReversePInvoke(void *frame);
EP_RUNTIME_FUNCTION void RhpReversePInvokeReturn(void *frame);
/* Not 0 from before threads are stopped until they may run. */
EP_RUNTIME_FUNCTION const volatile uint32_t RhpTrapThreads;

static atomic_intptr_t transition_frame; /* distance of the field from the thread pointer; 0: not known */

static uintptr_t transition(intptr_t distance)
{
    const uintptr_t at = ep_dotnet_thread_pointer() + (uintptr_t)distance;

    return *(const volatile uintptr_t *)at;
}

bool ep_dotnet_is_cooperative(void)
{
    const intptr_t distance = atomic_load_explicit(&transition_frame, memory_order_acquire);

    return distance && transition(distance) == 0 && RhpTrapThreads == 0;
}

bool ep_dotnet_cooperative_begin(struct ep_dotnet_mode *mode)
{
    const intptr_t distance = atomic_load_explicit(&transition_frame, memory_order_acquire);

    if (!distance || transition(distance) == 0)
        return false;
    *mode = (struct ep_dotnet_mode){{0}};
    RhpReversePInvoke(mode->frame);
    if (transition(distance) == 0)
        return true;
    RhpReversePInvokeReturn(mode->frame); /* a thread that must not wait for the collector */
    return false;
}

void ep_dotnet_cooperative_end(struct ep_dotnet_mode *mode)
{
    RhpReversePInvokeReturn(mode->frame);
}

/* ---- measuring ---- */

static int is_first_module(struct dl_phdr_info *info, size_t size, void *argument)
{
    const uintptr_t address = (uintptr_t)argument;

    (void)size;
    for (unsigned i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD &&
            address - info->dlpi_addr - info->dlpi_phdr[i].p_vaddr < info->dlpi_phdr[i].p_memsz)
            return 1;
    return -1;
}

/* A thread in preemptive mode has the address of its transition frame in the one field that is 0 in cooperative mode.
 */
int ep_dotnet_mode_measure(void)
{
    struct ep_dotnet_mode mode = {{0}};
    uintptr_t before[THREAD_WORDS] = {0};
    unsigned words = 0, found = 0, place = 0;

    if (!RhpReversePInvoke || !RhpReversePInvokeReturn || !&RhpTrapThreads || !ep_dotnet_thread_pointer() ||
        dl_iterate_phdr(is_first_module, (void *)(uintptr_t)RhpReversePInvoke) != 1)
        return -1;
    RhpReversePInvoke(mode.frame);
    const uintptr_t thread = mode.frame[1];
    while (words < THREAD_WORDS && ep_dotnet_is_readable(thread + words * sizeof thread)) {
        before[words] = ((const volatile uintptr_t *)thread)[words];
        words++;
    }
    RhpReversePInvokeReturn(mode.frame);
    for (unsigned i = 0; i < words; i++)
        if (before[i] == 0 && mode.frame[0] && ((const volatile uintptr_t *)thread)[i] == mode.frame[0]) {
            found++;
            place = i;
        }
    if (found != 1)
        return -1;
    atomic_store(&transition_frame, (intptr_t)(thread + place * sizeof thread - ep_dotnet_thread_pointer()));
    return 0;
}
