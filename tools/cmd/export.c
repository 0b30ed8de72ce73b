/* edgeprof export: writes a stored profile to files for other tools, all from one query. */
#include "tools/cmd/commands.h"
#include "tools/cmd/profile_file.h"
#include "tools/formats/output.h"

#include <string.h>

const struct et_help et_help_export = {
    .usage = "[--format FORMAT] [-o FILE]... [options] [FILE]",
    .about = "Writes one profile to one or several files. " ET_FILE_FORMATS,
    .end = "exit codes: 0 done, 1 failed, 2 wrong usage, 3 no profile matches",
};

enum { MOST = 32 };

struct export_targets {
    struct {
        const char *path;
        enum et_format format;
    } all[MOST];
    size_t count;
    bool pprof;
};

static void add_target(struct export_targets *targets, const char *path, enum et_format format)
{
    targets->all[targets->count].path = path;
    targets->all[targets->count++].format = format;
    targets->pprof |= format == ET_FORMAT_PPROF;
}

/* Adds the files of -o. False: an error was reported. */
static bool add_outputs(const struct et_options *options, struct export_targets *targets)
{
    enum et_format named = options->format ? et_format_named(options->format) : ET_FORMAT_NONE;
    if (options->format && named == ET_FORMAT_NONE) {
        et_error("export: --format %s: must be " ET_FORMATS, options->format);
        return false;
    }
    if (options->format && options->outputs.count > 1) {
        et_error("export: --format %s applies to all files; omit it to select formats by ending: " ET_ENDINGS,
                 options->format);
        return false;
    }
    for (size_t i = 0; i < options->outputs.count; i++) {
        const char *path = options->outputs.items[i];
        enum et_format format = named ? named : et_format_of_file(path);
        if (format == ET_FORMAT_NONE) {
            et_error("export: -o %s: unknown ending; use " ET_ENDINGS ", or --format", path);
            return false;
        }
        add_target(targets, path, format);
    }
    if (named && options->outputs.count == 0) {
        add_target(targets, "-", named);
    }
    return true;
}

static bool add_all(const struct et_options *options, struct export_targets *targets)
{
    if (options->outputs.count > MOST - 2) {
        et_error("export: more than %d files", MOST - 2);
        return false;
    }
    if (!add_outputs(options, targets)) {
        return false;
    }
    if (options->pprof) {
        add_target(targets, options->pprof, ET_FORMAT_PPROF);
    }
    if (options->folded) {
        add_target(targets, "-", ET_FORMAT_FOLDED);
    }
    size_t printed = 0;
    for (size_t i = 0; i < targets->count; i++) {
        printed += strcmp(targets->all[i].path, "-") == 0;
    }
    if (targets->count == 0 || printed > 1) {
        et_error(printed ? "export: only one output can be standard output"
                         : "export: no output given; use -o FILE, --pprof FILE or --folded");
        return false;
    }
    return true;
}

/* Writes the files in pprof, or all others. pprof has fields for lines; in other formats a line is a name. */
static int write_targets(const struct export_targets *targets, struct et_profile *profile,
                         enum et_granularity granularity, bool pprof)
{
    int code = ET_OK;
    (pprof ? et_profile_aggregate : et_profile_name_lines)(profile, granularity);
    for (size_t i = 0; !code && i < targets->count; i++) {
        if ((targets->all[i].format == ET_FORMAT_PPROF) == pprof) {
            code = et_output_write(profile, targets->all[i].format, targets->all[i].path);
        }
    }
    return code;
}

/* Names of lines come after pprof, which needs the functions'; without numbers of lines comes after the others. */
static int write_all(const struct export_targets *targets, struct et_profile *profile, enum et_granularity granularity)
{
    bool pprof_first = granularity == ET_GRANULARITY_LINE;
    int code = write_targets(targets, profile, granularity, pprof_first);
    return code ? code : write_targets(targets, profile, granularity, !pprof_first);
}

int et_export(const char *command, struct et_options *options, const char *path)
{
    struct export_targets targets = {0};
    struct et_profile *profile = NULL;
    int code = add_all(options, &targets) ? ET_OK : ET_USAGE;
    options->wanted.query.keep_labels = targets.pprof;
    code = code ? code : et_profile_load(command, options, path, &profile);
    code = code ? code : write_all(&targets, profile, options->granularity);
    et_profile_free(profile);
    return code;
}

int et_cmd_export(int argc, char **argv)
{
    struct et_options options;
    const char *path;
    int code = et_options_parse(argc, argv, &options);
    if (code >= 0) {
        return code;
    }
    code = et_profile_argument(argc, argv, &options, &path);
    code = code ? code : et_export(argv[0], &options, path);
    et_options_free(&options);
    return code;
}
