/* Opens the Go library in argv[1] while its own threads compute, and calls it from each of them. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static long (*go_work)(long);

static void *compute(void *argument)
{
    unsigned long sum = 0;

    (void)argument;
    for (unsigned long i = 0; i < 200000000; i++)
        sum = sum * 31 + i;
    return (void *)(sum % 1000 + (unsigned long)go_work(40));
}

int main(int argc, char **argv)
{
    pthread_t threads[4];
    unsigned long sum = 0;
    void *part, *library = dlopen(argc > 1 ? argv[1] : "", RTLD_NOW);

    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    go_work = (long (*)(long))dlsym(library, "GoWork");
    for (int i = 0; i < 4; i++)
        if (pthread_create(&threads[i], NULL, compute, NULL))
            return 1;
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], &part);
        sum += (unsigned long)part;
    }
    printf("%lu\n", sum);
    return 0;
}
