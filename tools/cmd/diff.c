/*
 * edgeprof diff: the changes between two profiles, and whether they are a regression. et_cmd_diff() loads both sides
 * from files or a store, compares them, prints text or JSON, and reports the judgement.
 */
#include "tools/lib/text_table.h"
#include "tools/cmd/commands.h"
#include "tools/lib/json_write.h"
#include "tools/lib/kinds.h"
#include "tools/serve/ingest/messages.h"
#include "tools/cmd/options.h"
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
    .about = "Compares a profile with a baseline: each function's share of the total, before and after. FILEs are "
             "pprof or compact files. With one FILE, the other side comes from --db or --url and the options.",
    .end = "Without --function and --per-function, --threshold checks the total per second of process run time.\n"
           "\n"
           "exit codes: 0 done, no regression; 1 failed; 2 wrong usage; 3 no profile matches; 4 a regression; 5 no "
           "baseline; 6 too few samples to decide; the message says how many are needed",
};

struct diff_input {
    struct et_profile *profile;
    double seconds; /* run time of the processes; 0: unknown */
    struct et_buf words;
};

struct diff_command {
    const struct et_options *options;
    struct diff_input sides[ET_SIDES];
    struct et_diff diff;
    struct et_regression_request wanted;
    struct et_findings findings;
    bool level; /* a level kind: totals are compared per process */
};

/* ---- the two sides ---- */

/* Selectors and times apply only to stored profiles; a file is used entirely. */
static int load_file(const struct et_options *options, const char *path, struct diff_input *side)
{
    const struct et_query *wanted = &options->wanted.query;
    const struct et_query query = {
        .kind = wanted->kind, .measure = wanted->measure, .group = wanted->group, .to_ns = INT64_MAX};
    struct et_buf file = {0};
    int code = et_messages_read(path, &file);
    et_buf_text(&side->words, path);
    code = code ? code : et_messages_load(path, &file, &query, &side->profile);
    if (code == ET_OK) {
        side->seconds = (double)(side->profile->end_ns - side->profile->start_ns) / 1e9;
    }
    et_buf_free(&file);
    return code;
}

static int load_stored(const struct et_options *options, const struct et_query *query, struct diff_input *side)
{
    int code = et_options_fetch(options, query, &side->profile);
    et_selector_print(query->service ? query->service : "", query->matchers, query->matcher_count, &side->words);
    if (code == ET_OK && side->profile->total == 0) {
        et_profile_free(side->profile);
        side->profile = NULL;
        return ET_NO_DATA;
    }
    if (code == ET_OK) {
        struct et_query own = *query;
        own.service = et_text(&side->profile->strings, side->profile->service);
        code = et_options_seconds(options, &own, &side->seconds);
    }
    return code;
}

