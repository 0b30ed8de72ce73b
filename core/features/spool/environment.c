/*
 * The spool's environment variables. They have a file of their own, so that a program can read them without linking a
 * spool.
 */
#include "core/sample/profiler.h"

#include <errno.h>

int ep_spool_from_env(struct ep_spool_config *config)
{
    const char *dir = ep_port_env("EDGEPROF_SPOOL"), *digits = ep_port_env("EDGEPROF_SPOOL_BYTES");
    uint64_t number = 0;

    (void)ep_refuse(0, "");
    if (!config->dir && dir && *dir)
        config->dir = dir;
    for (const char *c = digits; c && *c && !config->cap_bytes; c++) {
        if (*c < '0' || *c > '9' || number > UINT32_MAX)
            return ep_complain(-EINVAL, "EDGEPROF_SPOOL_BYTES: must be a number, not ", digits, "");
        number = number * 10 + (uint64_t)(*c - '0');
    }
    if (!config->cap_bytes)
        config->cap_bytes = number;
    return config->dir != NULL;
}
