/*
 * The end of a process by a signal. Managed code of the runtime calls this function for a signal whose handlers have
 * all returned without cancelling it (-Wl,--wrap, EdgeProf.targets). It then takes the signal's default action.
 */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "glue.h"

void __real_SystemNative_HandleNonCanceledPosixSignal(int32_t number) __attribute__((weak));
void __wrap_SystemNative_HandleNonCanceledPosixSignal(int32_t number);

static void (*_Atomic at_end)(void);

int ep_dotnet_signal_end_attach(void (*end)(void))
{
    if (!__real_SystemNative_HandleNonCanceledPosixSignal)
        return -ENOSYS;
    atomic_store(&at_end, end);
    return 0;
}

static int ends_process(int32_t number)
{
    return number == SIGTERM || number == SIGINT || number == SIGQUIT || number == SIGHUP;
}

void __wrap_SystemNative_HandleNonCanceledPosixSignal(int32_t number)
{
    void (*end)(void) = atomic_load(&at_end);

    if (end && ends_process(number))
        end();
    __real_SystemNative_HandleNonCanceledPosixSignal(number);
}
