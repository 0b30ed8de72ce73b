/* A native library as .NET services have it: it allocates and frees for itself. */
#include <stdlib.h>
#include <string.h>

void *taker_take(size_t size);
void taker_give(void *block);

__attribute__((visibility("default"), noinline)) void *taker_take(size_t size)
{
    void *block = malloc(size);

    if (block)
        memset(block, 1, size);
    return block;
}

__attribute__((visibility("default"))) void taker_give(void *block)
{
    free(block);
}
