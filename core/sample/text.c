/*
 * The text of ep_start_error(), and parsing of key=value lists.
 */
#include "core/sample/profiler.h"

#include <string.h>

static char error_text[160];

const char *ep_start_error(void)
{
    return error_text;
}

/* Joins three pieces into the error text, cut to its size. */
int ep_complain(int error, const char *a, const char *b, const char *c)
{
    const char *pieces[] = {a, b, c};
    size_t at = 0;

    for (size_t i = 0; i < 3; i++) {
        size_t size = strlen(pieces[i]);
        if (size > sizeof error_text - 1 - at)
            size = sizeof error_text - 1 - at;
        memcpy(error_text + at, pieces[i], size);
        at += size;
    }
    error_text[at] = 0;
    return error;
}

int ep_refuse(int error, const char *why)
{
    return ep_complain(error, why, "", "");
}

static bool is_key_char(char c, bool first)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (!first && c >= '0' && c <= '9');
}

unsigned ep_tag_key_size(const char *text)
{
    unsigned size = 0;

    while (is_key_char(text[size], size == 0))
        size++;
    return size;
}

const char *ep_tag_next(const char *text, struct ep_tag *tag, bool *error)
{
    *error = false;
    if (!text || !*text)
        return NULL;
    const char *at = text + ep_tag_key_size(text);
    *tag = (struct ep_tag){.key = text, .key_size = (unsigned)(at - text)};
    if (at == text || *at != '=') {
        *error = true;
        return NULL;
    }
    tag->value = ++at;
    while (*at && *at != ',')
        at++;
    tag->value_size = (unsigned)(at - tag->value);
    return *at ? at + 1 : at;
}
