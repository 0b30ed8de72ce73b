/*
 * Crash records of a .NET program. The handlers must be there before the runtime's, which then keeps what it handles
 * itself, such as null references; so a constructor installs them if EDGEPROF_CRASH says so. Only programs with
 * EdgeProfCrash=true contain this file and the records.
 */
#include "glue.h"

#include <edgeprof/edgeprof.h>

__attribute__((constructor)) void ep_dotnet_crash_begin(void)
{
    struct ep_crash_config crash = {0};
    int error = ep_crash_from_env(&crash);

    if (error > 0)
        error = ep_crash_start(&crash);
    ep_dotnet_crash_error = error < 0 ? error : 0;
}
