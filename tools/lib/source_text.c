/* See source_text.h. */
#include "tools/lib/source_text.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static void split(struct et_source_text *source)
{
    const char *at = source->text.data, *end = at + source->text.size;
    while (at && at < end) {
        source->lines = (const char **)et_reserve((void *)source->lines, &source->capacity, source->count + 1,
                                                  sizeof *source->lines);
        source->lines[source->count++] = at;
        at = memchr(at, '\n', (size_t)(end - at));
        at = at ? at + 1 : NULL;
    }
}

bool et_source_read(const char *path, struct et_source_text *out)
{
    out->text.size = 0;
    bool ok = et_read_file(path, ET_SOURCE_LIMIT, &out->text) == 0;
    if (ok) {
        split(out);
    }
    return ok;
}

/* Links are followed, but not out of the folder. */
static bool read_below(const char *folder, const char *name, struct et_source_text *out)
{
    struct et_buf path = {0};
    et_buf_printf(&path, "%s/%s", folder, name);
    char *real = *name ? realpath(path.data, NULL) : NULL, *root = real ? realpath(folder, NULL) : NULL;
    size_t size = root ? strlen(root) : 0;
    struct stat file;
    bool inside = root && strncmp(real, root, size) == 0 && (real[size] == '/' || strcmp(root, "/") == 0);
    bool ok = inside && stat(real, &file) == 0 && S_ISREG(file.st_mode) && et_source_read(real, out);
    free(real);
    free(root);
    et_buf_free(&path);
    return ok;
}

bool et_source_find(const struct et_list *folders, const char *file, struct et_source_text *out)
{
    bool found = false;
    for (size_t i = 0; i < folders->count && !found; i++) {
        for (const char *end = file; end && !found; end = strchr(end, '/')) {
            end += *end == '/';
            found = read_below(folders->items[i], end, out);
        }
    }
    return found;
}

void et_source_free(struct et_source_text *source)
{
    free((void *)source->lines);
    et_buf_free(&source->text);
    *source = (struct et_source_text){0};
}

size_t et_source_line(const struct et_source_text *source, uint32_t number, const char **line)
{
    *line = "";
    if (!number || number > source->count) {
        return 0;
    }
    const char *at = source->lines[number - 1], *end = source->text.data + source->text.size;
    const char *stop = memchr(at, '\n', (size_t)(end - at));
    size_t size = (size_t)((stop ? stop : end) - at);
    *line = at;
    return size && at[size - 1] == '\r' ? size - 1 : size;
}
