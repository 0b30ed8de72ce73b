/*
 * A program whose call stacks are checked at every instruction, on ARM under QEMU. It runs on its own too, and checks
 * its own results then.
 *
 *   program.c          main: prepares the unwinder, runs each piece of work between step_begin() and step_end()
 *   variety.c          pieces in C; zero/Work.cs: pieces in C#, compiled by ILC; native.c: what C# calls
 *   ask.c, ask-<arch>.S   where truth.py sends the program after each step, to hear what the unwinder says
 *
 * The walkers are those of tests/arm/shadow. Nothing here is thread-safe: one thread is stepped.
 */
#ifndef GUEST_H
#define GUEST_H

#include <stdint.h>

#include "tests/arm/shadow/shadow.h"

/* Markers: truth.py steps from one to the other. */
void step_begin(void);
void step_end(void);

/* Chooses the walker ("core" or "fp") and starts what it needs. root: main's frame, what lies above it only starts the
 * program. 0 or a negative errno value. */
int guest_prepare(const char *walker, uintptr_t root);

/* The stack that is read, and the walker's own preparation before a run. 0 or a negative errno value. */
int guest_refresh(void);

/* From now on faults of managed code end in RhpThrowHwEx (ask-<arch>.S). 0 or a negative errno value. */
int guest_catch_faults(void);

/* ask-<arch>.S saves every register in this order and calls guest_answer(); it returns with all of them as before. */
struct guest_registers {
#if defined(__aarch64__)
    uint64_t x[31], sp;
#else
    uint32_t r[15]; /* [13] sp, [14] lr */
    uint32_t cpsr;
#endif
};

void guest_answer(const struct guest_registers *registers);

/* Pieces of work; each returns a number that depends on all that it did. */
typedef int (*guest_piece)(int);

struct guest_work {
    const char *name;
    guest_piece run;
    int argument, result;
};

/* Up to one without a name. The pieces in C come more than once: as gcc makes them when asked for unwind tables; bare,
 * without frame records (aarch64) or without tables (armhf); and on armhf as ARM code besides Thumb. */
extern const struct guest_work guest_managed[], guest_variety[], guest_variety_arm[], guest_variety_bare[];

#endif
