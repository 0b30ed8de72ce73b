/* See commands.h: common parts of commands. */
#include "tools/cmd/commands.h"
#include "tools/cmd/options.h"

int et_no_more_arguments(int argc, char **argv, const struct et_options *options)
{
    if (options->first < argc) {
        et_error("%s: unexpected argument %s", argv[0], argv[options->first]);
        return ET_USAGE;
    }
    return ET_OK;
}
