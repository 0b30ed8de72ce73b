/*
 * Waits of managed code: the calls of .NET's native library that block, as the linker redirects them here
 * (-Wl,--wrap, EdgeProf.targets), bracketed by ep_wait_begin() and ep_wait_end().
 *
 * They are called by P/Invoke in preemptive mode, so the garbage collector does not wait for them. Nearly everything
 * that managed code waits for ends in a monitor; whether that is a lock, a sleep or an idle worker says the innermost
 * managed caller that is known for one of these (the places below, by their symbols). Calls that do not block, and
 * those that keep the collector waiting (SuppressGCTransition), are left alone.
 *
 * Everything of the runtime is weak: what another version does not have is nobody's to call. errno is what the call
 * left.
 */
#include <stdint.h>

#include "core/edgeprof.h"
#include "core/hooks.h"

#define BY_CALLER ((enum ep_wait)EP_WAIT_BY_CALLER)

/* clang-format off */
#define PLACE(name, symbol) extern const char name[] __asm__(symbol) __attribute__((weak, visibility("hidden")))
PLACE(low_level_lock, "S_P_CoreLib_System_Threading_LowLevelLock__WaitAndAcquire");
PLACE(enter, "S_P_CoreLib_System_Threading_Lock__TryEnterSlow");
PLACE(enter_0, "S_P_CoreLib_System_Threading_Lock__TryEnterSlow_0");
PLACE(pool, "S_P_CoreLib_System_Threading_LowLevelLifoSemaphore__WaitForSignal");
PLACE(pool_wait, "S_P_CoreLib_System_Threading_LowLevelLifoSemaphore__Wait");
PLACE(timers, "S_P_CoreLib_System_Threading_TimerQueue__TimerThread");
PLACE(gate, "S_P_CoreLib_System_Threading_PortableThreadPool_GateThread__GateThreadStart");
PLACE(wait_thread, "S_P_CoreLib_System_Threading_PortableThreadPool_WaitThread__WaitThreadStart");
PLACE(sleep_0, "S_P_CoreLib_System_Threading_WaitSubsystem_ThreadWaitInfo__Sleep");
PLACE(sleep_1, "S_P_CoreLib_System_Threading_Thread__Sleep");

#define WRAPPED(result, name, arguments) \
    result __real_##name arguments __attribute__((weak)); \
    result __wrap_##name arguments; \
    result __wrap_##name arguments
/* clang-format on */

__attribute__((constructor)) static void places_tell(void)
{
    static struct ep_wait_place places[10];
    const struct ep_wait_place known[] = {{(uintptr_t)low_level_lock, EP_WAIT_OTHER},
                                          {(uintptr_t)enter, EP_WAIT_LOCK},
                                          {(uintptr_t)enter_0, EP_WAIT_LOCK},
                                          {(uintptr_t)pool, EP_WAIT_IDLE},
                                          {(uintptr_t)pool_wait, EP_WAIT_IDLE},
                                          {(uintptr_t)timers, EP_WAIT_IDLE},
                                          {(uintptr_t)gate, EP_WAIT_IDLE},
                                          {(uintptr_t)wait_thread, EP_WAIT_IDLE},
                                          {(uintptr_t)sleep_0, EP_WAIT_SLEEP},
                                          {(uintptr_t)sleep_1, EP_WAIT_SLEEP}};

    for (unsigned i = 0; i < sizeof known / sizeof known[0]; i++)
        places[i] = known[i];
    ep_wait_places(places, sizeof known / sizeof known[0]);
}

WRAPPED(void, SystemNative_LowLevelMonitor_Wait, (void *monitor))
{
    ep_wait_begin(BY_CALLER);
    __real_SystemNative_LowLevelMonitor_Wait(monitor);
    ep_wait_end();
}

WRAPPED(int32_t, SystemNative_LowLevelMonitor_TimedWait, (void *monitor, int32_t timeout))
{
    ep_wait_begin(BY_CALLER);
    int32_t result = __real_SystemNative_LowLevelMonitor_TimedWait(monitor, timeout);
    ep_wait_end();
    return result;
}

WRAPPED(void, SystemNative_LowLevelFutex_WaitOnAddress, (void *address, int32_t comparand))
{
    ep_wait_begin(BY_CALLER);
    __real_SystemNative_LowLevelFutex_WaitOnAddress(address, comparand);
    ep_wait_end();
}

WRAPPED(int32_t, SystemNative_LowLevelFutex_WaitOnAddressTimeout, (void *address, int32_t comparand, uint32_t timeout))
{
    ep_wait_begin(BY_CALLER);
    int32_t result = __real_SystemNative_LowLevelFutex_WaitOnAddressTimeout(address, comparand, timeout);
    ep_wait_end();
    return result;
}

WRAPPED(int32_t, SystemNative_Receive, (intptr_t socket, void *buffer, int32_t size, int32_t flags, int32_t *received))
{
    ep_wait_begin(EP_WAIT_NETWORK);
    int32_t result = __real_SystemNative_Receive(socket, buffer, size, flags, received);
    ep_wait_end();
    return result;
}

WRAPPED(int32_t, SystemNative_Send, (intptr_t socket, const void *buffer, int32_t size, int32_t flags, int32_t *sent))
{
    ep_wait_begin(EP_WAIT_NETWORK);
    int32_t result = __real_SystemNative_Send(socket, buffer, size, flags, sent);
    ep_wait_end();
    return result;
}

