/* Limits of compact messages and what checks share, for the files of compact.h. */
#ifndef ET_COMPACT_LIMITS_H
#define ET_COMPACT_LIMITS_H

#include "tools/formats/compact.h"

#include <string.h>

enum {
    MODULES_MAX = 4096,
    NODES_MAX = 1 << 20,
    PROFILES_MAX = 1024,
    TAGS_MAX = 64,
    LOSSES_MAX = 64,
    BUILD_ID_MAX = 64,
    TEXT_MAX = 4096,
    TAG_SETS_MAX = 4096, /* in a segment */
    TAG_SET_MAX = 8192,  /* bytes, as text */
    TAG_SET_ID_MAX = 65535,
    LABEL_SETS_MAX = 65536,
    CRASH_THREADS_MAX = 256,
    TIMELINE_THREADS_MAX = 256,
    TIMELINE_PARTS_MAX = 64,
};

/* Returns false. */
static inline bool set_reason(const char **why, const char *text)
{
    *why = text;
    return false;
}

static inline bool text_fits(const char *text)
{
    return strlen(text) <= TEXT_MAX;
}

/* Cleans a key as it is stored. */
void et_compact_clean_key(char *key);

#endif
