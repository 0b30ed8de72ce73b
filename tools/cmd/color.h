/* Colours for people: only on a terminal, and never with NO_COLOR (no-color.org) or TERM=dumb. */
#ifndef ET_COLOR_H
#define ET_COLOR_H

#include "tools/lib/util.h"

/* Prints lines of a table as et_print_output(), and frees the buffer. The first percentage of a line colours it: 10 %
 * and more, 1 % and more, less. Returns an exit code. */
int et_print_shares(struct et_buf *out);

#endif
