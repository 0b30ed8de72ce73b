/* What .NET's runtime has noted about the end of the process. */
#include "linux.h"

#include <string.h>

#define INFO_BYTES   8192u
#define GLOBALS_MOST 16u

/* .NET's runtime (NativeAOT, from .NET 8 on) exports the places of its global data for debuggers. */
struct runtime_global {
    const char *name;
    const char *address;
};
extern const struct {
    char cookie[4];
    uint16_t major, minor;
    uint32_t flags, reserved;
    const void *types;
    const struct runtime_global *volatile globals; /* set when the runtime starts */
} DotNetRuntimeDebugHeader __attribute__((weak, visibility("default")));

/* JSON about the exception or the reason that ends the program; NULL: there is no such runtime. */
static const char *runtime_text(void)
{
    static const char name[] = "g_CrashInfoBuffer";

    if (!&DotNetRuntimeDebugHeader || memcmp(DotNetRuntimeDebugHeader.cookie, "DNDH", 4) != 0 ||
        !DotNetRuntimeDebugHeader.globals)
        return NULL;
    const struct runtime_global *at = DotNetRuntimeDebugHeader.globals;
    for (unsigned i = 0; i < GLOBALS_MOST && at[i].name; i++)
        if (strncmp(at[i].name, name, sizeof name) == 0)
            return at[i].address;
    return NULL;
}

/* It is complete only if it ends in a brace. */
const char *ep_port_crash_text(size_t *size)
{
    const char *text = runtime_text(), *end = text ? memchr(text, 0, INFO_BYTES) : NULL;

    *size = end ? (size_t)(end - text) : 0;
    return *size && text[*size - 1] == '}' ? text : NULL;
}
