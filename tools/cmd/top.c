/* edgeprof top: prints the table of functions. */
#include "tools/cmd/commands.h"
#include "tools/formats/json.h"
#include "tools/cmd/options.h"
#include "tools/formats/report.h"

#include <stdio.h>

const struct et_help et_help_top = {
    .usage = "[options]",
    .about = "Prints the most expensive functions: flat is the function alone, cum includes its callees.",
    .end = "exit codes: 0 done, 1 failed, 2 wrong usage, 3 no profile matches",
    .words = "",
};

int et_cmd_top(int argc, char **argv)
{
    struct et_options options;
    struct et_profile *profile = NULL;
    int code = et_options_parse(argc, argv, &options);
    if (code >= 0) {
        return code;
    }
    code = et_no_more_arguments(argc, argv, &options);
    code = code ? code : et_options_load(&options, &profile);
    if (code == ET_OK) {
        struct et_buf out = {0};
        et_profile_name_lines(profile, options.granularity);
        if (options.json) {
            et_report_json(profile, options.rows, &out);
        } else {
            et_report_top(profile, options.rows, &out);
        }
        code = et_print_output(&out);
    }
    et_profile_free(profile);
    et_options_free(&options);
    return code;
}
