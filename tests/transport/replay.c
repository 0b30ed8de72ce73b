/*
 * Runs a fuzz target's committed inputs: replay FILE... Each also cut short at every length, and with every byte
 * changed: to all of some values, in large inputs to every third of them.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LARGE 512u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned long runs;

/* A copy of its own, so that a sanitizer sees every byte beyond it. */
static void run(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size > 0 ? size : 1);
    if (!copy)
        abort();
    memcpy(copy, data, size);
    LLVMFuzzerTestOneInput(copy, size);
    free(copy);
    runs++;
}

static void vary(uint8_t *data, size_t size)
{
    static const uint8_t values[] = {0, '\n', '\r', ' ', ':', '0', '9', 'f', 0xff};

    size_t step = size > LARGE ? 3 : 1;

    run(data, size);
    for (size_t i = 0; i < size; i++)
        run(data, i);
    for (size_t i = 0; i < size; i++) {
        uint8_t was = data[i];
        for (size_t v = i % step; v < sizeof values; v += step) {
            data[i] = values[v];
            run(data, size);
        }
        data[i] = was;
    }
}

int main(int argc, char **argv)
{
    static uint8_t data[65536];

    for (int i = 1; i < argc; i++) {
        FILE *f = fopen(argv[i], "rb");
        if (!f) {
            perror(argv[i]);
            return 1;
        }
        vary(data, fread(data, 1, sizeof data, f));
        fclose(f);
    }
    printf("%d inputs, %lu runs\n", argc - 1, runs);
    return runs > 0 ? 0 : 1;
}
