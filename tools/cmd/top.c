/* edgeprof top: prints the table of functions, or the tree of calls, of a database, a server or a file. */
#include "tools/cmd/color.h"
#include "tools/cmd/commands.h"
#include "tools/cmd/profile_file.h"
#include "tools/formats/report.h"
#include "tools/lib/kinds.h"
#include "tools/lib/progress.h"
#include "tools/profile/filter.h"

const struct et_help et_help_top = {
    .usage = "[options] [FILE]",
    .about =
        "Prints the most expensive functions: flat is the function alone, cum includes its callees. Percentages are "
        "of all, also with --focus and --ignore. " ET_FILE_FORMATS,
    .end = "A pattern is a Perl-compatible regular expression that matches anywhere in a function's name or file.\n"
           "\n"
           "exit codes: 0 done, 1 failed, 2 wrong usage, 3 no profile matches",
};

/* False: it is malformed, which was reported. *pattern stays NULL for no text. */
static bool make_pattern(const char *option, const char *text, struct et_pattern **pattern)
{
    struct et_buf why = {0};
    *pattern = text ? et_pattern_new(text, &why) : NULL;
    bool ok = !text || *pattern;
    if (!ok) {
        et_error("top: --%s %s: %s", option, text, why.data);
    }
    et_buf_free(&why);
    return ok;
}

static void write_kept(const struct et_options *options, const struct et_profile *profile, uint64_t kept,
                       struct et_buf *out)
{
    char value[32];
    et_value_text(kept, et_text(&profile->strings, profile->unit), value);
    et_buf_printf(out, "%s%s%s%s%s: %s, %.2f%% of all\n", options->focus ? "focus " : "",
                  options->focus ? options->focus : "", options->focus && options->ignore ? ", " : "",
                  options->ignore ? "ignore " : "", options->ignore ? options->ignore : "", value,
                  100 * (double)kept / (double)profile->total);
}

static int print_profile(const struct et_options *options, const struct et_profile *profile, const uint64_t *kept)
{
    struct et_buf out = {0};
    et_progress("adding up functions");
    if (options->json) {
        et_report_json(profile, options->rows, options->by_total, &out);
        et_progress_end();
        return et_print_json(&out);
    }
    if (kept) {
        write_kept(options, profile, *kept, &out);
    }
    if (options->tree) {
        et_report_tree(profile, options->rows, &out);
    } else {
        et_report_top(profile, options->rows, options->by_total, &out);
    }
    et_progress_end();
    return et_print_shares(&out);
}

static int print_filtered(const struct et_options *options, struct et_profile *profile, const struct et_pattern *focus,
                          const struct et_pattern *ignore)
{
    bool filtered = focus || ignore;
    uint64_t kept = filtered ? et_profile_filter(profile, focus, ignore) : 0;
    if (filtered && !kept) {
        et_error("top: no data: no stack is left of the profile; `edgeprof top` without %s shows names",
                 focus && ignore ? "--focus and --ignore"
                 : focus         ? "--focus"
                                 : "--ignore");
        return ET_NO_DATA;
    }
    et_profile_name_lines(profile, options->granularity);
    return print_profile(options, profile, filtered ? &kept : NULL);
}

static int check_usage(const struct et_options *options)
{
    if (options->tree && (options->json || options->by_total)) {
        et_error("top: --tree cannot be combined with %s", options->json ? "--json" : "--sort total");
        return ET_USAGE;
    }
    return ET_OK;
}

int et_cmd_top(int argc, char **argv)
{
    struct et_options options;
    struct et_profile *profile = NULL;
    struct et_pattern *focus = NULL, *ignore = NULL;
    const char *path;
    int code = et_options_parse(argc, argv, &options);
    if (code >= 0) {
        return code;
    }
    code = et_profile_argument(argc, argv, &options, &path);
    code = code ? code : check_usage(&options);
    if (!code && !(make_pattern("focus", options.focus, &focus) && make_pattern("ignore", options.ignore, &ignore))) {
        code = ET_USAGE;
    }
    code = code ? code : et_profile_load(argv[0], &options, path, &profile);
    code = code ? code : print_filtered(&options, profile, focus, ignore);
    et_pattern_free(focus);
    et_pattern_free(ignore);
    et_profile_free(profile);
    et_options_free(&options);
    return code;
}
