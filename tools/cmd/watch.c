/*
 * edgeprof watch: refreshes the table of functions continuously; on a terminal it is a screen with keys, otherwise it
 * prints tables.
 */
#include "tools/cmd/commands.h"
#include "tools/cmd/options.h"
#include "tools/lib/progress.h"
#include "tools/formats/report.h"
#include "tools/cmd/terminal.h"
#include "tools/lib/time_text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

const struct et_help et_help_watch = {
    .usage = "[options]",
    .about = "Shows the currently most expensive functions: the table of `edgeprof top --last 1m`, every two seconds. "
             "On a terminal s toggles sorting by flat or cum, the arrow keys and page keys scroll, q quits. If "
             "standard output is not a terminal, the tables are printed one after the other.",
    .end = "exit codes: 0 done, 1 failed, 2 wrong usage, 3 no profile matches, after --count tables",
    .words = "",
};

static const int64_t SECOND_NS = 1000000000;

enum { EVERY_SECONDS = 2, LAST_SECONDS = 60, ASIDE = 3 /* screen lines besides the table's rows */ };

struct watch_state {
    struct et_options *options;
    struct et_symbols *symbols;
    struct et_profile *profile; /* the latest; NULL: none yet */
    struct et_table table;
    struct et_buf trouble; /* why there is no newer one */
    bool by_total;
    size_t first;  /* first visible row */
    size_t height; /* number of visible rows */
};

static int64_t interval_of(const struct et_options *options)
{
    return options->every_ns ? options->every_ns : EVERY_SECONDS * SECOND_NS;
}

static void sort_table(struct watch_state *w)
{
    et_table_sort(&w->table, w->profile, w->by_total);
}

/* Loads a new profile; keeps the old one if there is none. Returns an exit code. */
static int refresh(struct watch_state *w)
{
    struct et_options *options = w->options;
    struct et_query query = options->wanted.query;
    struct et_profile *profile = NULL;
    if (!options->from_ns || options->last_ns) {
        query.from_ns = et_now() - (options->last_ns ? options->last_ns : LAST_SECONDS * SECOND_NS);
    }
    int code = et_options_read(options, &query, &profile);
    if (code == ET_OK) {
        et_symbolize(w->symbols, profile);
        et_profile_free(w->profile);
        et_table_free(&w->table);
        w->profile = profile;
        et_table_make(profile, &w->table);
        sort_table(w);
    }
    return code;
}

/* ---- screen ---- */

/* Adds one line, cleaned and cut to the terminal's width. */
static void add_screen_line(struct et_buf *out, const char *line, size_t size, size_t columns)
{
    size_t width = 0, end = 0;
    char *text = et_clean(line, size);
    while (text[end]) {
        bool starts = ((unsigned char)text[end] & 0xc0) != 0x80;
        if (starts && width == columns) {
            break;
        }
        width += starts;
        end++;
    }
    et_buf_add(out, text, end);
    et_buf_text(out, "\033[K\r\n");
    free(text);
}

static void add_title(const struct watch_state *w, struct et_buf *out, size_t columns)
{
    struct et_buf title = {0};
    const struct et_options *options = w->options;
    et_buf_printf(&title, "%s  by %s  [s] sort [up down] move [q] quit%s%s",
                  options->url  ? options->url
                  : options->db ? options->db
                                : ET_DEFAULT_DB,
                  w->by_total ? "cum" : "flat", w->trouble.size ? "  " : "", w->trouble.size ? w->trouble.data : "");
    et_buf_text(out, "\033[7m");
    add_screen_line(out, title.data, title.size, columns);
    et_buf_text(out, "\033[0m");
    et_buf_free(&title);
}