WRAPPED(int32_t, SystemNative_ReceiveMessage, (intptr_t socket, void *message, int32_t flags, int64_t *received))
{
    ep_wait_begin(EP_WAIT_NETWORK);
    int32_t result = __real_SystemNative_ReceiveMessage(socket, message, flags, received);
    ep_wait_end();
    return result;
}

WRAPPED(int32_t, SystemNative_SendMessage, (intptr_t socket, void *message, int32_t flags, int64_t *sent))
{
    ep_wait_begin(EP_WAIT_NETWORK);
    int32_t result = __real_SystemNative_SendMessage(socket, message, flags, sent);
    ep_wait_end();
    return result;
}

WRAPPED(int32_t, SystemNative_Accept, (intptr_t socket, uint8_t *address, int32_t *size, intptr_t *accepted))
{
    ep_wait_begin(EP_WAIT_NETWORK);
    int32_t result = __real_SystemNative_Accept(socket, address, size, accepted);
    ep_wait_end();
    return result;
}

WRAPPED(int32_t, SystemNative_Connect, (intptr_t socket, uint8_t *address, int32_t size))
{
    ep_wait_begin(EP_WAIT_NETWORK);
    int32_t result = __real_SystemNative_Connect(socket, address, size);
    ep_wait_end();
    return result;
}

WRAPPED(int32_t, SystemNative_Poll, (void *events, uint32_t count, int32_t milliseconds, uint32_t *triggered))
{
    ep_wait_begin(EP_WAIT_NETWORK);
    int32_t result = __real_SystemNative_Poll(events, count, milliseconds, triggered);
    ep_wait_end();
    return result;
}

WRAPPED(int32_t, SystemNative_WaitForSocketEvents, (intptr_t port, void *events, int32_t *count))
{
    ep_wait_begin(EP_WAIT_IDLE);
    int32_t result = __real_SystemNative_WaitForSocketEvents(port, events, count);
    ep_wait_end();
    return result;
}

WRAPPED(int32_t, SystemNative_GetHostEntryForName, (const uint8_t *name, int32_t family, void *entry))
{
    ep_wait_begin(EP_WAIT_NETWORK);
    int32_t result = __real_SystemNative_GetHostEntryForName(name, family, entry);
    ep_wait_end();
    return result;
}

WRAPPED(int32_t, SystemNative_Read, (intptr_t file, void *buffer, int32_t size))
{
    ep_wait_begin(EP_WAIT_OTHER);
    int32_t result = __real_SystemNative_Read(file, buffer, size);
    ep_wait_end();
    return result;
}

WRAPPED(int32_t, SystemNative_Write, (intptr_t file, const void *buffer, int32_t size))
{
    ep_wait_begin(EP_WAIT_OTHER);
    int32_t result = __real_SystemNative_Write(file, buffer, size);
    ep_wait_end();
    return result;
}

WRAPPED(int32_t, SystemNative_PRead, (intptr_t file, void *buffer, int32_t size, int64_t offset))
{
    ep_wait_begin(EP_WAIT_DISK);
    int32_t result = __real_SystemNative_PRead(file, buffer, size, offset);
    ep_wait_end();
    return result;
}

WRAPPED(int32_t, SystemNative_PWrite, (intptr_t file, const void *buffer, int32_t size, int64_t offset))
{
    ep_wait_begin(EP_WAIT_DISK);
    int32_t result = __real_SystemNative_PWrite(file, buffer, size, offset);
    ep_wait_end();
    return result;
}

WRAPPED(int64_t, SystemNative_PReadV, (intptr_t file, void *vectors, int32_t count, int64_t offset))
{
    ep_wait_begin(EP_WAIT_DISK);
    int64_t result = __real_SystemNative_PReadV(file, vectors, count, offset);
    ep_wait_end();
    return result;
}

WRAPPED(int64_t, SystemNative_PWriteV, (intptr_t file, void *vectors, int32_t count, int64_t offset))
{
    ep_wait_begin(EP_WAIT_DISK);
    int64_t result = __real_SystemNative_PWriteV(file, vectors, count, offset);
    ep_wait_end();
    return result;
}

WRAPPED(int32_t, SystemNative_FSync, (intptr_t file))
{
    ep_wait_begin(EP_WAIT_DISK);
    int32_t result = __real_SystemNative_FSync(file);
    ep_wait_end();
    return result;
}

WRAPPED(int32_t, SystemNative_CopyFile, (intptr_t from, intptr_t to, int64_t size))
{
    ep_wait_begin(EP_WAIT_DISK);
    int32_t result = __real_SystemNative_CopyFile(from, to, size);
    ep_wait_end();
    return result;
}

WRAPPED(int32_t, SystemNative_FLock, (intptr_t file, int32_t operation))
{
    ep_wait_begin(EP_WAIT_DISK);
    int32_t result = __real_SystemNative_FLock(file, operation);
    ep_wait_end();
    return result;
}

WRAPPED(int32_t, SystemNative_ReadStdin, (void *buffer, int32_t size))
{
    ep_wait_begin(EP_WAIT_OTHER);
    int32_t result = __real_SystemNative_ReadStdin(buffer, size);
    ep_wait_end();
    return result;
}
