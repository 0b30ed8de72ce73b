/*
 * Waits of managed code: wraps the blocking calls of .NET's native library (-Wl,--wrap, EdgeProf.targets) in
 * ep_wait_begin() and ep_wait_end(). They run in preemptive mode, so the collector does not wait for them. Calls that
 * do not block or that keep the collector waiting (SuppressGCTransition) are not wrapped.
 *
 * Most waits of managed code end in a monitor. The innermost known managed caller (the places below, by symbol) decides
 * whether that is a lock, a sleep or an idle worker. Sockets that .NET has made non-blocking, as for asynchronous use,
 * never wait, so calls on them are not marked; they are known by descriptor until closed. All symbols of the runtime
 * are weak. errno is kept.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "runtime.h"

#define BY_CALLER ((enum ep_wait)EP_WAIT_BY_CALLER)

/* Descriptors from here on are assumed to block. */
#define DESCRIPTORS 4096u

/* A bit for each descriptor. */
static atomic_uint non_blocking[DESCRIPTORS / 32], watches[DESCRIPTORS / 32];

static inline bool is_in(atomic_uint *set, intptr_t descriptor)
{
    uintptr_t bit = (uintptr_t)descriptor;

    return bit < DESCRIPTORS && atomic_load_explicit(&set[bit / 32], memory_order_relaxed) >> bit % 32 & 1u;
}

static void change(atomic_uint *set, intptr_t descriptor, bool in)
{
    uintptr_t bit = (uintptr_t)descriptor;

    if (bit >= DESCRIPTORS || is_in(set, descriptor) == in)
        return;
    if (in)
        (void)atomic_fetch_or_explicit(&set[bit / 32], 1u << bit % 32, memory_order_relaxed);
    else
        (void)atomic_fetch_and_explicit(&set[bit / 32], ~(1u << bit % 32), memory_order_relaxed);
}

static inline bool blocks(intptr_t descriptor)
{
    return !is_in(non_blocking, descriptor);
}

/* clang-format off */
#define PLACE(name, symbol) extern const char name[] __asm__(symbol) __attribute__((weak, visibility("hidden")))
PLACE(low_level_lock, "S_P_CoreLib_System_Threading_LowLevelLock__WaitAndAcquire");
PLACE(enter, "S_P_CoreLib_System_Threading_Lock__TryEnterSlow");
PLACE(enter_0, "S_P_CoreLib_System_Threading_Lock__TryEnterSlow_0");
PLACE(enter_8, "S_P_CoreLib_System_Threading_Lock__TryAcquireSlow"); /* .NET 8 */
PLACE(pool, "S_P_CoreLib_System_Threading_LowLevelLifoSemaphore__WaitForSignal");
PLACE(pool_wait, "S_P_CoreLib_System_Threading_LowLevelLifoSemaphore__Wait");
PLACE(timers, "S_P_CoreLib_System_Threading_TimerQueue__TimerThread");
PLACE(gate, "S_P_CoreLib_System_Threading_PortableThreadPool_GateThread__GateThreadStart");
PLACE(wait_thread, "S_P_CoreLib_System_Threading_PortableThreadPool_WaitThread__WaitThreadStart");
PLACE(sleep_0, "S_P_CoreLib_System_Threading_WaitSubsystem_ThreadWaitInfo__Sleep");
PLACE(sleep_1, "S_P_CoreLib_System_Threading_Thread__Sleep");
PLACE(kestrel, "Microsoft_AspNetCore_Server_Kestrel_Core_Microsoft_AspNetCore_Server_Kestrel_Core_Internal_Infrastructure_Heartbeat__TimerLoop");
PLACE(logger, "Microsoft_Extensions_Logging_Console_Microsoft_Extensions_Logging_Console_ConsoleLoggerProcessor__TryDequeue");
PLACE(logger_loop, "Microsoft_Extensions_Logging_Console_Microsoft_Extensions_Logging_Console_ConsoleLoggerProcessor__ProcessLogQueue");
PLACE(task, "S_P_CoreLib_System_Threading_Tasks_Task__InternalWait");
PLACE(task_core, "S_P_CoreLib_System_Threading_Tasks_Task__InternalWaitCore");
PLACE(task_wait, "S_P_CoreLib_System_Threading_Tasks_Task__Wait");
PLACE(task_wait_0, "S_P_CoreLib_System_Threading_Tasks_Task__Wait_0");
PLACE(task_wait_1, "S_P_CoreLib_System_Threading_Tasks_Task__Wait_1");
PLACE(task_wait_2, "S_P_CoreLib_System_Threading_Tasks_Task__Wait_2");
PLACE(task_wait_3, "S_P_CoreLib_System_Threading_Tasks_Task__Wait_3");
PLACE(task_wait_4, "S_P_CoreLib_System_Threading_Tasks_Task__Wait_4");
PLACE(awaiter, "S_P_CoreLib_System_Runtime_CompilerServices_TaskAwaiter__HandleNonSuccessAndDebuggerNotification");
PLACE(awaiter_result, "S_P_CoreLib_System_Runtime_CompilerServices_TaskAwaiter__GetResult");
PLACE(host_run, "Microsoft_Extensions_Hosting_Abstractions_Microsoft_Extensions_Hosting_HostingAbstractionsHostExtensions__Run");
PLACE(host_end, "Microsoft_Extensions_Hosting_Abstractions_Microsoft_Extensions_Hosting_HostingAbstractionsHostExtensions__WaitForShutdown");
PLACE(web_run, "Microsoft_AspNetCore_Microsoft_AspNetCore_Builder_WebApplication__Run");
PLACE(entry, "__managed__Main");

