/* See help.h. */
#include "tools/cmd/help.h"
#include "tools/cmd/option_table.h"

#include <string.h>

/* Widths in characters: a line, and the columns of the texts. */
enum { LINE = 100, COMMAND_COLUMN = 13, OPTION_COLUMN = 22 };

static const char summary[] = "flame graphs of services on small devices";
static const char exit_codes[] =
    "exit codes: 0 done, 1 failed, 2 wrong usage, 3 no data; `diff`, `verdict` and `leaks` have more, "
    "`run` returns its program's";

/* Calls each(line, out) for the lines of a text that need not end with one. */
static void for_lines(const char *text, void (*each)(const char *line, struct et_buf *out), struct et_buf *out)
{
    while (text && *text) {
        size_t size = strcspn(text, "\n");
        struct et_buf line = {0};
        et_buf_printf(&line, "%.*s", (int)size, text);
        each(line.data, out);
        et_buf_free(&line);
        text += size + (text[size] == '\n');
    }
}

/* ---- for people ---- */

/* Appends words and breaks lines. at: the column that the first word starts at; column: that of further lines. */
static void print_wrapped(const char *text, size_t at, size_t column, struct et_buf *out)
{
    size_t start = at;
    while (*text) {
        size_t size = strcspn(text, " ");
        if (at > start && at + 1 + size > LINE) {
            et_buf_printf(out, "\n%*s", (int)column, "");
            at = start = column;
        } else if (at > start) {
            et_buf_text(out, " ");
            at++;
        }
        et_buf_printf(out, "%.*s", (int)size, text);
        at += size;
        text += size + strspn(text + size, " ");
    }
    et_buf_text(out, "\n");
}

static void print_line(const char *line, struct et_buf *out)
{
    if (*line == ' ') {
        et_buf_printf(out, "%s\n", line);
    } else {
        print_wrapped(line, 0, 0, out);
    }
}

void et_help_print_all(struct et_buf *out)
{
    et_buf_printf(out, "edgeprof: %s.\n\nusage: edgeprof COMMAND [options]\n", summary);
    for (size_t i = 0; i < et_command_count; i++) {
        const struct et_command *command = &et_commands[i];
        if (command->name) {
            et_buf_printf(out, "  %-*s", COMMAND_COLUMN - 2, command->name);
            print_wrapped(command->summary, COMMAND_COLUMN, COMMAND_COLUMN, out);
        } else {
            et_buf_printf(out, "\n%s\n", command->summary);
        }
    }
    et_buf_text(out, "\n"
                     "`edgeprof COMMAND --help` describes a command and its options.\n"
                     "`edgeprof --version` prints the version, `edgeprof --describe` this table for other programs.\n");
    print_wrapped(exit_codes, 0, 0, out);
}

static void print_usage(const struct et_command *command, struct et_buf *out)
{
    const char *head = "usage: ";
    for (const char *at = command->help->usage; *at; at += *at == '\n') {
        size_t size = strcspn(at, "\n");
        et_buf_printf(out, "%sedgeprof %s %.*s\n", head, command->name, (int)size, at);
        head = "       ";
        at += size;
    }
}

static void print_option(const struct et_option *row, struct et_buf *out)
{
    size_t before = out->size;
    et_buf_text(out, "  ");
    if (row->letter) {
        et_buf_printf(out, "-%c, ", row->letter);
    }
    et_buf_printf(out, "--%s%s%s", row->name, row->argument ? " " : "", row->argument ? row->argument : "");
    size_t at = out->size - before;
    if (at + 2 > OPTION_COLUMN) {
        et_buf_text(out, "\n");
        at = 0;
    }
    et_buf_printf(out, "%*s", (int)(OPTION_COLUMN - at), "");
    print_wrapped(row->help, OPTION_COLUMN, OPTION_COLUMN, out);
}

void et_help_print(const struct et_command *command, struct et_buf *out)
{
    const struct et_option *heading = NULL;
    print_usage(command, out);
    et_buf_text(out, "\n");
    for_lines(command->help->about, print_line, out);
    for (size_t i = 0; i < et_option_count; i++) {
        const struct et_option *row = &et_option_table[i];
        if (!row->name) {
            heading = row;
        } else if (row->commands & command->bit) {
            if (heading) {
                et_buf_printf(out, "\n%s%s", heading->help ? heading->help : "", heading->help ? "\n" : "");
            }
            heading = NULL;
            print_option(row, out);
        }
    }
    et_buf_text(out, "\n");
    for_lines(command->help->end, print_line, out);
}

/* ---- for programs ---- */

static void describe_usage(const char *line, struct et_buf *out)
{
    et_buf_printf(out, "usage\t%s\n", line);
}

static void describe_about(const char *line, struct et_buf *out)
{
    et_buf_printf(out, "about\t%s\n", line);
}

static void describe_end(const char *line, struct et_buf *out)
{
    et_buf_printf(out, "end\t%s\n", line);
}

static void describe_options(const struct et_command *command, struct et_buf *out)
{
    const char *heading = NULL;
    for (size_t i = 0; i < et_option_count; i++) {
        const struct et_option *row = &et_option_table[i];
        if (!row->name) {
            heading = row->help;
        } else if (row->commands & command->bit) {
            if (heading) {
                et_buf_printf(out, "heading\t%s\n", heading);
            }
            heading = NULL;
            const char letter[] = {row->letter ? '-' : '\0', row->letter, '\0'};
            const char *values = row->values ? row->values : "any";
            et_buf_printf(out, "option\t--%s\t%s\t%s\t%s\t%s\n", row->name, letter, row->argument ? row->argument : "",
                          row->argument ? values : "", row->help);
        }
    }
}

void et_help_describe(struct et_buf *out)
{
    et_buf_printf(out, "summary\t%s\n", summary);
    for (size_t i = 0; i < et_command_count; i++) {
        const struct et_command *command = &et_commands[i];
        if (command->name) {
            const struct et_help *help = command->help;
            et_buf_printf(out, "command\t%s\t%s\t%s\t%d\n", command->name, command->summary,
                          help->words ? help->words : "file", help->before_command);
            for_lines(help->usage, describe_usage, out);
            for_lines(help->about, describe_about, out);
            describe_options(command, out);
            for_lines(help->end, describe_end, out);
        }
    }
}
