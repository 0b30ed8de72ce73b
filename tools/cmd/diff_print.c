/* See diff_print.h. */
#include "tools/cmd/diff_print.h"
#include "tools/lib/json_write.h"
#include "tools/lib/kinds.h"
#include "tools/lib/text_table.h"

#include <math.h>
#include <string.h>

const char *et_diff_finding_name(const struct et_diff_command *c, const struct et_finding *finding)
{
    return finding->row ? et_text(&c->diff.strings, finding->row->function)
           : c->level   ? "the total per process"
                        : "the total per second";
}

static const char *judgement_name(enum et_judgement judgement)
{
    static const char *const words[] = {"same", "more", "less", "unsure", "no baseline"};
    return words[judgement];
}

/* Judges a row with the threshold; without one, any significant change counts. */
static enum et_judgement judge_row(const struct et_diff_command *c, const struct et_diff_row *row)
{
    return et_diff_judge(&c->diff, row->self, c->options->threshold > 0 ? c->options->threshold : 0);
}

static void print_side(const struct et_diff_command *c, enum et_side side, struct et_buf *out)
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

static void print_growth(const struct et_diff_command *c, struct et_buf *out)
{
    double growth;
    struct et_interval interval;
    if (et_diff_growth(&c->diff, &growth, &interval)) {
        et_buf_printf(out, "total per %s: %+.1f %% (95 %%: %+.1f to %+.1f %%)\n", c->level ? "process" : "second",
                      100 * growth, 100 * interval.low, 100 * interval.high);
    }
}

void et_diff_print_text(const struct et_diff_command *c, struct et_buf *out)
{
    const char *const place = c->sides[ET_RIGHT].profile->by_line ? "function file:line" : "function";
    const char *const heads[] = {">before", ">after", ">points", ">cum before", ">cum after", "means", place, NULL};
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
        et_text_table_cell(&columns, "%+.2f", 100 * (after - before));
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

static void write_row(const struct et_diff_command *c, const struct et_diff_row *row, struct et_buf *out)
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

static void write_findings(const struct et_diff_command *c, struct et_buf *out)
{
    et_buf_printf(out, ",\n\"threshold\":%g,\"verdict\":\"%s\",\"findings\":[", c->options->threshold,
                  c->findings.judgement == ET_DIFF_MORE     ? "regression"
                  : c->findings.judgement == ET_DIFF_UNSURE ? "too few samples"
                                                            : "ok");
    for (size_t i = 0; i < c->findings.count; i++) {
        const struct et_finding *finding = &c->findings.findings[i];
        et_buf_printf(out, "%s\n{\"function\":", i ? "," : "");
        if (finding->row) {
            et_json_string(out, et_diff_finding_name(c, finding));
        } else {
            et_buf_text(out, "null");
        }
        et_buf_printf(out, ",\"before\":%.6f,\"after\":%.6f,\"means\":\"%s\",\"samples_needed\":%.0f}", finding->before,
                      finding->after, judgement_name(finding->judgement), ceil(finding->needed));
    }
    et_buf_char(out, ']');
}

void et_diff_print_json(const struct et_diff_command *c, struct et_buf *out)
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
