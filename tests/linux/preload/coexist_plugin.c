/* A plug-in whose constructor works and ends the program; see coexist.c. */
#include <stdlib.h>
#include <time.h>

__attribute__((constructor)) static void work_and_exit(void)
{
    const clock_t end = clock() + CLOCKS_PER_SEC * 2 / 5;

    while (clock() < end) {
        for (volatile int i = 0; i < 100000; i++) {
        }
    }
    exit(5);
}
