/* Prints one line about itself: its name, its threads, whether it catches a real-time signal, its timers; with two
 * threads of its own. */
#include "../../program.h"

static pthread_barrier_t both;

static unsigned count(const char *path, const char *start)
{
    char line[256];
    unsigned found = 0;
    FILE *file = fopen(path, "re");

    while (file && fgets(line, sizeof line, file)) {
        if (strncmp(line, start, strlen(start)) == 0)
            found += strcmp(start, "Threads:") == 0 ? (unsigned)atoi(line + 8) : 1;
    }
    if (file)
        fclose(file);
    return found;
}

/* Of a real-time signal: this program has none of its own. */
static int has_handler(void)
{
    char line[256];
    unsigned long long caught = 0;
    FILE *file = fopen("/proc/self/status", "re");

    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, "SigCgt:", 7) == 0)
            caught = strtoull(line + 7, NULL, 16);
    if (file)
        fclose(file);
    return caught >> (SIGRTMIN - 1) != 0;
}

static void *work(void *argument)
{
    for (volatile unsigned i = 0; i < 100000000; i++) {
    }
    pthread_barrier_wait(&both);
    pthread_barrier_wait(&both);
    return argument;
}

int main(int argc, char **argv)
{
    pthread_t thread;

    pthread_barrier_init(&both, NULL, 2);
    if (argc != 1 || pthread_create(&thread, NULL, work, NULL) != 0)
        return 1;
    pthread_barrier_wait(&both);
    printf("%s threads %u handler %d timers %u\n", strrchr(argv[0], '/') ? strrchr(argv[0], '/') + 1 : argv[0],
           count("/proc/self/status", "Threads:"), has_handler(), count("/proc/self/timers", "ID:"));
    fflush(stdout);
    pthread_barrier_wait(&both);
    pthread_join(thread, NULL);
    return 0;
}