#define WRAPPED(result, name, arguments) \
    result __real_##name arguments __attribute__((weak)); \
    result __wrap_##name arguments; \
    result __wrap_##name arguments

#define WAITING_VOID(name, wait, arguments, passed) \
    WRAPPED(void, name, arguments) \
    { \
        ep_wait_begin(wait); \
        __real_##name passed; \
        ep_wait_end(); \
    }

#define WAITING(type, name, wait, arguments, passed) \
    WRAPPED(type, name, arguments) \
    { \
        ep_wait_begin(wait); \
        type result = __real_##name passed; \
        ep_wait_end(); \
        return result; \
    }

/* The first argument is a socket. */
#define WAITING_ON(name, arguments, passed) \
    WRAPPED(int32_t, name, arguments) \
    { \
        if (!blocks(socket)) \
            return __real_##name passed; \
        ep_wait_begin(EP_WAIT_NETWORK); \
        int32_t result = __real_##name passed; \
        ep_wait_end(); \
        return result; \
    }
/* clang-format on */

WRAPPED(int32_t, SystemNative_FcntlSetIsNonBlocking, (intptr_t descriptor, int32_t so))
{
    int32_t error = __real_SystemNative_FcntlSetIsNonBlocking(descriptor, so);

    if (error == 0)
        change(non_blocking, descriptor, so);
    return error;
}

/* Before the close: afterwards another file may have the descriptor. */
WRAPPED(int32_t, SystemNative_Close, (intptr_t descriptor))
{
    change(non_blocking, descriptor, false);
    change(watches, descriptor, false);
    return __real_SystemNative_Close(descriptor);
}

/* A FileSystemWatcher: its thread reads until a file changes. Each host has one, for its settings. */
WRAPPED(intptr_t, SystemNative_INotifyInit, (void))
{
    intptr_t descriptor = __real_SystemNative_INotifyInit();

    if (descriptor >= 0)
        change(watches, descriptor, true);
    return descriptor;
}

#define CLASS(place, class)                                                                                            \
    {                                                                                                                  \
        .function = (uintptr_t)(place), .wait = (class)                                                                \
    }
#define TASK(place)                                                                                                    \
    {                                                                                                                  \
        .function = (uintptr_t)(place), .role = EP_PLACE_TASK                                                          \
    }
#define ENTRY(place)                                                                                                   \
    {                                                                                                                  \
        .function = (uintptr_t)(place), .wait = EP_WAIT_IDLE, .role = EP_PLACE_ENTRY                                   \
    }

__attribute__((constructor)) static void places_register(void)
{
    static struct ep_wait_place places[28];
    /* clang-format off */
    const struct ep_wait_place known[] = {
        CLASS(low_level_lock, EP_WAIT_OTHER), CLASS(enter, EP_WAIT_LOCK), CLASS(enter_0, EP_WAIT_LOCK),
        CLASS(enter_8, EP_WAIT_LOCK), CLASS(pool, EP_WAIT_IDLE), CLASS(pool_wait, EP_WAIT_IDLE),
        CLASS(timers, EP_WAIT_IDLE), CLASS(gate, EP_WAIT_IDLE), CLASS(wait_thread, EP_WAIT_IDLE),
        CLASS(sleep_0, EP_WAIT_SLEEP), CLASS(sleep_1, EP_WAIT_SLEEP),
        CLASS(kestrel, EP_WAIT_IDLE), CLASS(logger, EP_WAIT_IDLE), CLASS(logger_loop, EP_WAIT_IDLE),
        TASK(task), TASK(task_core), TASK(task_wait), TASK(task_wait_0), TASK(task_wait_1), TASK(task_wait_2),
        TASK(task_wait_3), TASK(task_wait_4), TASK(awaiter), TASK(awaiter_result),
        ENTRY(host_run), ENTRY(host_end), ENTRY(web_run), ENTRY(entry),
    };
    /* clang-format on */

    _Static_assert(sizeof known <= sizeof places, "room for the places");
    for (unsigned i = 0; i < sizeof known / sizeof known[0]; i++)
        places[i] = known[i];
    ep_wait_places(places, sizeof known / sizeof known[0]);
}

