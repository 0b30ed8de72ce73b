/*
 * The check of the runtime at the first start. The hooks rely on functions and structures inside the runtime, and the
 * next version may have others. Whatever is not as expected switches off the kinds of profile that need it, with a line
 * for each, before a profiler runs and a hook uses it.
 *
 *   ep_dotnet_start -> ep_dotnet_self_check -> ep_dotnet_alloc_check, ..._exception_check, ..._gc_check, ..._wait_check
 *
 * What only shows later (the first exception, the first record of the heap) is looked at then, and has no line:
 * ep_dotnet_missing() tells all.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "glue.h"
#include "runtime.h"

static void (*allocate)(void);

/* The kernel reads a signal mask before it looks at `how`, which is invalid. */
bool ep_dotnet_is_readable(uintptr_t at)
{
    const int kept = errno;
    const bool readable = syscall(SYS_rt_sigprocmask, ~0, at, NULL, (size_t)8) == 0 || errno != EFAULT;

    errno = kept;
    return readable;
}

void ep_dotnet_probe_attach(void (*probe)(void))
{
    allocate = probe;
}

const char *ep_dotnet_missing(uint32_t kind)
{
    const char *why = kind < EP_KINDS ? atomic_load(&ep_kind_missing[kind]) : NULL;

    return why ? why : "";
}

uint32_t ep_dotnet_self_check(void (*say)(const char *line))
{
    static bool checked;
    uint32_t missing = 0;

    if (!checked) {
        ep_dotnet_gc_check();
        ep_dotnet_exception_check();
        ep_dotnet_wait_check();
        if (allocate)
            ep_dotnet_alloc_check(allocate);
    }
    for (uint32_t kind = 1; kind < EP_KINDS; kind++) {
        char line[256];
        const char *why = ep_dotnet_missing(kind);
        if (!*why)
            continue;
        missing |= EP_KIND_BIT(kind);
        (void)snprintf(line, sizeof line, "%s is off: %s", ep_kind_name(kind), why);
        if (!checked)
            say(line);
    }
    checked = true;
    return missing;
}
