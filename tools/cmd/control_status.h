/* The answer of a control endpoint to /status, as text. */
#ifndef ET_CONTROL_STATUS_H
#define ET_CONTROL_STATUS_H

#include "tools/lib/util.h"

/* Prints the important fields. Returns an exit code; reports an answer that is none. */
int et_control_show_status(const struct et_buf *answer);

#endif
