/*
 * Files of messages: compact or pprof messages, each after its length in 4 bytes, or one bare message. Reads the files
 * of a file:// endpoint, any pprof file, gzipped or not, and files of other profilers.
 */
#ifndef ET_MESSAGES_H
#define ET_MESSAGES_H

#include "tools/store/store.h"
#include "tools/formats/compact.h"
#include "tools/formats/foreign.h"
#include "tools/formats/pprof_read.h"

/* Iterates over a file's messages. The caller owns the bytes. */
struct et_messages {
    const uint8_t *at, *end;
    bool bare;
    bool torn; /* the file ends within a message */
};

void et_messages_begin(struct et_messages *messages, const struct et_buf *file);
/* Returns the next message's bytes; false at the end. */
bool et_messages_next(struct et_messages *messages, const uint8_t **bytes, size_t *size);

/* What is wrong with a message that could not be read: `why`, or that the file has no known format. bytes: of
 * et_messages_next(), at least one. */
const char *et_messages_why(const struct et_messages *messages, const uint8_t *bytes, const char *why);

/* Calls `call` for each message of a file that is not a pprof; the callee owns it. False: malformed, or `call` returned
 * false; *why says how. */
bool et_messages_each(const struct et_buf *file, bool (*call)(void *context, et_message *message, const char **why),
                      void *context, const char **why);

/* Reads path; "-" is standard input. A file of another profiler (foreign.h) becomes pprof; the second tells which it
 * was. Returns an exit code; reports errors. */
int et_messages_read(const char *path, struct et_buf *file);
int et_messages_read_foreign(const char *path, struct et_buf *file, enum et_foreign *format);

bool et_is_pprof(const uint8_t *bytes, size_t size);
/* Decodes a pprof, inflating it if necessary; *inflated owns its bytes. NULL: see *why. */
et_pprof *et_messages_pprof(const uint8_t *bytes, size_t size, struct et_buf *inflated, const char **why);

/* The profile of a file of folded text as `edgeprof export` writes it: the numbers are values of the kind, "" for CPU
 * time. NULL: the file is something else. */
struct et_profile *et_messages_folded(const struct et_buf *file, const char *kind);

/* Stores all messages of a file. Adds to count how many the database has now; those that it had already do not count
 * twice in a profile. A pprof becomes the service "pprof". path: for messages. Returns an exit code; reports errors. */
int et_messages_store(const char *path, const struct et_buf *file, struct et_store *store, size_t *count);

/* Merges what the query selects from all messages of a file, not symbolized. path: for messages. Returns an exit code,
 * ET_NO_DATA when nothing matches; reports errors. */
int et_messages_load(const char *path, const struct et_buf *file, const struct et_query *query,
                     struct et_profile **profile);

#endif
