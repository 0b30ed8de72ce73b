/* edgeprof flame: writes a flame graph to a file. */
#include "tools/cmd/commands.h"
#include "tools/cmd/profile_file.h"
#include "tools/formats/output.h"

const struct et_help et_help_flame = {
    .usage = "-o FILE [options] [FILE]",
    .about = "Writes a self-contained flame graph: HTML with search, zoom and table, or SVG. " ET_FILE_FORMATS,
    .end = "exit codes: 0 done, 1 failed, 2 wrong usage, 3 no profile matches",
};

static int check_usage(const struct et_options *options)
{
    if (options->outputs.count == 0) {
        et_error("flame: no output given; use -o FILE.html or -o FILE.svg");
        return ET_USAGE;
    }
    for (size_t i = 0; i < options->outputs.count; i++) {
        if (et_flame_format(options->outputs.items[i]) == ET_FORMAT_NONE) {
            return ET_USAGE;
        }
    }
    return ET_OK;
}

int et_cmd_flame(int argc, char **argv)
{
    struct et_options options;
    struct et_profile *profile = NULL;
    const char *path;
    int code = et_options_parse(argc, argv, &options);
    if (code >= 0) {
        return code;
    }
    code = et_profile_argument(argc, argv, &options, &path);
    code = code ? code : check_usage(&options);
    code = code ? code : et_profile_load(argv[0], &options, path, &profile);
    if (!code) {
        et_profile_name_lines(profile, options.granularity);
    }
    for (size_t i = 0; !code && i < options.outputs.count; i++) {
        code = et_output_write(profile, et_format_of_file(options.outputs.items[i]), options.outputs.items[i]);
    }
    et_profile_free(profile);
    et_options_free(&options);
    return code;
}