static void draw_screen(struct watch_state *w)
{
    struct et_buf screen = {0}, table = {0};
    size_t rows, columns;
    et_terminal_size(&rows, &columns);
    w->height = rows > ASIDE ? rows - ASIDE : 1;
    size_t most = w->table.count > w->height ? w->table.count - w->height : 0;
    w->first = w->first > most ? most : w->first;
    et_buf_text(&screen, "\033[H");
    add_title(w, &screen, columns);
    if (w->profile) {
        et_report_table(w->profile, &w->table, w->first, w->height, &table);
    }
    const char *line = table.data ? table.data : "";
    for (size_t i = 1; i < rows && *line; i++) {
        const char *end = strchr(line, '\n');
        add_screen_line(&screen, line, (size_t)(end - line), columns);
        line = end + 1;
    }
    if (screen.size >= 2) {
        screen.size -= 2; /* a line break in the last line would scroll the screen */
    }
    et_buf_text(&screen, "\033[J");
    et_write_file("-", screen.data, screen.size);
    et_buf_free(&screen);
    et_buf_free(&table);
}

/* False: the user quits. */
static bool handle_key(struct watch_state *w, int key)
{
    size_t page = w->height;
    switch (key) {
    case 'q':
    case ET_KEY_GONE:
        return false;
    case 's':
        w->by_total = !w->by_total;
        w->first = 0;
        sort_table(w);
        break;
    case ET_KEY_UP:
        w->first -= w->first > 0;
        break;
    case ET_KEY_DOWN:
        w->first++;
        break;
    case ET_KEY_PAGE_UP:
        w->first -= w->first > page ? page : w->first;
        break;
    case ET_KEY_PAGE_DOWN:
        w->first += page;
        break;
    case ET_KEY_HOME:
        w->first = 0;
        break;
    default:
        break;
    }
    draw_screen(w);
    return true;
}

/* Handles keys until the next refresh. False: the user quits. */
static bool handle_keys(struct watch_state *w)
{
    int64_t until = et_monotonic() / 1000000 + interval_of(w->options) / 1000000, left;
    while ((left = until - et_monotonic() / 1000000) > 0) {
        int key = et_terminal_key(left > 60000 ? 60000 : (long)left);
        if (key != ET_KEY_NONE && !handle_key(w, key)) {
            return false;
        }
    }
    return true;
}

static int watch_screen(struct watch_state *w)
{
    unsigned long shown = 0, count = w->options->count;
    int code;
    do {
        w->trouble.size = 0;
        et_error_to(&w->trouble);
        code = refresh(w);
        et_error_to(NULL);
        draw_screen(w);
        shown++;
    } while (code != ET_USAGE && (!count || shown < count) && handle_keys(w));
    et_terminal_close();
    if (code == ET_USAGE) {
        et_error("%s", w->trouble.data);
    }
    return code == ET_USAGE || (count && shown == count) ? code : ET_OK;
}

/* ---- plain tables ---- */

static int watch_plain(struct watch_state *w)
{
    int64_t every = interval_of(w->options);
    const struct timespec pause = {.tv_sec = every / SECOND_NS, .tv_nsec = every % SECOND_NS};
    int code = ET_OK;
    for (unsigned long shown = 0; !w->options->count || shown < w->options->count; shown++) {
        struct et_buf out = {0};
        if (shown) {
            nanosleep(&pause, NULL);
        }
        code = refresh(w);
        if (code == ET_OK) {
            et_buf_text(&out, shown ? "\n" : "");
            et_report_table(w->profile, &w->table, 0, w->options->rows, &out);
            code = et_print_output(&out);
        }
        if (code != ET_OK && code != ET_NO_DATA) {
            break;
        }
    }
    return code;
}

int et_cmd_watch(int argc, char **argv)
{
    struct et_options options;
    int code = et_options_parse(argc, argv, &options);
    if (code >= 0) {
        return code;
    }
    code = et_no_more_arguments(argc, argv, &options);
    if (code == ET_OK) {
        struct watch_state w = {.options = &options, .symbols = et_options_symbols(&options)};
        et_progress_never();
        code = et_terminal_open() ? watch_screen(&w) : watch_plain(&w);
        et_table_free(&w.table);
        et_profile_free(w.profile);
        et_symbols_free(w.symbols);
        et_buf_free(&w.trouble);
    }
    et_options_free(&options);
    return code;
}