/* --tag and --label apply to both sides. */
static bool add_matchers(const struct et_options *options, struct et_query_builder *wanted)
{
    bool ok = true;
    for (size_t i = 0; i < options->tags.count; i++) {
        ok &= et_query_builder_tag(wanted, options->tags.items[i]);
    }
    for (size_t i = 0; i < options->labels.count; i++) {
        ok &= et_query_builder_label(wanted, options->labels.items[i]);
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

static int load_baseline(const struct et_options *options, const char *file, struct diff_input *side)
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

static int load_sides(struct diff_command *c, int count, char **files)
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

static int compare(struct diff_command *c)
{
    const struct et_profile *left = c->sides[ET_LEFT].profile, *right = c->sides[ET_RIGHT].profile;
    const char *kinds[ET_SIDES] = {et_text(&left->strings, left->kind), et_text(&right->strings, right->kind)};
    if (strcmp(kinds[ET_LEFT], kinds[ET_RIGHT]) != 0 || left->measure != right->measure) {
        et_error("diff: the baseline has kind %s, the other side %s; choose one with --kind", kinds[ET_LEFT],
                 kinds[ET_RIGHT]);
        return ET_FAILED;
    }
    struct et_symbols *symbols = et_options_symbols(c->options);
    et_progress("finding names");
    et_symbolize(symbols, c->sides[ET_LEFT].profile);
    et_symbolize(symbols, c->sides[ET_RIGHT].profile);
    et_progress_end();
    et_symbols_free(symbols);
    et_profile_name_lines(c->sides[ET_LEFT].profile, c->options->granularity);
    et_profile_name_lines(c->sides[ET_RIGHT].profile, c->options->granularity);
    et_diff_make(left, right, 1, &c->diff);
    c->level = c->diff.level;
    for (enum et_side i = ET_LEFT; i < ET_SIDES; i++) {
        uint64_t processes = c->sides[i].profile->processes;
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

/* The name of a finding's function or scope: "Orders.Total", "the total per second". */
static const char *finding_name(const struct diff_command *c, const struct et_finding *finding)
{
    return finding->row ? et_text(&c->diff.strings, finding->row->function)
           : c->level   ? "the total per process"
                        : "the total per second";
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
static int report_judgement(const struct diff_command *c)
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
            et_error("diff: regression: %s: %s, threshold %g %%%s", finding_name(c, worst), change.data, percent,
                     more > 1 ? "; and others, see the table" : "");
        } else if (!(worst->needed > 0)) {
            et_error("diff: cannot compare totals per second: a side has no duration or no samples; use "
                     "--per-function to compare shares");
        } else {
            et_error("diff: too few samples: %s: %s may be chance or above %g %%%s; there are %.0f and %.0f samples, "
                     "about %.0f per side are needed",
                     finding_name(c, worst), change.data, percent, unsure > 1 ? ", others too" : "", samples[ET_LEFT],
                     samples[ET_RIGHT], ceil(most_needed(findings)));
        }
    }
    et_buf_free(&change);
    return code;
}

/* ---- printing ---- */

static const char *judgement_name(enum et_judgement judgement)
{
    static const char *const words[] = {"same", "more", "less", "unsure", "no baseline"};
    return words[judgement];
}

/* Judges a row with the threshold; without one, any significant change counts. */
static enum et_judgement judge_row(const struct diff_command *c, const struct et_diff_row *row)
{
    return et_diff_judge(&c->diff, row->self, c->options->threshold > 0 ? c->options->threshold : 0);
}

static void print_side(const struct diff_command *c, enum et_side side, struct et_buf *out)
{
    const struct et_profile *p = c->sides[side].profile;
    char total[32];
    const char *service = et_text(&p->strings, p->service);
    et_value_text(p->total, et_text(&p->strings, p->unit), total);
    et_buf_printf(out, "%s %s: %s", side == ET_LEFT ? "before" : "after ",
                  c->sides[side].words.size ? c->sides[side].words.data : service, total);
    et_buf_printf(out, ", %.0f samples", c->diff.samples[side]);
    if (c->sides[side].seconds > 0) {
        et_buf_printf(out, ", %.0f s of processes", c->sides[side].seconds);
    }
    et_buf_char(out, '\n');
}

static void print_growth(const struct diff_command *c, struct et_buf *out)
{
    double growth;
    struct et_interval interval;
    if (et_diff_growth(&c->diff, &growth, &interval)) {
        et_buf_printf(out, "total per %s: %+.1f %% (95 %%: %+.1f to %+.1f %%)\n", c->level ? "process" : "second",
                      100 * growth, 100 * interval.low, 100 * interval.high);
    }
}

static void print_text(const struct diff_command *c, struct et_buf *out)
{
    const char *const place = c->sides[ET_RIGHT].profile->by_line ? "function file:line" : "function";
    const char *const heads[] = {">before", ">after", ">change", ">cum before", ">cum after", "means", place, NULL};
    struct et_text_table columns = {.heads = heads};
    print_side(c, ET_LEFT, out);
    print_side(c, ET_RIGHT, out);
    print_growth(c, out);
    for (size_t i = 0; i < c->diff.row_count && i < c->options->rows; i++) {
        const struct et_diff_row *row = &c->diff.rows[i];
        double before = et_diff_share(&c->diff, ET_LEFT, row->self[ET_LEFT]);
        double after = et_diff_share(&c->diff, ET_RIGHT, row->self[ET_RIGHT]);
        et_text_table_cell(&columns, "%.2f%%", 100 * before);
        et_text_table_cell(&columns, "%.2f%%", 100 * after);
        et_text_table_cell(&columns, "%+.2f%%", 100 * (after - before));
        et_text_table_cell(&columns, "%.2f%%", 100 * et_diff_share(&c->diff, ET_LEFT, row->total[ET_LEFT]));
        et_text_table_cell(&columns, "%.2f%%", 100 * et_diff_share(&c->diff, ET_RIGHT, row->total[ET_RIGHT]));
        et_text_table_cell(&columns, "%s", judgement_name(judge_row(c, row)));
        et_text_table_cell(&columns, "%s", et_text(&c->diff.strings, row->function));
    }
    et_text_table_print(&columns, out);
}

static void write_pair(struct et_buf *out, const char *name, const uint64_t figure[ET_SIDES])
{
    et_buf_printf(out, ",\"%s\":[%llu,%llu]", name, (unsigned long long)figure[ET_LEFT],
                  (unsigned long long)figure[ET_RIGHT]);
}

static void write_row(const struct diff_command *c, const struct et_diff_row *row, struct et_buf *out)
{
    struct et_interval change = et_diff_change(&c->diff, row->self);
    et_buf_text(out, "{\"name\":");
    et_json_string(out, et_text(&c->diff.strings, row->function));
    write_pair(out, "self", row->self);
    write_pair(out, "total", row->total);
    et_buf_printf(out, ",\"share\":[%.6f,%.6f],\"low\":%.6f,\"high\":%.6f,\"means\":\"%s\"}",
                  et_diff_share(&c->diff, ET_LEFT, row->self[ET_LEFT]),
                  et_diff_share(&c->diff, ET_RIGHT, row->self[ET_RIGHT]), change.low, change.high,
                  judgement_name(judge_row(c, row)));
}

static void write_findings(const struct diff_command *c, struct et_buf *out)
{
    et_buf_printf(out, ",\n\"threshold\":%g,\"verdict\":\"%s\",\"findings\":[", c->options->threshold,
                  c->findings.judgement == ET_DIFF_MORE     ? "regression"
                  : c->findings.judgement == ET_DIFF_UNSURE ? "too few samples"
                                                            : "ok");
    for (size_t i = 0; i < c->findings.count; i++) {
        const struct et_finding *finding = &c->findings.findings[i];
        et_buf_printf(out, "%s\n{\"function\":", i ? "," : "");
        if (finding->row) {
            et_json_string(out, finding_name(c, finding));
        } else {
            et_buf_text(out, "null");
        }
        et_buf_printf(out, ",\"before\":%.6f,\"after\":%.6f,\"means\":\"%s\",\"samples_needed\":%.0f}", finding->before,
                      finding->after, judgement_name(finding->judgement), ceil(finding->needed));
    }
    et_buf_char(out, ']');
}

static void print_json(const struct diff_command *c, struct et_buf *out)
{
    const struct et_profile *right = c->sides[ET_RIGHT].profile;
    double growth = 0;
    struct et_interval interval = {0};
    et_buf_text(out, "{\"kind\":");
    et_json_string(out, et_text(&right->strings, right->kind));
    et_buf_text(out, ",\"unit\":");
    et_json_string(out, et_text(&right->strings, right->unit));
    write_pair(out, "total", c->diff.total);
    et_buf_printf(out, ",\"samples\":[%.0f,%.0f],\"%s\":[%.3f,%.3f]", c->diff.samples[ET_LEFT],
                  c->diff.samples[ET_RIGHT], c->level ? "processes" : "seconds", c->diff.seconds[ET_LEFT],
                  c->diff.seconds[ET_RIGHT]);
    if (et_diff_growth(&c->diff, &growth, &interval)) {
        et_buf_printf(out, ",\n\"growth\":%.6f,\"growth_low\":%.6f,\"growth_high\":%.6f", growth, interval.low,
                      interval.high);
    }
    if (c->options->threshold > 0) {
        write_findings(c, out);
    }
    et_buf_text(out, ",\n\"functions\":[");
    for (size_t i = 0; i < c->diff.row_count && i < c->options->rows; i++) {
        et_buf_text(out, i ? ",\n" : "\n");
        write_row(c, &c->diff.rows[i], out);
    }
    et_buf_text(out, "]}\n");
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
    } else if (files == 2 && (options->db || options->url)) {
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
    struct diff_command c = {.options = &options};
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
            print_json(&c, &out);
        } else {
            print_text(&c, &out);
        }
        code = et_print_output(&out);
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
