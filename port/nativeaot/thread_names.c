/*
 * Gives the kernel the names of managed threads (Thread.Name) when they begin, so that profiles, top and debuggers show
 * them. .NET does this itself since version 10; before, all threads have the program's name.
 *
 *   Thread.Start() -> SystemNative_CreateThread, wrapped -> named_entry, on the new thread -> C#'s reader,
 * runtime_entry
 *
 * The runtime's entry gets a handle of the Thread object, which the reader (RuntimeHooks.cs) uses. Only that entry,
 * known by its symbol, is wrapped; without it threads start as usual. Later renames and the main thread are not
 * covered.
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

/* A function of its own, so that named_entry() ends in a tail call and is on no stack. */
static __attribute__((noinline)) void set_name(void *thread)
{
    char name[16] = "";

    if (atomic_load(&reader)(thread, name, sizeof name - 1) > 0)
        (void)prctl(PR_SET_NAME, name);
}

static void *named_entry(void *thread)
{
    set_name(thread);
    return runtime_entry(thread);
}

int32_t __wrap_SystemNative_CreateThread(uintptr_t stack, void *(*start)(void *), void *argument)
{
    const bool managed = runtime_entry && start == runtime_entry && atomic_load(&reader);

    return __real_SystemNative_CreateThread(stack, managed ? named_entry : start, argument);
}

void ep_dotnet_names_attach(ep_dotnet_name_reader *read)
{
    atomic_store(&reader, read);
}