/* clang-format off */
WAITING_VOID(SystemNative_LowLevelMonitor_Wait, BY_CALLER, (void *monitor), (monitor))
WAITING(int32_t, SystemNative_LowLevelMonitor_TimedWait, BY_CALLER, (void *monitor, int32_t timeout), (monitor, timeout))
WAITING_VOID(SystemNative_LowLevelFutex_WaitOnAddress, BY_CALLER, (void *address, int32_t comparand), (address, comparand))
WAITING(int32_t, SystemNative_LowLevelFutex_WaitOnAddressTimeout, BY_CALLER, (void *address, int32_t comparand, uint32_t timeout), (address, comparand, timeout))
WAITING_ON(SystemNative_Receive, (intptr_t socket, void *buffer, int32_t size, int32_t flags, int32_t *received), (socket, buffer, size, flags, received))
WAITING_ON(SystemNative_Send, (intptr_t socket, const void *buffer, int32_t size, int32_t flags, int32_t *sent), (socket, buffer, size, flags, sent))
WAITING_ON(SystemNative_ReceiveMessage, (intptr_t socket, void *message, int32_t flags, int64_t *received), (socket, message, flags, received))
WAITING_ON(SystemNative_SendMessage, (intptr_t socket, void *message, int32_t flags, int64_t *sent), (socket, message, flags, sent))
WAITING_ON(SystemNative_Accept, (intptr_t socket, uint8_t *address, int32_t *size, intptr_t *accepted), (socket, address, size, accepted))
WAITING_ON(SystemNative_Connect, (intptr_t socket, uint8_t *address, int32_t size), (socket, address, size))
WAITING(int32_t, SystemNative_Poll, EP_WAIT_NETWORK, (void *events, uint32_t count, int32_t milliseconds, uint32_t *triggered), (events, count, milliseconds, triggered))
WAITING(int32_t, SystemNative_WaitForSocketEvents, EP_WAIT_IDLE, (intptr_t port, void *events, int32_t *count), (port, events, count))
WAITING(int32_t, SystemNative_GetHostEntryForName, EP_WAIT_NETWORK, (const uint8_t *name, int32_t family, void *entry), (name, family, entry))
WAITING(int32_t, SystemNative_Read, is_in(watches, file) ? EP_WAIT_IDLE : EP_WAIT_OTHER, (intptr_t file, void *buffer, int32_t size), (file, buffer, size))
WAITING(int32_t, SystemNative_Write, EP_WAIT_OTHER, (intptr_t file, const void *buffer, int32_t size), (file, buffer, size))
WAITING(int32_t, SystemNative_PRead, EP_WAIT_DISK, (intptr_t file, void *buffer, int32_t size, int64_t offset), (file, buffer, size, offset))
WAITING(int32_t, SystemNative_PWrite, EP_WAIT_DISK, (intptr_t file, const void *buffer, int32_t size, int64_t offset), (file, buffer, size, offset))
WAITING(int64_t, SystemNative_PReadV, EP_WAIT_DISK, (intptr_t file, void *vectors, int32_t count, int64_t offset), (file, vectors, count, offset))
WAITING(int64_t, SystemNative_PWriteV, EP_WAIT_DISK, (intptr_t file, void *vectors, int32_t count, int64_t offset), (file, vectors, count, offset))
WAITING(int32_t, SystemNative_FSync, EP_WAIT_DISK, (intptr_t file), (file))
WAITING(int32_t, SystemNative_CopyFile, EP_WAIT_DISK, (intptr_t from, intptr_t to, int64_t size), (from, to, size))
WAITING(int32_t, SystemNative_FLock, EP_WAIT_DISK, (intptr_t file, int32_t operation), (file, operation))
WAITING(int32_t, SystemNative_ReadStdin, EP_WAIT_OTHER, (void *buffer, int32_t size), (buffer, size))
/* clang-format on */

/* At least the monitor's or the futex's calls are in each program: the profiler's own assembly locks. */
void ep_dotnet_wait_check(void)
{
    if (!__real_SystemNative_LowLevelMonitor_Wait && !__real_SystemNative_LowLevelFutex_WaitOnAddress) {
        static const char why[] =
            "the runtime waits by neither SystemNative_LowLevelMonitor_Wait nor ..._LowLevelFutex_WaitOnAddress";
        ep_dotnet_refuse(EP_KIND_WAIT, why);
        ep_dotnet_refuse(EP_KIND_LOCK, why);
    } else if (!(uintptr_t)enter && !(uintptr_t)enter_0 && !(uintptr_t)enter_8) {
        ep_dotnet_refuse(EP_KIND_LOCK, "the runtime has no Lock.TryEnterSlow that is known");
    }
}
