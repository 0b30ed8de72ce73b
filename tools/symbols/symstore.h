/*
 * A folder of symbol files by build id, laid out as /usr/lib/debug/.build-id is: DIR/ab/cdef01.debug.
 *
 * A file is there whole or not at all, and only under the build id that is in it. Functions that return int give 0 or
 * a negative errno value.
 */
#ifndef ET_SYMSTORE_H
#define ET_SYMSTORE_H

#include "tools/lib/util.h"

#include <stdio.h>

/* Longest build id that is taken, in hexadecimal digits, and its NUL. */
#define ET_BUILD_ID_TEXT 65

/* 2 to 64 hexadecimal digits, two a byte; lower case in id. false: it is something else. */
bool et_build_id_read(const char *text, char id[ET_BUILD_ID_TEXT]);

/* Appends where the file of a build id is. id: of et_build_id_read(). */
void et_symstore_path(const char *folder, const char *id, struct et_buf *path);

/* Whether a file is ELF, with symbols, of that build id. -EINVAL: no, *why (static) says in what way. *quality: as in
 * struct et_symfile_facts; 0 with an error. */
int et_symstore_check(const char *path, const char *id, unsigned *quality, const char **why);

/* A file on its way in. */
struct et_symstore_file {
    FILE *file;
    char *path; /* where it is until it is put in place */
};

/* Makes the folder when it is not there; its parent has to be. */
int et_symstore_begin(const char *folder, const char *id, struct et_symstore_file *file);
/* Checks what was written and puts it in place, or takes it away. 1: what is there already is as good, and is kept;
 * -EINVAL: refused, *why. */
int et_symstore_commit(const char *folder, const char *id, struct et_symstore_file *file, const char **why);
void et_symstore_abort(struct et_symstore_file *file);

/* All of it at once; as et_symstore_commit(). */
int et_symstore_put(const char *folder, const char *id, const void *bytes, size_t size, const char **why);

/* Calls file() for each that has the name of one, in no order. */
struct et_symstore_entry {
    const char *id, *path;
    uint64_t size;
    int64_t used_ns; /* when it was last put in place or touched */
};
int et_symstore_each(const char *folder, void (*file)(void *context, const struct et_symstore_entry *entry),
                     void *context);

/* {"symbols": [{"build_id", "bytes", "symbols": et_symbols_words()}]}, sorted; a folder that is not there is empty. */
int et_symstore_json(const char *folder, struct et_buf *out);

/* Removes a file or a folder with all that is in it. */
void et_symstore_remove(const char *path);
/* Removes from a folder what has that start and ending and is at least so old. */
void et_symstore_remove_old(const char *folder, const char *start, const char *ending, int64_t seconds);
/* What is on its way in is not written to for so long only if its process has ended. */
enum { ET_LEFT_SECONDS = 1800 };

/* "DWARF", "symbol table", "dynamic symbols" or "no symbols": the best of that quality. */
const char *et_symbols_words(unsigned quality);

#endif
