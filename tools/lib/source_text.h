/* Source files below folders, by the names that debug information has for them, and their lines. */
#ifndef ET_SOURCE_TEXT_H
#define ET_SOURCE_TEXT_H

#include "tools/lib/list.h"

/* Lines of a text; lines[i] is number i + 1 and ends at a line break. Zeroed: none. */
struct et_source_text {
    const char **lines;
    size_t count, capacity;
    struct et_buf text; /* at most ET_SOURCE_LIMIT bytes */
};
enum { ET_SOURCE_LIMIT = 16 << 20 };

/* Reads the regular file with the longest common end of its path below one of the folders. Never reads outside of them:
 * the name may come from a stranger. False: there is none. */
bool et_source_find(const struct et_list *folders, const char *file, struct et_source_text *out);
/* Reads the file at this path, whatever it is. */
bool et_source_read(const char *path, struct et_source_text *out);
void et_source_free(struct et_source_text *source);

/* Of a number's line, without its end: the size. *line: "" for numbers beyond. */
size_t et_source_line(const struct et_source_text *source, uint32_t number, const char **line);

#endif
