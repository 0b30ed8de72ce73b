/*
 * Between the files of the test program `kinds`: what programs do that take for granted that they are alone. A form is
 * one way to do it. It ends with a status, and writes what it saw; both are the same with edgeprof as without.
 */
#ifndef KINDS_H
#define KINDS_H

#include "../../program.h"

#define KINDS_DONE   4
#define KINDS_CANNOT 77 /* this machine lacks what the form needs */
#define KINDS_FAILED 9

struct kinds_form {
    const char *name;
    int (*run)(void); /* the exit status */
};

/* Each ends with a form without a name. */
extern const struct kinds_form kinds_descriptors[], kinds_ends[], kinds_ids[], kinds_limits[], kinds_loader[],
    kinds_memory[], kinds_namespaces[], kinds_processes[], kinds_signals[], kinds_stacks[], kinds_threads[];

/* Works for so many ms of the calling thread's CPU time. */
void kinds_burn(unsigned ms);

/* Waits until edgeprof's threads run, at work now and then, as the preload library starts them at a sample; then works.
 * Works only where there is no edgeprof. */
void kinds_burn_until_profiled(void);

/* The same, and then for as long as edgeprof sends three times. */
void kinds_live(void);

/* Writes a line on standard output, without a buffer. */
void kinds_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The same, and ends with KINDS_FAILED. */
_Noreturn void kinds_fail(const char *what);

/* Waits for a child. Returns its exit status, 128 + its signal. */
int kinds_wait(int child);

/* In another thread, until the process ends. */
void kinds_burn_beside(void);

/* The plug-in's file. */
const char *kinds_plugin(void);

#endif
