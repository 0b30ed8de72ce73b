/*
 * /proc/self/maps, line by line, and the paths of files by it: a module that was opened by a relative path has a name
 * that is only good in the folder that the program was in.
 */
#include "linux.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* "start-end access offset device inode      path" */
enum { START, END, ACCESS, OFFSET, DEVICE, INODE, PATH };

struct line {
    struct ep_linux_mapping mapping;
    unsigned field, letters;
};

static void path_add(struct line *line, char letter)
{
    struct ep_linux_mapping *mapping = &line->mapping;

    if (letter == ' ' && line->letters == 0)
        return;
    if (line->letters < sizeof mapping->path - 1)
        mapping->path[line->letters] = letter;
    line->letters++;
}

static void letter_add(struct line *line, char letter)
{
    struct ep_linux_mapping *mapping = &line->mapping;

    if (line->field == PATH) {
        path_add(line, letter);
    } else if (letter == ' ' || (letter == '-' && line->field == START)) {
        line->field++;
        line->letters = 0;
    } else if (line->field == START) {
        mapping->start = mapping->start << 4 | ep_linux_hex_digit(letter);
    } else if (line->field == END) {
        mapping->end = mapping->end << 4 | ep_linux_hex_digit(letter);
    } else if (line->field == ACCESS && line->letters < sizeof mapping->access) {
        mapping->access[line->letters++] = letter;
    }
}

int ep_linux_maps_each(bool (*each)(const struct ep_linux_mapping *mapping, void *context), void *context)
{
    struct line line = {0};
    char bytes[4096]; /* the kernel gives a page at most */
    ssize_t got = 0;
    bool more = true;
    int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return -errno;
    while (more && (got = read(fd, bytes, sizeof bytes)) > 0) {
        for (ssize_t i = 0; i < got && more; i++) {
            if (bytes[i] != '\n') {
                letter_add(&line, bytes[i]);
                continue;
            }
            if (line.letters >= sizeof line.mapping.path)
                line.mapping.path[0] = 0;
            more = each(&line.mapping, context);
            line = (struct line){0};
        }
    }
    int error = got < 0 ? -errno : 0;
    (void)close(fd);
    return error;
}

struct asked {
    uintptr_t at;
    char *path;
    size_t size;
};

static bool path_copy(const struct ep_linux_mapping *mapping, void *context)
{
    const struct asked *asked = context;
    const size_t length = strlen(mapping->path);

    if (asked->at - mapping->start >= mapping->end - mapping->start)
        return true;
    if (mapping->path[0] == '/' && length < asked->size)
        memcpy(asked->path, mapping->path, length + 1);
    return false;
}

bool ep_linux_path_at(uintptr_t at, char *path, size_t size)
{
    path[0] = 0;
    (void)ep_linux_maps_each(path_copy, &(struct asked){at, path, size});
    return path[0];
}

/* Of modules with relative names, which few programs have; they stay loaded. */
static struct {
    uintptr_t at;
    char path[256];
} absolute[16];

const char *ep_linux_absolute_path(const char *name, uintptr_t at)
{
    char path[sizeof absolute->path];
    unsigned i = 0;

    if (name[0] == '/' || name[0] == '[')
        return name;
    while (i < sizeof absolute / sizeof *absolute && absolute[i].at && absolute[i].at != at)
        i++;
    if (i == sizeof absolute / sizeof *absolute)
        return name;
    if (!absolute[i].at && ep_linux_path_at(at, path, sizeof path)) {
        memcpy(absolute[i].path, path, sizeof path);
        absolute[i].at = at;
    }
    return absolute[i].at ? absolute[i].path : name;
}
