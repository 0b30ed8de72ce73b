/* Works for half a second in hidden_hot(), which only the full symbol table names: in this file, or with RELATIVE in a
 * library that was opened by a path relative to the folder, which the program then leaves. See targets.py. */
#include "../../program.h"

void named_work(void);

#ifndef RELATIVE
static __attribute__((noinline)) void hidden_hot(void)
{
    const clock_t end = clock() + CLOCKS_PER_SEC / 2;

    while (clock() < end) {
        for (volatile int i = 0; i < 1000000; i++) {
        }
    }
}

void named_work(void)
{
    hidden_hot();
}
#endif

#ifndef LIBRARY
int main(void)
{
#ifdef RELATIVE
    void *library = dlopen("./libnamed.so", RTLD_NOW);
    void (*work)(void) = library ? (void (*)(void))dlsym(library, "named_work") : NULL;

    if (!work || chdir("/")) {
        return 1;
    }
    work();
#else
    named_work();
#endif
    return 0;
}
#endif
