/*
 * Names of one address as bytes, from the process of a symbol file to the tool.
 *
 * Base 128 numbers: the count of lines, and for each 1 if the function has a name, else 0; size of the name, and the
 * name; size of the source's, and the name; line; start of the function.
 */
#ifndef ET_ANSWER_H
#define ET_ANSWER_H

#include "tools/symbols/resolve.h"

enum {
    ET_LINES_MOST = 66,
    ET_NAME_MOST = 16 << 10,
    ET_ANSWER_MOST = ET_LINES_MOST * (2 * ET_NAME_MOST + 32) + 16, /* bytes */
};

/* Appends it. Longer names are cut. */
void et_answer_write(const struct et_resolved *resolved, struct et_buf *out);

/* False: that is no answer about the address. Otherwise there are 1 to ET_LINES_MOST lines, whose text is clean and
 * whose functions begin at or below the address. *out has to be freed in any case. */
bool et_answer_read(const uint8_t *bytes, size_t size, uint64_t address, struct et_resolved *out);

#endif
