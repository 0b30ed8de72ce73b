/* Groups and types in mangled names of .NET NativeAOT, for demangle_dotnet.c. */
#ifndef ET_DEMANGLE_TYPES_H
#define ET_DEMANGLE_TYPES_H

#include "tools/lib/util.h"

#include <ctype.h>
#include <string.h>

enum { GROUPS = 64, ARGUMENTS = 64, NESTING = 12, MARK = '\1' };

struct et_dotnet_text {
    const char *at;
    size_t size;
};

/* A name whose top-level <...> groups stand apart; in flat each is one MARK. */
struct et_dotnet_name {
    char *flat;
    struct et_dotnet_text groups[GROUPS];
    size_t group_count;
    const struct et_dotnet_text
        *machine;         /* arguments of a state machine, first those of the types around it; or NULL */
    const char *assembly; /* the program's own, mangled, or "" */
    bool iterator;
    int nesting;
};

static inline struct et_dotnet_text et_text_slice(const char *from, const char *to)
{
    return (struct et_dotnet_text){from, (size_t)(to - from)};
}

static inline const char *et_text_end(struct et_dotnet_text text)
{
    return text.size ? text.at + text.size : text.at; /* an absent text has no place */
}

static inline bool et_text_starts(struct et_dotnet_text text, const char *with)
{
    size_t size = strlen(with);
    return text.size >= size && memcmp(text.at, with, size) == 0;
}

static inline bool et_text_is(struct et_dotnet_text text, const char *other)
{
    return text.size == strlen(other) && et_text_starts(text, other);
}

static inline const char *et_text_find(struct et_dotnet_text text, const char *what)
{
    return memmem(text.at, text.size, what, strlen(what));
}

static inline const char *et_text_find_last(struct et_dotnet_text text, const char *what)
{
    size_t size = strlen(what);
    for (size_t i = text.size; i >= size; i--) {
        if (memcmp(text.at + i - size, what, size) == 0) {
            return text.at + i - size;
        }
    }
    return NULL;
}

static inline size_t et_text_digits(const char *at, const char *end)
{
    size_t count = 0;
    while (at + count < end && isdigit((unsigned char)at[count])) {
        count++;
    }
    return count;
}

/* Removes _12 or _12_0 from the end. */
static inline struct et_dotnet_text et_text_without_numbers(struct et_dotnet_text text, int most)
{
    while (most-- > 0) {
        size_t size = text.size;
        while (size && isdigit((unsigned char)text.at[size - 1])) {
            size--;
        }
        if (size == text.size || size < 2 || text.at[size - 1] != '_' || text.at[size - 2] == '_') {
            break;
        }
        text.size = size - 1;
    }
    return text;
}

/* Position behind the group that starts at `at`; the end when it is not closed. */
const char *et_dotnet_skip_group(const char *at, const char *end);

void et_dotnet_flatten(struct et_dotnet_text text, struct et_dotnet_name *name);

/* Takes a mark off the end of *text and returns its group. */
const struct et_dotnet_text *et_dotnet_last_group(const struct et_dotnet_name *name, struct et_dotnet_text *text);

/* Arguments joined by "__"; wanted: how many there should be, 0: unknown. Only where a type is seen to begin is a
 * "__" surely a separator; when that gives too few, the first others are taken. */
size_t et_dotnet_split(const struct et_dotnet_name *name, struct et_dotnet_text group, size_t wanted,
                       struct et_dotnet_text *arguments);

/* Number at `at` (behind an underscore) that says how many parameters the type before it has, 0: none. */
size_t et_dotnet_arity(const char *at, const char *end);

void et_dotnet_arguments(const struct et_dotnet_name *name, const struct et_dotnet_text *arguments, size_t count,
                         struct et_buf *out);

/* A type with its group, closures left out. */
void et_dotnet_type(const struct et_dotnet_name *name, struct et_dotnet_text text, struct et_buf *out);

/* Appends a name below `from`: of a type, or of a method with its type. */
void et_dotnet_demangle(const struct et_dotnet_name *from, struct et_dotnet_text text, bool is_type,
                        struct et_buf *out);

#endif
