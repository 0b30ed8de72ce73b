/*
 * Where a module's symbols are on this machine, best quality first, all checked by build id:
 *   1. files in the folders that were given        2. the module's own path on this machine, and path.dbg beside it
 *   3. the symbol store, /usr/lib/debug/.build-id
 * A module without build id is only believed when it has none on this machine either.
 */
#ifndef ET_PLACES_H
#define ET_PLACES_H

#include "tools/symbols/symfile.h"

struct et_places;

/* Ends every complaint about a file that is not there. */
#define ET_PLACES_HINT "--symbols searches a folder for it, --debuginfod asks a server"

struct et_places *et_places_new(void);
void et_places_free(struct et_places *places);

/* Searches folder (and below) for symbol files, when one is first needed. Context: before other threads use it. */
void et_places_add_folder(struct et_places *places, const char *folder);
/* Looks into a folder of symstore.h, too. Context: as above. */
void et_places_set_store(struct et_places *places, const char *folder);
/* The folder that files from debuginfod servers are kept in. Context: as above. */
void et_places_set_cache(struct et_places *places, const char *folder);
/* The folder of et_places_set_store(); NULL: there is none. Context: any thread. */
const char *et_places_store(const struct et_places *places);

/* Files that were opened, and what was really read of them. */
struct et_tried {
    struct et_tried_file {
        char *path;
        unsigned quality;
    } files[4];
    size_t count;
};

/* A file; zeroed: none. The caller frees the path. */
struct et_choice {
    const struct et_tried *tried; /* NULL: no file was opened */
    char *path;
    unsigned quality;    /* as in struct et_symfile_facts */
    char debuglink[256]; /* the same */
    bool broken;         /* there was one whose process ended, and that was said */
};

/* Takes the best file that there is, if it is better than *best. Reads folders: may take long, and then others that
 * look for a file wait. Context: any thread. */
void et_places_find(struct et_places *places, const char *build_id, const char *path, struct et_choice *best);
/* Takes the file of this path if its build id is the same and it is better than *best. Context: any thread. */
void et_places_consider(struct et_choice *best, const char *path, const char *build_id);

/* Where a companion of a file may be: appends the index'th path, the likeliest first. file: the path of the one that
 * lacks it; module: the path that senders have. False: there is no more. Context: any thread. */
bool et_places_companion(struct et_places *places, const struct et_companion *companion, const char *file,
                         const char *module, size_t index, struct et_buf *path);

/* Says a line once: "symbols: PATH: WORDS". Context: any thread. */
void et_places_say(struct et_places *places, const char *path, const char *words);
/* Says once that this file's frames have no names. Context: any thread. */
void et_places_complain(struct et_places *places, const char *path, const char *why);

#endif
