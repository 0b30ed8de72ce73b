/*
 * See guest.h.   program [core|fp] [managed|c|all [PIECE [PLACES]]]
 *
 * Prints one line a piece: its name and its result. 1 when a result is wrong, 2 when the walker does not start.
 * With -DSHADOW=ROUNDS it steps itself (tests/arm/shadow), each piece ROUNDS times; PLACES is for report.py.
 */
#include "guest.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

int managed_chain(int);
int managed_sort(int);
int managed_qsort(int);
int managed_callbacks(int);
int managed_library(int);
int managed_finally(int);
int managed_generics(int);
int managed_objects(int);
int managed_recursion(int);
int managed_frames(int);
int managed_tail_calls(int);
int managed_pointers(int);
int managed_faults(int);

const struct guest_work guest_managed[] = {
    {"chain", managed_chain, 3, 13175},
    {"sort", managed_sort, 64, 1},
    {"qsort", managed_qsort, 10, 1},
    {"callbacks", managed_callbacks, 5, 105},
    {"library", managed_library, 17, 315},
    {"finally", managed_finally, 4, 95},
    {"generics", managed_generics, 3, 19},
    {"objects", managed_objects, 6, 91},
    {"recursion", managed_recursion, 200, 201},
    {"frames", managed_frames, 3, 686},
    {"tail_calls", managed_tail_calls, 40, 80740356},
    {"pointers", managed_pointers, 6, -5},
    {"faults", managed_faults, 5, 250150},
    {0},
};

__attribute__((noinline, noclone)) void step_begin(void)
{
    __asm__ volatile("" ::: "memory");
}

__attribute__((noinline, noclone)) void step_end(void)
{
    __asm__ volatile("" ::: "memory");
}

#ifdef SHADOW
struct run {
    const struct guest_work *work;
    int *results;
};

static void run_stepped(void *argument)
{
    const struct run *run = argument;

    for (int round = 0; round < SHADOW; round++)
        for (int i = 0; run->work[i].name != NULL; i++) {
            const int result = run->work[i].run(run->work[i].argument);
            if (round == 0)
                run->results[i] = result;
        }
}

/* What takes a thread back from a fault: .NET never does so. */
extern const char fault_resume[];
static enum shadow_place classify(uintptr_t pc)
{
    return pc - (uintptr_t)fault_resume < 0x34 ? SHADOW_SKIPPED : SHADOW_PLACES;
}

static void run_all(const struct guest_work *work, int *results)
{
    struct run run = {work, results};

    shadow_run(run_stepped, &run, UINT64_MAX);
}
#else
/* Stepped: nothing is printed in here. */
static __attribute__((noinline)) void run_all(const struct guest_work *work, int *results)
{
    step_begin();
    for (int i = 0; work[i].name != NULL; i++)
        results[i] = work[i].run(work[i].argument);
    step_end();
    __asm__ volatile("" ::: "memory"); /* a call, not a jump */
}
#endif

/* All pieces of a table, or the one of that name. */
static int run(const struct guest_work *table, const char *piece)
{
    struct guest_work work[32] = {{0}};
    int results[32] = {0}, wrong = 0, count = 0;
    for (int i = 0; table[i].name != NULL && count < 31; i++)
        if (piece == NULL || strcmp(piece, table[i].name) == 0)
            work[count++] = table[i];
#ifndef SHADOW
    if (guest_refresh() != 0)
        return 2;
#endif
    run_all(work, results);
    for (int i = 0; i < count; i++) {
        const int good = results[i] == work[i].result;
        printf("%s %d%s\n", work[i].name, results[i], good ? "" : " is wrong");
        wrong |= !good;
    }
    return wrong;
}

int main(int argc, char **argv)
{
    const char *walker = argc > 1 ? argv[1] : "core", *what = argc > 2 ? argv[2] : "all",
               *piece = argc > 3 && argv[3][0] ? argv[3] : NULL;
#ifdef SHADOW
    int err = shadow_start(walker);
    shadow_classify(classify);
#else
    int err = guest_prepare(walker, (uintptr_t)__builtin_frame_address(0));
#endif
    sigset_t signals;
    if (err != 0) {
        fprintf(stderr, "program: walker %s does not start: %s (core or fp)\n", walker, strerror(-err));
        return 2;
    }
    err = guest_catch_faults();
    if (err != 0) {
        fprintf(stderr, "program: no handler for SIGSEGV: %s\n", strerror(-err));
        return 2;
    }
    sigfillset(&signals);
    sigdelset(&signals, SIGSEGV);           /* stores to nowhere in managed code: native.c */
    sigprocmask(SIG_BLOCK, &signals, NULL); /* the profiler's own timer is not wanted here */
    int status = 0;
    if (strcmp(what, "c") != 0)
        status |= run(guest_managed, piece);
    if (strcmp(what, "managed") != 0)
        status |= run(guest_variety, piece);
    if (strcmp(what, "managed") != 0)
        status |= run(guest_variety_bare, piece);
#if defined(__arm__)
    if (strcmp(what, "managed") != 0)
        status |= run(guest_variety_arm, piece);
#endif
#ifdef SHADOW
    status |= shadow_report_to(argc > 4 ? argv[4] : NULL, strcmp(what, "c") != 0 ? 300000 : 0);
#endif
    return status;
}
