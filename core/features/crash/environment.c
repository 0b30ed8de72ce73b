/*
 * The environment variables of crash records, in a file of their own for programs that read them and start none.
 */
#include "core/sample/profiler.h"

#include <errno.h>
#include <string.h>

/* 1, 0, or -EINVAL. */
static int switch_read(const char *name)
{
    const char *value = ep_env_text(name);

    if (!value || strcmp(value, "0") == 0)
        return 0;
    return strcmp(value, "1") == 0 ? 1 : ep_complain(-EINVAL, name, ": must be 1 or 0, not ", value);
}

int ep_crash_from_env(struct ep_crash_config *config)
{
    const char *where = ep_env_text("EDGEPROF_CRASH");
    const bool path = where && strchr(where, '/');

    (void)ep_refuse(0, "");
    int on = path ? 1 : switch_read("EDGEPROF_CRASH"), registers = switch_read("EDGEPROF_CRASH_REGISTERS");
    if (on < 0 || registers < 0)
        return -EINVAL;
    config->registers |= registers > 0;
    if (on && !config->dir)
        config->dir = path ? where : ep_env_text("EDGEPROF_SPOOL");
    if (on && !config->dir)
        return ep_refuse(-EINVAL, "EDGEPROF_CRASH: 1 needs EDGEPROF_SPOOL; or give it a directory");
    return config->dir != NULL;
}
