/*
 * Files of messages: compact or pprof, each after its length in 4 bytes, or one bare message; what a file:// endpoint
 * writes, and any pprof file, gzipped or not.
 */
#ifndef ET_MESSAGES_H
#define ET_MESSAGES_H

#include "tools/store/store.h"
#include "tools/formats/pprof_read.h"

/* A file's messages, one after the other. The file's bytes stay the caller's. */
struct et_messages {
    const uint8_t *at, *end;
    bool bare;
    bool torn; /* the file ends in the middle of a message */
};

void et_messages_begin(struct et_messages *messages, const struct et_buf *file);
/* The next one's bytes; false at the end. */
bool et_messages_next(struct et_messages *messages, const uint8_t **bytes, size_t *size);

/* Reads path, "-" is standard input. An exit code, all is said. */
int et_messages_read(const char *path, struct et_buf *file);

bool et_is_pprof(const uint8_t *bytes, size_t size);
/* Decoded, inflated before if need be; *inflated keeps its bytes. NULL: *why. */
et_pprof *et_messages_pprof(const uint8_t *bytes, size_t size, struct et_buf *inflated, const char **why);
/* What contentions in it are of, when edgeprof wrote it: its names alone do not tell. */
const char *et_messages_hint(const et_pprof *pprof);

/* What a query selects of all messages of a file, merged, without names; path is for what is said. An exit code,
 * ET_NO_DATA when there is nothing; all is said. */
int et_messages_load(const char *path, const struct et_buf *file, const struct et_query *query,
                     struct et_profile **profile);

#endif
