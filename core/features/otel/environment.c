/*
 * The environment variable of OpenTelemetry's contexts, in a file of its own for programs that read it and publish
 * none.
 */
#include "core/sample/profiler.h"

#include <errno.h>
#include <string.h>

int ep_otel_from_env(void)
{
    static const struct {
        const char *name;
        int bits;
    } words[] = {{"0", 0}, {"1", EP_OTEL_PUBLISH | EP_OTEL_READ}, {"publish", EP_OTEL_PUBLISH}, {"read", EP_OTEL_READ}};
    const char *list = ep_env_text("EDGEPROF_OTEL_CONTEXT");
    int bits = 0;

    (void)ep_refuse(0, "");
    for (const char *at = list; at && *at;) {
        const size_t size = strcspn(at, ",");
        unsigned i = 0;
        while (i < sizeof words / sizeof *words &&
               (strlen(words[i].name) != size || memcmp(words[i].name, at, size) != 0))
            i++;
        if (i == sizeof words / sizeof *words)
            return ep_complain(-EINVAL, "EDGEPROF_OTEL_CONTEXT: must be publish, read, 1 or 0, not ", at, "");
        bits |= words[i].bits;
        at += size + (at[size] == ',');
    }
    return bits;
}
