/* The commands of edgeprof. */
#ifndef ET_COMMANDS_H
#define ET_COMMANDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The texts of a command's --help around its options. A line that begins with a blank is printed as it is, others are
 * wrapped. */
struct et_help {
    const char *usage; /* what follows "edgeprof NAME", one line a form */
    const char *about, *end;
    const char *words;   /* words that may follow the command, for completion; NULL: files */
    bool before_command; /* another command line follows: the options end at the first other argument */
};

struct et_command {
    const char *name; /* NULL: a heading of `edgeprof --help`, summary is its text */
    const char *summary;
    uint32_t bit;                      /* in struct et_option */
    int (*run)(int argc, char **argv); /* receives its own name in argv[0]; returns an exit code */
    const struct et_help *help;
};

extern const struct et_command et_commands[];
extern const size_t et_command_count;

/* NULL: no command has the name. */
const struct et_command *et_command_named(const char *name);

#define ET_COMMAND_HEADING(text)
#define ET_COMMAND(id, run, name, summary) ET_NUMBER_##id,
enum {
#include "tools/cmd/commands.def"
};
#undef ET_COMMAND
#define ET_COMMAND(id, run, name, summary) ET_BIT_##id = 1 << ET_NUMBER_##id,
enum {
#include "tools/cmd/commands.def"
};
#undef ET_COMMAND
#define ET_COMMAND(id, run, name, summary)                                                                             \
    int run(int argc, char **argv);                                                                                    \
    extern const struct et_help et_help_##id;
#include "tools/cmd/commands.def"
#undef ET_COMMAND
#undef ET_COMMAND_HEADING

/* Triggers an incident in the service with that control endpoint; at: NULL: EDGEPROF_CONTROL. Returns an exit code. */
int et_control_incident(const char *at, const char *name);

/* ---- common parts ---- */

struct et_options;

/* Returns ET_USAGE and reports an error when arguments follow the options. */
int et_no_more_arguments(int argc, char **argv, const struct et_options *options);

#endif
