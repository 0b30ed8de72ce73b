/*
 * A plug-in that was opened with RTLD_DEEPBIND frees a program's blocks: its free() is the C library's, not a hook. The
 * same file is the program and, with -DPLUGIN, the plug-in. Prints "live SITE BYTES".
 */
#include "../../program.h"

#define BLOCK 8192u
#define KEPT  2000u
#define TIMES 10u

#ifdef PLUGIN
void consume(void *block);
void consume(void *block)
{
    free(block);
}
#else
static void *kept[KEPT];

__attribute__((noipa)) static void *by_freed(void)
{
    return memset(malloc(BLOCK), 1, BLOCK);
}

__attribute__((noipa)) static void *by_kept(void)
{
    return memset(malloc(BLOCK), 1, BLOCK);
}

int main(int argc, char **argv)
{
    void *library = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_DEEPBIND) : NULL;
    void *symbol = library ? dlsym(library, "consume") : NULL;
    void (*consume)(void *);

    if (!symbol)
        return 9;
    memcpy(&consume, &symbol, sizeof consume);
    for (unsigned i = 0; i < KEPT; i++) {
        kept[i] = by_kept();
        for (unsigned k = 0; k < TIMES; k++)
            consume(by_freed());
    }
    printf("live by_kept %u\nlive by_freed 0\n", KEPT * BLOCK);
    return kept[0] == NULL;
}
#endif
