/* edgeprof flame: a flame graph as a file. */
#include "commands.h"
#include "flame.h"
#include "options.h"
#include "report.h"

static const char help[] =
    "usage: edgeprof flame -o FILE [options]\n"
    "\n"
    "Writes a flame graph that needs nothing else: HTML with search, zoom and table, or an SVG picture.\n"
    "\n"
    "  -o, --output FILE   .html or .svg\n" ET_QUERY_HELP "\n"
    "exit codes: 0 done, 1 failed, 2 wrong usage, 3 no profile matches\n";

int et_cmd_flame(int argc, char **argv)
{
    struct et_options options;
    struct et_profile *profile = NULL;
    int code = et_options_parse(argc, argv, ET_TAKES_QUERY "o", help, &options);
    if (code >= 0) {
        return code;
    }
    code = et_no_more_arguments(argc, argv, &options);
    if (!code && !options.output) {
        et_error("flame: say where to with -o FILE.html or -o FILE.svg");
        code = ET_USAGE;
    }
    code = code ? code : et_options_load(&options, &profile);
    code = code ? code : et_flame_write(profile, options.output);
    et_profile_free(profile);
    et_options_free(&options);
    return code;
}
