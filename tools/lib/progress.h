/*
 * Progress of long work: one line on standard error, when that is a terminal, after one second. The line disappears
 * when the work ends, and before any other line is written there.
 *
 * Context: the working thread, one at a time. Off until et_progress_on().
 */
#ifndef ET_PROGRESS_H
#define ET_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>

void et_progress_on(void);
/* Disables progress for the rest of the run. */
void et_progress_never(void);

/* Starts a step and names it: "reading edgeprof.db". */
void et_progress(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same, unless a step is under way. True: the caller ends it. */
bool et_progress_begin(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Reports progress within the step. total 0: unknown. */
void et_progress_of(size_t done, size_t total);
/* Ends the step. */
void et_progress_end(void);

#endif
