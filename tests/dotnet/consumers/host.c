/* A C program that loads a NativeAOT library with the profiler in it: host LIBRARY */
#include <dlfcn.h>
#include <stdio.h>

static void *function(void *library, const char *name)
{
    void *found = dlsym(library, name);

    if (found == NULL)
        fprintf(stderr, "host: %s\n", dlerror());
    return found;
}

int main(int argc, char **argv)
{
    void *library = argc == 2 ? dlopen(argv[1], RTLD_NOW) : NULL;

    if (library == NULL) {
        fprintf(stderr, "host: %s\n", argc == 2 ? dlerror() : "which library?");
        return 1;
    }
    int (*start)(void) = (int (*)(void))function(library, "demo_start");
    void (*work)(void) = (void (*)(void))function(library, "demo_work");
    int (*stop)(void) = (int (*)(void))function(library, "demo_stop");
    if (start == NULL || work == NULL || stop == NULL)
        return 1;
    if (start() != 0) {
        fprintf(stderr, "host: the profiler did not start\n");
        return 1;
    }
    work();
    return stop();
}
