/* Text tables: columns as wide as their widest cell. */
#ifndef ET_TEXT_TABLE_H
#define ET_TEXT_TABLE_H

#include "tools/lib/util.h"

enum { ET_TEXT_TABLE_MOST = 16 };

struct et_text_table {
    const char *const *heads; /* NULL at the end; a leading '>' aligns the column right */
    char **cells;             /* row by row */
    size_t count, capacity;
};

/* Adds a cell, row by row, left to right. Control characters are shown as '?'. */
void et_text_table_cell(struct et_text_table *columns, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Appends the table with its headings, and frees the cells. */
void et_text_table_print(struct et_text_table *columns, struct et_buf *out);

#endif
