/*
 * edgeprof list: a function with its callers, its callees, and the lines of its source with their values. et_cmd_list()
 * finds the functions, list_function() prints each of them.
 */
#include "tools/cmd/color.h"
#include "tools/cmd/commands.h"
#include "tools/cmd/profile_file.h"
#include "tools/formats/report.h"
#include "tools/lib/closest.h"
#include "tools/lib/kinds.h"
#include "tools/lib/pattern.h"
#include "tools/lib/progress.h"
#include "tools/lib/source_text.h"
#include "tools/profile/callers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct et_help et_help_list = {
    .usage = "[options] FUNCTION [FILE]",
    .about =
        "Prints a function with its callers, its callees and the lines of its source: flat is the line alone, cum "
        "includes what it calls. FUNCTION is its name as `edgeprof top` prints it, or else a Perl-compatible regular "
        "expression. Without the source there are the numbers of lines. " ET_FILE_FORMATS,
    .end = "exit codes: 0 done, 1 failed, 2 wrong usage, 3 no profile matches, or no function",
};

enum { NEIGHBOURS = 5, AROUND = 5, FUNCTIONS = 10 };

struct list_command {
    const struct et_options *options;
    const struct et_profile *profile;
    struct et_table table;
    struct et_buf out;
};

static double percent(const struct list_command *c, uint64_t value)
{
    return 100 * (double)value / (double)c->profile->total;
}

static const char *unit_of(const struct list_command *c)
{
    return et_text(&c->profile->strings, c->profile->unit);
}

/* ---- callers and callees ---- */

static void write_neighbours(struct list_command *c, const char *head, const struct et_neighbours *neighbours)
{
    char value[32];
    if (neighbours->count) {
        et_buf_printf(&c->out, "%s\n", head);
    }
    for (size_t i = 0; i < neighbours->count && i < NEIGHBOURS; i++) {
        const struct et_neighbour *row = &neighbours->rows[i];
        et_value_text(row->value, unit_of(c), value);
        et_buf_printf(&c->out, "%7.2f%% %10s  %s\n", percent(c, row->value), value,
                      et_text(&c->profile->strings, row->function));
    }
    if (neighbours->count > NEIGHBOURS) {
        et_buf_printf(&c->out, "%zu more\n", neighbours->count - NEIGHBOURS);
    }
}

static void write_callers(struct list_command *c, const char *name)
{
    struct et_callers callers;
    et_callers_make(c->profile, name, 1, &callers);
    write_neighbours(c, "called by", &callers.called_by);
    write_neighbours(c, "calls", &callers.calls);
    et_callers_free(&callers);
}

/* ---- source ---- */

/* Reads the file, or the one with the longest common end below a folder of --source. */
static bool read_source(const struct et_options *options, const char *file, struct et_source_text *out)
{
    return (file[0] == '/' && et_source_read(file, out)) || et_source_find(&options->sources, file, out);
}

static void write_line(struct list_command *c, const struct et_source_text *source, uint32_t number,
                       const struct et_hot_line *hot)
{
    char self[32] = ".", total[32] = ".";
    const char *text;
    size_t size = et_source_line(source, number, &text);
    if (hot) {
        et_value_text(hot->self, unit_of(c), self);
        et_value_text(hot->total, unit_of(c), total);
        et_buf_printf(&c->out, "%7.2f%% %10s %10s", percent(c, hot->total), total, self);
    } else {
        et_buf_printf(&c->out, "%8s %10s %10s", ".", ".", ".");
    }
    et_buf_printf(&c->out, " %6u  %.*s\n", number, (int)size, text);
}

static int compare_lines(const void *left, const void *right)
{
    const struct et_hot_line *a = left, *b = right;
    return a->file != b->file ? (a->file > b->file) - (a->file < b->file) : (a->line > b->line) - (a->line < b->line);
}

