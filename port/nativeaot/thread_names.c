/*
 * What managed code calls its threads (Thread.Name), told to the kernel as each begins: then profiles show it, and top
 * and debuggers. .NET does this itself from version 10 on; before, all threads are called as the program.
 *
 *   Thread.Start() -> SystemNative_CreateThread, wrapped -> begin, on the new thread -> C#'s reader -> the runtime's
 * entry
 *
 * The runtime's entry is told a handle of the Thread object, which the reader (RuntimeHooks.cs) looks into. Nothing but
 * that entry, known by its symbol, is treated so; where there is none, threads start as ever. What is named later, and
 * the main thread, which is the program, keep what the kernel calls them.
 */
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>

#include "glue.h"
#include "runtime.h"

EP_RUNTIME_FUNCTION int32_t __real_SystemNative_CreateThread(uintptr_t stack, void *(*start)(void *), void *argument);
int32_t __wrap_SystemNative_CreateThread(uintptr_t stack, void *(*start)(void *), void *argument);

extern void *runtime_entry(void *thread) __asm__("S_P_CoreLib_System_Threading_Thread__ThreadEntryPoint")
    __attribute__((weak, visibility("hidden")));

static _Atomic(ep_dotnet_name_reader *) reader;

/* On its own, so that begin() ends in a jump and is on no stack. */
static __attribute__((noinline)) void name_here(void *thread)
{
    char name[16] = "";

    if (atomic_load(&reader)(thread, name, sizeof name - 1) > 0)
        (void)prctl(PR_SET_NAME, name);
}

static void *begin(void *thread)
{
    name_here(thread);
    return runtime_entry(thread);
}

int32_t __wrap_SystemNative_CreateThread(uintptr_t stack, void *(*start)(void *), void *argument)
{
    const bool managed = runtime_entry && start == runtime_entry && atomic_load(&reader);

    return __real_SystemNative_CreateThread(stack, managed ? begin : start, argument);
}

void ep_dotnet_names_attach(ep_dotnet_name_reader *read)
{
    atomic_store(&reader, read);
}
