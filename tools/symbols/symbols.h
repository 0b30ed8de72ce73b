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

/* What there is for a module: et_symfile_quality(), 0 nothing; path (NULL: not asked for) gets the file's. Context: any
 * thread. */
unsigned et_symbols_quality(struct et_symbols *symbols, const char *build_id, const char *module, struct et_buf *path);

/* Gives every frame of the profile at least one line. Answers are remembered. One thread at a time, others wait: libdw
 * wants it so. Not while a debuginfod server is asked: others then get what is here. Context: any thread. */
void et_symbolize(struct et_symbols *symbols, struct et_profile *profile);
/* The same, but others wait for the server's answer, too: for names that cannot be corrected later. */
void et_symbolize_waiting(struct et_symbols *symbols, struct et_profile *profile);

#endif
