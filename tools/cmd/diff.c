/*
 * edgeprof diff: the changes between two profiles, and whether they are a regression. et_cmd_diff() loads both sides
 * from files or a database, compares them, prints text or JSON, and reports the judgement.
 */
#include "tools/cmd/commands.h"
#include "tools/cmd/diff_print.h"
#include "tools/lib/kinds.h"
#include "tools/cmd/profile_file.h"
#include "tools/lib/progress.h"
#include "tools/profile/regression.h"
#include "tools/store/query_builder.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct et_help et_help_diff = {
    .usage = "[--baseline SELECTOR] [--baseline-from T] [--baseline-to T] [options]\n"
             "[options] BASELINE-FILE [FILE]",
    .about = "Compares a profile with a baseline: each function's share of the total, before and after. With "
             "one FILE, the other side comes from --db or --url and the options. " ET_FILE_FORMATS,
    .end = "Without --function and --per-function, --threshold checks the total per second of process run time.\n"
           "\n"
           "exit codes: 0 done, no regression; 1 failed; 2 wrong usage; 3 no profile matches; 4 a regression; 5 no "
           "baseline; 6 too few samples to decide; the message says how many are needed",
};

/* ---- the two sides ---- */

/* Selectors and times apply only to stored profiles; a file is used entirely. */
static int load_file(const struct et_options *options, const char *path, struct et_diff_input *side)
{
    const struct et_query *wanted = &options->wanted.query;
    const struct et_query query = {
        .kind = wanted->kind, .measure = wanted->measure, .group = wanted->group, .to_ns = INT64_MAX};
    et_buf_text(&side->words, path);
    return et_profile_file_read(path, &query, &side->profile);
}

static int load_stored(const struct et_options *options, const struct et_query *query, struct et_diff_input *side)
{
    int code = et_options_fetch(options, query, &side->profile);
    et_selector_print(query->service ? query->service : "", query->matchers, query->matcher_count, &side->words);
    for (size_t i = 0; i < query->matcher_count; i++) {
        if (query->matchers[i].process) { /* a selector has no form for them */
            et_buf_text(&side->words, " --tag ");
            et_matcher_print(&query->matchers[i], &side->words);
        }
    }
    if (code == ET_OK && side->profile->total == 0) {
        et_profile_free(side->profile);
        side->profile = NULL;
        return ET_NO_DATA;
    }
    return code;
}

/* Whether one of the first `count` matchers is of the word's key: "version=2.2", "device=~pi-.". */
static bool has_key(const struct et_selector *selector, size_t count, const char *word)
{
    size_t size = strcspn(word, "=!");
    for (size_t i = 0; i < count; i++) {
        if (strncmp(selector->matchers[i].name, word, size) == 0 && !selector->matchers[i].name[size]) {
            return true;
        }
    }
    return false;
}

/* --tag and --label apply to both sides, but for keys that the baseline has itself. */
static bool add_matchers(const struct et_options *options, struct et_query_builder *wanted)
{
    const struct et_selector *selector = &wanted->selector;
    size_t own = selector->count;
    bool ok = true;
    for (size_t i = 0; i < options->tags.count; i++) {
        ok &= has_key(selector, own, options->tags.items[i]) || et_query_builder_tag(wanted, options->tags.items[i]);
    }
    for (size_t i = 0; i < options->labels.count; i++) {
        ok &= has_key(selector, own, options->labels.items[i]) ||
              et_query_builder_label(wanted, options->labels.items[i]);
    }
    return ok;
}

/* Makes the baseline's query from --baseline and its times; other options apply to both sides. wanted: owns the query's
 * strings. */
static bool baseline_query(const struct et_options *options, struct et_query_builder *wanted, struct et_query *query)
{
    *query = options->wanted.query;
    if (options->baseline) {
        if (!et_query_builder_name(wanted, options->baseline) || !add_matchers(options, wanted)) {
            et_error("diff: --baseline %s: %s", options->baseline, wanted->why);
            return false;
        }
        const char *service = wanted->query.service;
        query->service = service && *service ? service : query->service;
        query->matchers = wanted->query.matchers;
        query->matcher_count = wanted->query.matcher_count;
    }
    if (options->baseline_from_ns || options->baseline_to_ns != INT64_MAX) {
        query->from_ns = options->baseline_from_ns;
        query->to_ns = options->baseline_to_ns;
    }
    return true;
}

