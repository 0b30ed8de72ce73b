/* Something of everything, with the same output each time: recursion, sorting, threads, memory, a child. */
#include "../../program.h"

#define THREADS 3
#define ITEMS   50000

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned long total;
static const char *until; /* a file, or NULL */

__attribute__((noinline)) static unsigned fib(unsigned n)
{
    return n < 2 ? n : fib(n - 1) + fib(n - 2);
}

static int compare(const void *a, const void *b)
{
    const unsigned x = *(const unsigned *)a, y = *(const unsigned *)b;

    return (x > y) - (x < y);
}

__attribute__((noinline)) static unsigned long sorted(unsigned seed)
{
    unsigned *items = malloc(ITEMS * sizeof *items);
    unsigned long sum = 0;

    if (!items)
        return 0;
    for (unsigned i = 0; i < ITEMS; i++)
        items[i] = seed = seed * 1103515245 + 12345;
    qsort(items, ITEMS, sizeof *items, compare);
    for (unsigned i = 0; i < ITEMS; i += 1000)
        sum = sum * 31 + items[i];
    free(items);
    return sum;
}

__attribute__((noinline)) static unsigned long memory(unsigned seed)
{
    unsigned long sum = 0;

    for (unsigned i = 0; i < 20000; i++) {
        char *text = malloc(16 + (seed + i) % 500);
        if (!text)
            return 0;
        memset(text, (int)i, 16);
        sum += (unsigned char)text[7];
        free(text);
    }
    return sum;
}

static void *work(void *argument)
{
    const unsigned seed = *(unsigned *)argument;
    const unsigned rounds = *((unsigned *)argument + THREADS);
    unsigned long sum = 0;

    for (unsigned i = 0; i < rounds; i++)
        sum += sorted(seed + i) + memory(seed + i) + fib(20 + i % 3);
    while (until && access(until, F_OK) != 0) /* what it does now does not count */
        (void)sorted(seed);
    pthread_mutex_lock(&lock);
    total += sum;
    pthread_mutex_unlock(&lock);
    return NULL;
}

/* work ROUNDS [FILE]: goes on until there is that file, too. */
int main(int argc, char **argv)
{
    unsigned numbers[2 * THREADS];
    pthread_t threads[THREADS];
    int status = -1;

    until = argc > 2 ? argv[2] : NULL;
    for (unsigned i = 0; i < THREADS; i++) {
        numbers[i] = i;
        numbers[THREADS + i] = argc > 1 ? (unsigned)atoi(argv[1]) : 1;
    }
    for (unsigned i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, work, &numbers[i]) != 0)
            return 1;
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    const pid_t child = fork();
    if (child == 0)
        _exit(fib(25) == 75025 ? 3 : 4);
    waitpid(child, &status, 0);
    printf("total %lu, child %d, jemalloc %d\n", total, WEXITSTATUS(status), dlsym(RTLD_DEFAULT, "mallctl") != NULL);
    return 0;
}
