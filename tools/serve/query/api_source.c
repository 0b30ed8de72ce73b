/* See api.h: the lines of a function with their values, and with their text where the server has the source. */
#include "tools/serve/query/api.h"
#include "tools/lib/json_write.h"
#include "tools/lib/source_text.h"
#include "tools/profile/tree.h"

#include <stdlib.h>
#include <string.h>

enum { AROUND = 5, MOST_LINES = 5000 };

struct source_answer {
    const struct et_profile *profile;
    const struct et_list *folders;
    struct et_buf *out;
    size_t written; /* lines */
};

static int compare_lines(const void *left, const void *right)
{
    const struct et_hot_line *a = left, *b = right;
    return a->file != b->file ? (a->file > b->file) - (a->file < b->file) : (a->line > b->line) - (a->line < b->line);
}

static void write_line(struct source_answer *a, const struct et_source_text *source, uint32_t number,
                       const struct et_hot_line *hot, const char **comma)
{
    const char *text;
    if (a->written++ >= MOST_LINES) {
        return;
    }
    et_buf_printf(a->out, "%s\n{\"line\":%u", *comma, number);
    *comma = ",";
    if (hot) {
        et_buf_printf(a->out, ",\"self\":%llu,\"total\":%llu", (unsigned long long)hot->self,
                      (unsigned long long)hot->total);
    }
    size_t size = et_source_line(source, number, &text);
    if (source->count) {
        char *own = et_clean(text, size);
        et_buf_text(a->out, ",\"text\":");
        et_json_string(a->out, own);
        free(own);
    }
    et_buf_char(a->out, '}');
}

/* The lines of one file, in order. With the source, those around them, too. */
static void write_file(struct source_answer *a, const struct et_hot_line *lines, size_t count)
{
    const char *file = et_text(&a->profile->strings, lines[0].file), *comma = "";
    struct et_source_text source = {0};
    uint32_t next = 1;
    bool found = *file && et_source_find(a->folders, file, &source);
    et_buf_text(a->out, "{\"file\":");
    et_json_string(a->out, file);
    et_buf_printf(a->out, ",\"found\":%s,\"lines\":[", found ? "true" : "false");
    for (size_t i = 0; i < count; i++) {
        uint32_t line = lines[i].line, from = line > AROUND ? line - AROUND : 1;
        uint32_t until = i + 1 < count && lines[i + 1].line <= line + AROUND ? lines[i + 1].line - 1 : line + AROUND;
        for (uint32_t at = from > next ? from : next; found && at < line; at++) {
            write_line(a, &source, at, NULL, &comma);
        }
        write_line(a, &source, line, &lines[i], &comma);
        next = line + 1;
        for (; found && next <= until && next <= source.count; next++) {
            write_line(a, &source, next, NULL, &comma);
        }
    }
    et_buf_text(a->out, "]}");
    et_source_free(&source);
}

static void write_files(struct source_answer *a, const struct et_table *table, const struct et_function *row)
{
    struct et_hot_line *lines = et_alloc(row->line_count, sizeof *lines);
    memcpy(lines, table->lines + row->first_line, row->line_count * sizeof *lines);
    qsort(lines, row->line_count, sizeof *lines, compare_lines);
    for (size_t i = 0, end; i < row->line_count; i = end) {
        end = i + 1;
        while (end < row->line_count && lines[end].file == lines[i].file) {
            end++;
        }
        et_buf_text(a->out, i ? ",\n" : "\n");
        write_file(a, lines + i, end - i);
    }
    free(lines);
}

static void write_source(struct source_answer *a, const char *function)
{
    struct et_table table;
    const struct et_profile *p = a->profile;
    et_table_make(p, &table);
    et_buf_text(a->out, "{\"function\":");
    et_json_string(a->out, function);
    et_buf_text(a->out, ",\"unit\":");
    et_json_string(a->out, et_text(&p->strings, p->unit));
    et_buf_printf(a->out, ",\"all\":%llu,\"names_pending\":%llu,\"folders\":%zu,\"files\":[",
                  (unsigned long long)p->total, (unsigned long long)p->names_pending, a->folders->count);
    for (size_t i = 0; i < table.count; i++) {
        if (strcmp(et_text(&p->strings, table.rows[i].function), function) == 0) {
            write_files(a, &table, &table.rows[i]);
        }
    }
    et_buf_text(a->out, "]}\n");
    et_table_free(&table);
}

unsigned et_api_source(struct et_store *store, struct et_symbols *symbols, const struct et_query *query,
                       const struct et_source_request *wanted, struct et_buf *out)
{
    struct et_profile *profile;
    struct et_query merged = *query;
    if (!*wanted->function) {
        et_api_error(out, "function= is required: the complete name of a function");
        return 400;
    }
    merged.keep_labels = false;
    unsigned status = et_api_load(store, &merged, &profile, out);
    if (status == 200) {
        et_symbolize(symbols, profile);
        write_source(&(struct source_answer){.profile = profile, .folders = wanted->folders, .out = out},
                     wanted->function);
        et_profile_free(profile);
    }
    return status;
}
