/*
 * Runs the committed inputs of fuzz targets: replay FOLDER... A folder has the name of its target. Each input also cut
 * short at every length, and with every byte changed: to each of nine values in small inputs, to three of them in
 * larger ones, to one in large ones, another one at each place.
 *
 * TARGETS lists the targets of the program as TARGET(NAME).
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LARGER 64u
#define LARGE  512u

#define TARGET(name) int fuzz_##name(const uint8_t *data, size_t size);
TARGETS
#undef TARGET

static const struct target {
    const char *name;
    int (*run)(const uint8_t *data, size_t size);
} targets[] = {
#define TARGET(name) {#name, fuzz_##name},
    TARGETS
#undef TARGET
};

static const struct target *target;
static unsigned long runs;

/* A copy of its own, so that a sanitizer sees every byte beyond it. */
static void run(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size > 0 ? size : 1);
    if (!copy)
        abort();
    memcpy(copy, data, size);
    target->run(copy, size);
    free(copy);
    runs++;
}

static void vary(uint8_t *data, size_t size)
{
    static const uint8_t values[] = {0, '\n', '\r', ' ', ':', '0', '9', 'f', 0xff};

    const size_t step = size > LARGE ? 9 : size > LARGER ? 3 : 1;

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

/* The target with the name of the folder. */
static const struct target *find(const char *folder)
{
    const char *slash = strrchr(folder, '/');
    const char *name = slash ? slash + 1 : folder;

    for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++)
        if (strcmp(targets[i].name, name) == 0)
            return &targets[i];
    return NULL;
}

static int vary_file(const char *folder, const char *name)
{
    static uint8_t data[65536];
    char path[4096];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "rb");
    if (!f) {
        perror(path);
        return 1;
    }
    vary(data, fread(data, 1, sizeof data, f));
    fclose(f);
    return 0;
}

static int vary_folder(const char *folder)
{
    unsigned long inputs = 0;
    int failed = 0;

    target = find(folder);
    runs = 0;
    DIR *dir = target ? opendir(folder) : NULL;
    if (!dir) {
        fprintf(stderr, "%s: no such target or folder\n", folder);
        return 1;
    }
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        if (entry->d_name[0] == '.')
            continue;
        failed |= vary_file(folder, entry->d_name);
        inputs++;
    }
    closedir(dir);
    printf("%s: %lu inputs, %lu runs\n", target->name, inputs, runs);
    fflush(stdout);
    return failed || runs == 0;
}

int main(int argc, char **argv)
{
    int failed = argc < 2;

    for (int i = 1; i < argc; i++)
        failed |= vary_folder(argv[i]);
    return failed;
}
