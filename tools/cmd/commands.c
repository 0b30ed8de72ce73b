/* See commands.h: the table of commands, and common parts of commands. */
#include "tools/cmd/commands.h"
#include "tools/cmd/options.h"

#include <string.h>

#define ET_COMMAND_HEADING(text)           {.summary = (text)},
#define ET_COMMAND(id, run, name, summary) {name, summary, ET_BIT_##id, run, &et_help_##id},
const struct et_command et_commands[] = {
#include "tools/cmd/commands.def"
};
const size_t et_command_count = sizeof et_commands / sizeof *et_commands;

const struct et_command *et_command_named(const char *name)
{
    for (size_t i = 0; i < et_command_count; i++) {
        if (et_commands[i].name && strcmp(et_commands[i].name, name) == 0) {
            return &et_commands[i];
        }
    }
    return NULL;
}

int et_no_more_arguments(int argc, char **argv, const struct et_options *options)
{
    if (options->first < argc) {
        et_error("%s: unexpected argument %s; see `edgeprof %s --help`", argv[0], argv[options->first], argv[0]);
        return ET_USAGE;
    }
    return ET_OK;
}
