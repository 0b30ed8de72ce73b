/*
 * Names for addresses: function, file and line from ELF and DWARF files, found by GNU build id.
 *
 * Nothing about a file is trusted: one that cannot be read or makes no sense costs one line on stderr, once, and its
 * frames are shown as module+0x1234.
 */
#ifndef ET_SYMBOLS_H
#define ET_SYMBOLS_H

#include "tools/profile/profile.h"

struct et_symbols;

struct et_symbols *et_symbols_new(void);
void et_symbols_free(struct et_symbols *symbols);

/* Searches folder (and below) for symbol files, when one is first needed. */
void et_symbols_add_folder(struct et_symbols *symbols, const char *folder);

/* Looks into a folder of symstore.h, too. */
void et_symbols_set_store(struct et_symbols *symbols, const char *folder);
/* That folder; NULL: there is none. Context: any thread. */
const char *et_symbols_store(const struct et_symbols *symbols);

/* Asks debuginfod servers (blanks between) for what has no DWARF here; keeps it in the folder cache. */
void et_symbols_set_debuginfod(struct et_symbols *symbols, const char *urls, const char *cache);

/* Lets workers do what takes long, and et_symbolize() wait for at most so many ns: 0, the default, is as long as it
 * takes, in the asking thread. Context: before other threads use it. */
void et_symbols_set_wait(struct et_symbols *symbols, int64_t wait_ns);
/* Ends the work, and every waiting for it. Context: any thread. */
void et_symbols_stop(struct et_symbols *symbols);

/* Returns the facts of a module's symbol file (et_symfile_facts), 0: there is none; path (may be NULL) gets the file's.
 * Waits for it. Context: any thread. */
unsigned et_symbols_quality(struct et_symbols *symbols, const char *build_id, const char *module, struct et_buf *path);

/* Gives every frame of the profile at least one line. Answers are remembered. What is not known in time is shown as
 * module+0x1234, until it is asked for again; profile->names_pending counts such frames. Context: any thread; a profile
 * is one thread's. */
void et_symbolize(struct et_symbols *symbols, struct et_profile *profile);
/* The same for two profiles that are to be compared: a file is used for both, or for none. */
void et_symbolize_both(struct et_symbols *symbols, struct et_profile *left, struct et_profile *right);
/* The same, but waits for as long as files here take: for names that cannot be corrected later. servers: and for as
 * long as debuginfod servers take. */
void et_symbolize_waiting(struct et_symbols *symbols, struct et_profile *profile, bool servers);

#endif
