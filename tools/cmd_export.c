/* edgeprof export: a stored profile as pprof or folded stacks. */
#include "commands.h"
#include "options.h"
#include "report.h"

#include <string.h>

static const char help[] =
    "usage: edgeprof export (--pprof FILE | --folded) [options]\n"
    "\n"
    "  --pprof FILE        gzipped pprof with names, for `go tool pprof` and others; - is standard output\n"
    "  --folded            one stack a line on standard output, \"root;caller;leaf value\"\n" ET_QUERY_HELP "\n"
    "exit codes: 0 done, 1 failed, 2 wrong usage, 3 no profile matches\n";

int et_cmd_export(int argc, char **argv)
{
    struct et_options options;
    struct et_profile *profile = NULL;
    int code = et_options_parse(argc, argv, ET_TAKES_QUERY "pc", help, &options);
    if (code >= 0) {
        return code;
    }
    code = et_no_more_arguments(argc, argv, &options);
    if (!code && !options.pprof == !options.folded) {
        et_error("export: say either --pprof FILE or --folded");
        code = ET_USAGE;
    }
    options.wanted.query.keep_labels = options.pprof != NULL;
    code = code ? code : et_options_load(&options, &profile);
    if (!code && options.pprof) {
        code = et_report_pprof(profile, options.pprof);
    } else if (!code) {
        struct et_buf out = {0};
        et_report_folded(profile, &out);
        code = et_report_print(&out);
    }
    et_profile_free(profile);
    et_options_free(&options);
    return code;
}