static int load_baseline(const struct et_options *options, const char *file, struct et_diff_input *side)
{
    struct et_query_builder wanted = {0};
    struct et_query query;
    int code = ET_USAGE;
    if (file) {
        code = load_file(options, file, side);
    } else if (baseline_query(options, &wanted, &query)) {
        code = load_stored(options, &query, side);
        if (code == ET_NO_DATA) {
            et_error("diff: no baseline: no profile matches %s", side->words.size ? side->words.data : "its times");
        }
    }
    et_query_builder_free(&wanted);
    return code == ET_NO_DATA ? ET_NO_BASELINE : code;
}

static int load_sides(struct et_diff_command *c, int count, char **files)
{
    const struct et_options *options = c->options;
    int code = load_baseline(options, count ? files[0] : NULL, &c->sides[ET_LEFT]);
    if (code) {
        return code;
    }
    code = count == 2 ? load_file(options, files[1], &c->sides[ET_RIGHT])
                      : load_stored(options, &options->wanted.query, &c->sides[ET_RIGHT]);
    if (code == ET_NO_DATA && count < 2) {
        et_error("diff: no data: the baseline exists, but no profile matches %s",
                 c->sides[ET_RIGHT].words.size ? c->sides[ET_RIGHT].words.data : "the options");
    }
    return code;
}

/* ---- comparing ---- */

static int compare(struct et_diff_command *c)
{
    const struct et_profile *left = c->sides[ET_LEFT].profile, *right = c->sides[ET_RIGHT].profile;
    const char *kinds[ET_SIDES] = {et_text(&left->strings, left->kind), et_text(&right->strings, right->kind)};
    if (strcmp(kinds[ET_LEFT], kinds[ET_RIGHT]) != 0 || left->measure != right->measure) {
        et_error("diff: the baseline has kind %s, the other side %s; choose one with --kind", kinds[ET_LEFT],
                 kinds[ET_RIGHT]);
        return ET_FAILED;
    }
    if (left->names_pending || right->names_pending) {
        et_error("diff: a side without names cannot be compared; try again when the server has read its symbols");
        return ET_FAILED;
    }
    struct et_symbols *symbols = et_options_symbols(c->options);
    et_progress("finding names");
    et_symbolize_both(symbols, c->sides[ET_LEFT].profile, c->sides[ET_RIGHT].profile);
    et_progress_end();
    et_symbols_free(symbols);
    et_profile_name_lines(c->sides[ET_LEFT].profile, c->options->granularity);
    et_profile_name_lines(c->sides[ET_RIGHT].profile, c->options->granularity);
    et_progress("comparing");
    et_diff_make(left, right, 1, &c->diff);
    et_progress_end();
    c->level = c->diff.level;
    for (enum et_side i = ET_LEFT; i < ET_SIDES; i++) {
        uint64_t processes = c->sides[i].profile->processes;
        c->sides[i].seconds = (double)c->sides[i].profile->ran_ns / 1e9;
        c->diff.seconds[i] = c->level ? (double)(processes ? processes : 1) : c->sides[i].seconds;
    }
    c->diff.level = false;
    if (c->options->threshold > 0) {
        et_regressions_find(&c->diff, &c->wanted, &c->findings);
    }
    if (c->findings.unknown) {
        et_error("diff: --function %s: neither side has a function of that name; `edgeprof top` shows names",
                 c->findings.unknown);
        return ET_FAILED;
    }
    return ET_OK;
}

/* Writes "12.00 % -> 15.00 %", or the growth of the total. */
static void write_change(const struct et_finding *finding, struct et_buf *out)
{
    if (finding->row) {
        et_buf_printf(out, "%.2f %% -> %.2f %% of all", 100 * finding->before, 100 * finding->after);
    } else {
        et_buf_printf(out, "%+.1f %%", 100 * (finding->after - finding->before));
    }
}

static size_t count_findings(const struct et_findings *findings, enum et_judgement judgement)
{
    size_t count = 0;
    for (size_t i = 0; i < findings->count; i++) {
        count += findings->findings[i].judgement == judgement;
    }
    return count;
}

