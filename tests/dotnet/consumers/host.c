/* A C program that loads NativeAOT libraries with the profiler in them: host LIBRARY... */
#include <dlfcn.h>
#include <stdio.h>

#define MOST 4

static void *function(void *library, const char *name)
{
    void *found = library ? dlsym(library, name) : NULL;

    if (found == NULL)
        fprintf(stderr, "host: %s\n", dlerror());
    return found;
}

int main(int argc, char **argv)
{
    void *library[MOST];
    int status = argc < 2 || argc > MOST + 1;

    for (int i = 0; i < argc - 1 && !status; i++) {
        library[i] = dlopen(argv[i + 1], RTLD_NOW);
        int (*start)(void) = (int (*)(void))function(library[i], "demo_start");
        if (start == NULL || start() != 0) {
            fprintf(stderr, "host: the profiler did not start\n");
            status = 1;
        }
    }
    for (int i = 0; i < argc - 1 && !status; i++) {
        void (*work)(void) = (void (*)(void))function(library[i], "demo_work");
        if (work == NULL)
            return 1;
        work();
    }
    for (int i = 0; i < argc - 1 && !status; i++) {
        int (*stop)(void) = (int (*)(void))function(library[i], "demo_stop");
        status = stop == NULL || stop() != 0;
    }
    return status;
}
