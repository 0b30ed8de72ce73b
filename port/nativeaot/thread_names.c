/*
 * Gives the kernel the names of managed threads (Thread.Name) when they begin, so that profiles, top and debuggers show
 * them. .NET does this itself since version 10 (RhSetCurrentThreadName), and is left alone then; before, all threads
 * have the program's name.
 *
 *   Thread.Start() -> SystemNative_CreateThread, wrapped
 *     -> named_entry, on the new thread -> is_thread, C#'s reader; then runtime_entry
 *
 * The runtime's entry gets a handle of the Thread object, which the reader (RuntimeHooks.cs) uses. Only that entry,
 * known by its symbol, is wrapped; without it threads start as usual. An argument that is not such a handle is not
 * used. Later renames and the main thread are not covered.
 */
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <time.h>

#include "glue.h"
#include "runtime.h"

EP_RUNTIME_FUNCTION int32_t __real_SystemNative_CreateThread(uintptr_t stack, void *(*start)(void *), void *argument);
int32_t __wrap_SystemNative_CreateThread(uintptr_t stack, void *(*start)(void *), void *argument);

extern void *runtime_entry(void *thread) __asm__("S_P_CoreLib_System_Threading_Thread__ThreadEntryPoint")
    __attribute__((weak, visibility("hidden")));

/* .NET 10 and later. */
EP_RUNTIME_FUNCTION void RhSetCurrentThreadName(const char *name);

static _Atomic(ep_dotnet_name_reader *) reader;
static uintptr_t thread_type;

#define TRIES 1000u

static bool reads(uintptr_t at, uintptr_t *word)
{
    if (at == 0 || at % sizeof *word || !ep_dotnet_is_readable(at))
        return false;
    *word = *(const volatile uintptr_t *)at;
    return true;
}

/* Returns true if it is a handle of a Thread object. The collector, which this thread does not hold up yet, moves
 * objects while threads are stopped: what was read then does not count. Without the hooks of the collector nothing is
 * read. */
static bool is_thread(uintptr_t handle)
{
    const struct timespec moment = {.tv_nsec = 1000000};

    for (unsigned i = 0; i < TRIES && !ep_dotnet_refuses(EP_KIND_GC); i++) {
        const unsigned stops = atomic_load(&ep_dotnet_stops);
        uintptr_t object, type;
        if (!atomic_load(&ep_dotnet_stopped)) {
            const bool fits = reads(handle, &object) && reads(object, &type) && type == thread_type;
            atomic_thread_fence(memory_order_acquire);
            if (!atomic_load(&ep_dotnet_stopped) && atomic_load(&ep_dotnet_stops) == stops)
                return fits;
        }
        (void)nanosleep(&moment, NULL);
    }
    return false;
}

/* A function of its own, so that named_entry() ends in a tail call and is on no stack. */
static __attribute__((noinline)) void set_name(void *thread)
{
    char name[16] = "";

    if (is_thread((uintptr_t)thread) && atomic_load(&reader)(thread, name, sizeof name - 1) > 0)
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

void ep_dotnet_names_attach(ep_dotnet_name_reader *read, uintptr_t type)
{
    thread_type = type;
    atomic_store(&reader, RhSetCurrentThreadName ? NULL : read);
}
