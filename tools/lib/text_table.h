/*
 * Tables for people: cells as text, columns as wide as they need to be.
 */
#ifndef ET_TEXT_TABLE_H
#define ET_TEXT_TABLE_H

#include "tools/lib/util.h"

enum { ET_TEXT_TABLE_MOST = 16 };

struct et_text_table {
    const char *const *heads; /* NULL at the end; one that begins with '>' stands to the right */
    char **cells;             /* a row after the other */
    size_t count, capacity;
};

/* Cells are added a row at a time, from left to right; control characters in them are shown as '?'. */
void et_text_table_cell(struct et_text_table *columns, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Appends all of it with its heads, and frees the cells. */
void et_text_table_print(struct et_text_table *columns, struct et_buf *out);

#endif
