/*
 * What takes long says so: one line on standard error, when that is a terminal, from the second second on. It is gone
 * when the work is done, and before any other line is written there.
 *
 * Context: the thread that works, one at a time; off until et_progress_on().
 */
#ifndef ET_PROGRESS_H
#define ET_PROGRESS_H

#include <stddef.h>

void et_progress_on(void);
/* From now on it stays off. */
void et_progress_never(void);

/* What is done from now on, "reading edgeprof.db". */
void et_progress(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* How much of it is done; total 0: unknown. */
void et_progress_of(size_t done, size_t total);
/* Nothing is. */
void et_progress_end(void);

#endif