/* The lines of one file, in order. With the source, lines around them are printed too. */
static void write_file(struct list_command *c, const struct et_hot_line *lines, size_t count)
{
    const char *file = et_text(&c->profile->strings, lines[0].file);
    struct et_source_text source = {0};
    uint32_t printed = 0;
    bool found = read_source(c->options, file, &source);
    et_buf_printf(&c->out, "%s%s\n", *file ? file : "(no file is known)",
                  found || !*file ? "" : "  (no such file here; --source DIR says where it is)");
    et_buf_printf(&c->out, "%8s %10s %10s %6s\n", "cum%", "cum", "flat", "line");
    for (size_t i = 0; i < count; i++) {
        uint32_t line = lines[i].line, from = line > AROUND ? line - AROUND : 1;
        uint32_t until = i + 1 < count && lines[i + 1].line - line <= AROUND ? lines[i + 1].line - 1 : line + AROUND;
        if (found && printed && from > printed + 1) {
            et_buf_text(&c->out, "     ...\n");
        }
        for (uint32_t at = from > printed ? from : printed + 1; found && at < line; at++) {
            write_line(c, &source, at, NULL);
        }
        write_line(c, &source, line, &lines[i]);
        for (uint32_t at = line + 1; found && at <= until && at <= source.count; at++) {
            write_line(c, &source, at, NULL);
        }
        printed = found ? until : line;
    }
    et_source_free(&source);
}

static void write_lines(struct list_command *c, const struct et_function *row)
{
    struct et_hot_line *lines = et_alloc(row->line_count, sizeof *lines);
    memcpy(lines, c->table.lines + row->first_line, row->line_count * sizeof *lines);
    qsort(lines, row->line_count, sizeof *lines, compare_lines);
    for (size_t i = 0, end; i < row->line_count; i = end) {
        end = i + 1;
        while (end < row->line_count && lines[end].file == lines[i].file) {
            end++;
        }
        write_file(c, lines + i, end - i);
    }
    free(lines);
}

/* ---- the command ---- */

static void list_function(struct list_command *c, const struct et_function *row)
{
    const char *name = et_text(&c->profile->strings, row->function);
    char self[32], total[32];
    et_value_text(row->self, unit_of(c), self);
    et_value_text(row->total, unit_of(c), total);
    et_buf_printf(&c->out, "%s%s: cum %s, %.2f%%; flat %s, %.2f%%\n", c->out.size ? "\n" : "", name, total,
                  percent(c, row->total), self, percent(c, row->self));
    write_callers(c, name);
    write_lines(c, row);
}

static int report_unknown(const struct list_command *c, const char *wanted)
{
    struct et_closest closest = {0};
    for (size_t i = 0; i < c->table.count; i++) {
        et_closest_offer(&closest, wanted, et_text(&c->profile->strings, c->table.rows[i].function));
    }
    if (closest.word) {
        et_error("list: no function %s; did you mean %s?", wanted, closest.word);
    } else {
        et_error("list: no function %s; `edgeprof top` shows names", wanted);
    }
    return ET_NO_DATA;
}

/* Lists the function with the name, or else those that match. */
static int list_functions(struct list_command *c, const char *wanted)
{
    struct et_buf why = {0};
    size_t found = 0;
    et_table_sort(&c->table, c->profile, true);
    for (size_t i = 0; i < c->table.count && !found; i++) {
        if (strcmp(et_text(&c->profile->strings, c->table.rows[i].function), wanted) == 0) {
            list_function(c, &c->table.rows[i]);
            found = 1;
        }
    }
    struct et_pattern *pattern = found ? NULL : et_pattern_new(wanted, &why);
    for (size_t i = 0; i < c->table.count && pattern; i++) {
        if (et_pattern_matches(pattern, et_text(&c->profile->strings, c->table.rows[i].function)) &&
            found++ < FUNCTIONS) {
            list_function(c, &c->table.rows[i]);
        }
    }
    if (found > FUNCTIONS) {
        et_buf_printf(&c->out, "\n%zu more functions match\n", found - FUNCTIONS);
    }
    et_pattern_free(pattern);
    et_buf_free(&why);
    return found ? et_print_shares(&c->out) : report_unknown(c, wanted);
}

int et_cmd_list(int argc, char **argv)
{
    struct et_options options;
    struct et_profile *profile = NULL;
    const char *path;
    int code = et_options_parse(argc, argv, &options);
    if (code >= 0) {
        return code;
    }
    const char *wanted = options.first < argc ? argv[options.first++] : NULL;
    code = et_profile_argument(argc, argv, &options, &path);
    if (!code && !wanted) {
        et_error("list: expected a FUNCTION; `edgeprof top` shows names");
        code = ET_USAGE;
    }
    code = code ? code : et_profile_load(argv[0], &options, path, &profile);
    if (code == ET_OK) {
        struct list_command c = {.options = &options, .profile = profile};
        et_progress("adding up functions");
        et_table_make(profile, &c.table);
        et_progress_end();
        code = list_functions(&c, wanted);
        et_table_free(&c.table);
        et_buf_free(&c.out);
    }
    et_profile_free(profile);
    et_options_free(&options);
    return code;
}
