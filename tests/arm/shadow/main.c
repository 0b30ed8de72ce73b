/*
 * The pieces of work in C (tests/arm/variety.c) single-stepped (see shadow.h). Prints the share of instructions at
 * which the unwinder had the whole stack right, and checks what each piece returns.
 *
 *   shadow-c [core|fp [PLACES]]      PLACES: file for the list of wrong places, for report.py
 */
#include "shadow.h"

#include <string.h>

#include "tests/arm/guest.h"

#define LIMIT 3000000

static void everything(void *argument)
{
    int *wrong = argument;

    for (int round = 0; round < 3; round++) /* the first one binds the PLT */
        for (const struct guest_work *work = guest_variety; work->name != NULL; work++)
            *wrong += work->run(work->argument) != work->result;
}

int main(int argc, char **argv)
{
    const char *walker = argc > 1 ? argv[1] : "core";
    const int err = shadow_start(walker);
    if (err != 0) {
        fprintf(stderr, "shadow-c: walker %s does not start: %s (core or fp)\n", walker, strerror(-err));
        return 2;
    }
    int wrong = 0;
    shadow_run(everything, &wrong, LIMIT);
    FILE *places = argc > 2 ? fopen(argv[2], "w") : NULL;
    shadow_report(stdout, places);
    if (places != NULL)
        fclose(places);
    const struct shadow_figures figures = shadow_figures();
    uint64_t steps = 0, exact = 0;
    for (int place = 0; place < SHADOW_PLACES; place++) {
        steps += figures.steps[place];
        exact += figures.exact[place];
    }
    printf("figure exact_steps_c_x86_64_pct %.3f pct\n", 100.0 * (double)exact / (double)steps);
    return wrong != 0;
}
