/*
 * The truth about call stacks, for checking an unwinder: a program is single-stepped in process, on x86-64 by the trap
 * flag, on aarch64 by executing copies of its instructions (step_<arch>.c), and a shadow stack of its calls is kept. At
 * every instruction the unwinder is asked for the stack, with the registers that a signal handler would see at that
 * point, and its answer is compared frame by frame.
 *
 *   shadow_start()      once: finds out what code is where
 *   shadow_run()        runs one function single-stepped, on the calling thread
 *   shadow_report()     prints the shares, how many wrong stacks call themselves exact, and every place where the
 *                       unwinder was wrong (for report.py)
 *
 * Call tables are no oracle (they do not describe epilogues) and unwinders check each other badly; calls and returns
 * that were seen to happen are what is true. The shadow stack checks itself: each executed return must go where the
 * shadow says.
 *
 * Nothing here is thread-safe: one thread is stepped at a time. What it runs must not block SIGTRAP (x86-64).
 */
#ifndef SHADOW_H
#define SHADOW_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <edgeprof/port.h>

#define SHADOW_DEPTH 1024

/* What a walker says: pc[0] as interrupted, then return addresses. */
struct shadow_stack {
    int count;
    bool sure; /* the walker says of itself that this is the whole truth */
    bool deep; /* it was cut on purpose: the root side is missing */
    uintptr_t pc[SHADOW_DEPTH];
};

/* An unwinder under test. prepare is called once before the first walk: 0, or a negative errno value; refresh before
 * each run, as libraries may have come; walk inside the signal handler. */
struct shadow_walker {
    const char *name;
    int (*prepare)(void);
    void (*refresh)(void);
    void (*walk)(const struct ep_registers *context, struct shadow_stack *stack);
};

extern const struct shadow_walker shadow_walker_core; /* ep_unwind */
extern const struct shadow_walker shadow_walker_fp;   /* frame pointers alone: what one gets without an unwinder */

/* Where the interrupted instruction lies. */
enum shadow_place {
    SHADOW_MANAGED, /* compiled from C# */
    SHADOW_PROGRAM, /* the rest of the executable: C, and the .NET runtime's C++ and assembly */
    SHADOW_LIBC,
    SHADOW_OTHER,    /* other libraries, dynamic linker, vdso */
    SHADOW_ASSEMBLY, /* of the .NET runtime, where a program tells it from C++ */
    SHADOW_PLACES,
    SHADOW_SKIPPED /* for shadow_classify(): there is no truth here */
};

struct shadow_figures {
    uint64_t steps[SHADOW_PLACES];
    uint64_t exact[SHADOW_PLACES];
    uint64_t sure_but_wrong[SHADOW_PLACES];
    uint64_t calls, returns;
    uint64_t faults;                  /* returns that did not go where the shadow says: the truth itself is in doubt */
    uint64_t overflows;               /* steps that were not compared because the shadow stack was full */
    uint64_t places_lost;             /* inexact steps that found no room in the list of places */
    uint64_t outer_steps, outer_same; /* rooted steps / whose frames below the shadow's base were as always */
};

/* Chooses the walker: "core" or "fp". 0 or a negative errno value. Context: init. */
int shadow_start(const char *walker);

/* For code that shadow_run() cannot place itself: classify says where pc lies, or SHADOW_PLACES when it does not know.
 * It is called at every step. Context: init. */
void shadow_classify(enum shadow_place (*classify)(uintptr_t pc));

/* Runs function(argument) single-stepped for at most `limit` steps (it then runs on at full speed).
 * Context: init. */
void shadow_run(void (*function)(void *), void *argument, uint64_t limit);

/* Figures so far. Context: init. */
struct shadow_figures shadow_figures(void);

/* Prints the figures to `out` and, when `places` is not NULL, the inexact places there. Context: init. */
void shadow_report(FILE *out, FILE *places);

/* The same for managed code: figures to standard output, places to the file at `path` unless it is NULL. 0, 1 when
 * fewer managed steps were seen than wanted or the truth is in doubt, 2 when the file cannot be written.
 * Context: init. */
int shadow_report_to(const char *path, double least_managed_steps);

#endif
