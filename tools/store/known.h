/*
 * Ids of rows that the writer has looked up or added, by the columns that make a row unique. Without it, SQLite looks
 * up the same nodes and frames for every profile.
 *
 * Names come in the order of stacks, each profile again in nearly the same one. So the name after the last one is
 * compared first, which needs no hash and reads memory in order.
 *
 * Bounded: the names are in two halves. New names, and names used again, go to the first half. When it is full, it
 * replaces the second one at the start of a transaction, so names that nobody uses leave. What a transaction noted is
 * forgotten when it is rolled back. All is forgotten when rows are deleted, or when another process has written to the
 * database.
 *
 * Context: the thread that writes to the database.
 */
#ifndef ET_STORE_KNOWN_H
#define ET_STORE_KNOWN_H

#include "tools/lib/util.h"

/* A name is a text of bytes, or a pair of ids with no bytes. */
struct et_known_name {
    const void *bytes;
    size_t size;
    int64_t first, second;
};

/* The upper half of the hash makes it unlikely that the entry of another name is read. */
struct et_known_slot {
    uint32_t number; /* of the entry + 1; 0: free */
    uint32_t upper;
};

struct et_known_half {
    struct et_known_entry *entries; /* in the order in which they came */
    size_t count, capacity;
    struct et_known_slot *slots; /* hash table of the entries */
    size_t slot_count;
    struct et_buf texts;
    size_t next; /* entry after the one that was found last; compared first */
};

/* Zeroed: empty. */
struct et_known {
    struct et_known_half half[2];
    size_t group, part;      /* entries of half[0] when the transaction or its current part began */
    size_t group_text, text; /* the same of its texts */
    int64_t version;         /* of the database as other processes changed it */
};

/* Bytes of memory for both halves. */
enum { ET_KNOWN_BYTES = 32 << 20 };

/* The id of the name; 0: not known. */
int64_t et_known_find(struct et_known *known, const struct et_known_name *name);
/* Notes the id, > 0, of a name that is not known, if there is room. */
void et_known_note(struct et_known *known, const struct et_known_name *name, int64_t id);

/* A transaction or group of parts begins; version: a number that changes when another process writes. */
void et_known_begin(struct et_known *known, int64_t version);
/* A part of it begins. */
void et_known_begin_part(struct et_known *known);
/* The part was rolled back; all: the whole transaction. */
void et_known_undo(struct et_known *known, bool all);

/* Forgets everything. */
void et_known_clear(struct et_known *known);

#endif
