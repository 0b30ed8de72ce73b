/*
 * Between the files of the test program coexist.
 */
#ifndef COEXIST_H
#define COEXIST_H

/* Works for some tenths of a second of CPU time, without a system call. */
void coexist_count(void);

/* Rows of coexist_filter.c. Returns the exit status. */
int coexist_filter(const char *row);

#endif
