/*
 * A program without edgeprof whose own tracer publishes thread contexts. main() burns CPU time in a span and as much in
 * none, and waits in the span for a line on standard input. With an argument a forked child does the same.
 */

#include "../../program.h"
#include "tests/linux/tracer.h"

#define BURN_NS 250000000

static void burn(void)
{
    struct timespec now;
    int64_t end = 0;

    do {
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
        if (!end)
            end = now.tv_sec * INT64_C(1000000000) + now.tv_nsec + BURN_NS;
    } while (now.tv_sec * INT64_C(1000000000) + now.tv_nsec < end);
}

int main(int argc, char **argv)
{
    char line[64];

    (void)argv;
    if (argc > 1 && fork() != 0)
        return wait(NULL) < 0;
    burn();
    tracer_span(0x21, 1);
    burn();
    printf("pid %d\n", (int)getpid());
    fflush(stdout);
    return !fgets(line, sizeof line, stdin);
}
