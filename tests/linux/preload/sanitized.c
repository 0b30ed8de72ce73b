/*
 * Threads with locks, sleeps and small buffers on deep stacks, for builds with sanitizers.
 *
 * sanitized: nothing is wrong; sanitized overflow, sanitized leak: that is wrong, and a sanitizer says so.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define THREADS 4
#define ROUNDS  30000

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *volatile kept;

__attribute__((noinline)) static unsigned deep(unsigned depth, unsigned sum)
{
    char buffer[37];

    memset(buffer, (int)sum, sizeof buffer);
    if (depth)
        sum = deep(depth - 1, sum + 1);
    for (size_t i = 0; i < sizeof buffer; i++)
        sum += (unsigned char)buffer[i] * 31u;
    return sum;
}

static void *work(void *argument)
{
    const struct timespec pause = {.tv_nsec = 200000};
    unsigned *sum = argument;

    for (unsigned i = 0; i < ROUNDS; i++) {
        *sum = deep(30 + i % 40, *sum);
        if (i % 100 == 0) {
            char *bytes = malloc(100 + *sum % 100);
            memset(bytes, 1, 100);
            pthread_mutex_lock(&lock);
            nanosleep(&pause, NULL);
            pthread_mutex_unlock(&lock);
            free(bytes);
        }
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS];
    unsigned sums[THREADS] = {0};
    volatile size_t beyond = sizeof sums;

    for (size_t i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work, &sums[i]);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    if (argc > 1 && strcmp(argv[1], "overflow") == 0)
        printf("%d\n", ((volatile char *)sums)[beyond]);
    if (argc > 1 && strcmp(argv[1], "leak") == 0) {
        kept = malloc(77);
        kept = NULL;
    }
    puts("done");
    return 0;
}
