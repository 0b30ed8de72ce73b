/* See text_table.h. */
#include "tools/lib/text_table.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void et_text_table_cell(struct et_text_table *columns, const char *format, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, format);
    int size = vasprintf(&text, format, args);
    va_end(args);
    columns->cells = et_reserve(columns->cells, &columns->capacity, columns->count + 1, sizeof *columns->cells);
    columns->cells[columns->count++] = et_clean(size < 0 ? "" : text, size < 0 ? 0 : (size_t)size);
    free(size < 0 ? NULL : text);
}

/* Counts characters, not bytes. */
static size_t width_of(const char *text)
{
    size_t width = 0;
    for (; *text; text++) {
        width += ((unsigned char)*text & 0xc0) != 0x80;
    }
    return width;
}

static void pad(struct et_buf *out, size_t count)
{
    while (count-- > 0) {
        et_buf_char(out, ' ');
    }
}

/* Does not pad the last column, so that lines have no trailing blanks. */
static void print_row(const struct et_text_table *columns, const size_t *widths, size_t heads, const char *const *cells,
                      size_t skip, struct et_buf *out)
{
    for (size_t i = 0; i < heads; i++) {
        bool right = columns->heads[i][0] == '>';
        const char *text = cells[i] + (right ? skip : 0);
        size_t left = widths[i] - width_of(text);
        pad(out, i ? 2 : 0);
        pad(out, right ? left : 0);
        et_buf_text(out, text);
        pad(out, right || i + 1 == heads ? 0 : left);
    }
    et_buf_char(out, '\n');
}

void et_text_table_print(struct et_text_table *columns, struct et_buf *out)
{
    size_t widths[ET_TEXT_TABLE_MOST] = {0}, heads = 0;
    for (; columns->heads[heads]; heads++) {
        widths[heads] = width_of(columns->heads[heads] + (columns->heads[heads][0] == '>'));
    }
    for (size_t i = 0; i < columns->count; i++) {
        size_t width = width_of(columns->cells[i]);
        widths[i % heads] = width > widths[i % heads] ? width : widths[i % heads];
    }
    print_row(columns, widths, heads, columns->heads, 1, out);
    for (size_t i = 0; i + heads <= columns->count; i += heads) {
        print_row(columns, widths, heads, (const char *const *)&columns->cells[i], 0, out);
    }
    for (size_t i = 0; i < columns->count; i++) {
        free(columns->cells[i]);
    }
    free(columns->cells);
    columns->cells = NULL;
    columns->count = columns->capacity = 0;
}