static double most_needed(const struct et_findings *findings)
{
    double needed = 0;
    for (size_t i = 0; i < findings->count; i++) {
        needed = fmax(needed, findings->findings[i].needed);
    }
    return needed;
}

/* Reports the judgement of --threshold in one line, and returns the exit code. */
static int report_judgement(const struct et_diff_command *c)
{
    const struct et_findings *findings = &c->findings;
    const double *samples = c->diff.samples;
    double percent = 100 * c->options->threshold;
    struct et_buf change = {0};
    int code = ET_OK;
    if (c->options->threshold > 0 && findings->count && findings->judgement != ET_DIFF_SAME) {
        const struct et_finding *worst = &findings->findings[0];
        size_t more = count_findings(findings, ET_DIFF_MORE), unsure = count_findings(findings, ET_DIFF_UNSURE);
        write_change(worst, &change);
        code = more ? ET_REGRESSION : ET_TOO_FEW_SAMPLES;
        if (more) {
            et_error("diff: regression: %s: %s, threshold %g %%%s", et_diff_finding_name(c, worst), change.data,
                     percent, more > 1 ? "; and others, see the table" : "");
        } else if (!(worst->needed > 0)) {
            et_error("diff: cannot compare totals per second: a side has no duration or no samples; use "
                     "--per-function to compare shares");
        } else {
            et_error("diff: too few samples: %s: %s may be chance or above %g %%%s; there are %.0f and %.0f samples, "
                     "about %.0f per side are needed",
                     et_diff_finding_name(c, worst), change.data, percent, unsure > 1 ? ", others too" : "",
                     samples[ET_LEFT], samples[ET_RIGHT], ceil(most_needed(findings)));
        }
    }
    et_buf_free(&change);
    return code;
}

/* ---- the command ---- */

static bool is_valid_diff_usage(const struct et_options *options, int files)
{
    bool baseline = options->baseline || options->baseline_from_ns || options->baseline_to_ns != INT64_MAX;
    bool judged = options->functions.count || options->per_function;
    if (files > 2) {
        et_error("diff: more than two files");
    } else if (files && baseline) {
        et_error("diff: give a baseline file or --baseline, not both");
    } else if (!files && !baseline) {
        et_error(
            "diff: no baseline given; use --baseline SELECTOR, --baseline-from and --baseline-to, or BASELINE-FILE");
    } else if (files == 2 && et_options_name_source(options)) {
        et_error("diff: --db and --url cannot be combined with two files");
    } else if (judged && !(options->threshold > 0)) {
        et_error("diff: --function and --per-function require --threshold, such as --threshold 10%%");
    } else if (options->functions.count && options->per_function) {
        et_error("diff: --function and --per-function cannot be combined");
    } else {
        return true;
    }
    return false;
}

int et_cmd_diff(int argc, char **argv)
{
    struct et_options options;
    struct et_buf out = {0};
    int code = et_options_parse(argc, argv, &options);
    if (code >= 0) {
        return code;
    }
    struct et_diff_command c = {.options = &options};
    c.wanted = (struct et_regression_request){.threshold = options.threshold,
                                              .scope = options.functions.count ? ET_REGRESSION_NAMED
                                                       : options.per_function  ? ET_REGRESSION_FUNCTIONS
                                                                               : ET_REGRESSION_TOTAL,
                                              .names = options.functions.items,
                                              .name_count = options.functions.count};
    code = is_valid_diff_usage(&options, argc - options.first) ? ET_OK : ET_USAGE;
    code = code ? code : load_sides(&c, argc - options.first, argv + options.first);
    code = code ? code : compare(&c);
    if (code == ET_OK) {
        if (options.json) {
            et_diff_print_json(&c, &out);
        } else {
            et_diff_print_text(&c, &out);
        }
        code = et_print_as(options.json, &out);
        code = code ? code : report_judgement(&c);
    }
    for (enum et_side i = ET_LEFT; i < ET_SIDES; i++) {
        et_profile_free(c.sides[i].profile);
        et_buf_free(&c.sides[i].words);
    }
    et_findings_free(&c.findings);
    et_diff_free(&c.diff);
    et_options_free(&options);
    return code;
}
