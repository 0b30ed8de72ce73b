/*
 * The environment variables of pprof, in a file of their own for programs that read them and never start it.
 */
#include "core/environment/environment.h"
#include "core/sample/feature.h"

#include <errno.h>

/* 1: pprof is wanted, 0: it is not, or -EINVAL. What code has started wins; a Pyroscope server accepts nothing else. */
static int format_read(bool pyroscope)
{
    int format;
    const int error =
        ep_environment_word("EDGEPROF_FORMAT", "compact\0pprof\0", ": must be compact or pprof, not ", &format);

    if (error < 0)
        return error;
    return EP_HAS_FEATURE(convert) || format == 2 || (format == 0 && pyroscope);
}

int ep_pprof_from_env(struct ep_config *config)
{
    bool set, named;

    (void)ep_refuse(0, "");
    /* ep_config_from_env() has taken the text itself. */
    const bool pyroscope = config->endpoint && config->endpoint == ep_env_text("PYROSCOPE_SERVER_ADDRESS");
    const int wanted = format_read(pyroscope);
    if (wanted < 0 || (!config->endpoint && !config->transport))
        return wanted;
    if (ep_environment_switch("EDGEPROF_NAMES", &set, &named) < 0)
        return -EINVAL;
    if (!wanted)
        return 0;
    if (!config->push)
        config->push = &ep_push_pyroscope;
    if (!config->names && (set ? named : pyroscope)) /* a stock Pyroscope server cannot symbolize */
        config->names = &ep_names_process;
    return wanted;
}
