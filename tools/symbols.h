/*
 * Names for addresses: function, file and line from ELF and DWARF files, found by GNU build id.
 *
 * Nothing about a file is trusted: one that cannot be read or makes no sense costs one line on stderr, once, and its
 * frames are shown as module+0x1234.
 */
#ifndef ET_SYMBOLS_H
#define ET_SYMBOLS_H

#include "profile.h"

struct et_symbols;

struct et_symbols *et_symbols_new(void);
void et_symbols_free(struct et_symbols *symbols);

/* Searches folder (and below) for symbol files, when one is first needed. */
void et_symbols_add_folder(struct et_symbols *symbols, const char *folder);

/* Gives every frame of the profile at least one line. Answers are remembered. One thread at a time, others wait: libdw
 * wants it so. Context: any thread. */
void et_symbolize(struct et_symbols *symbols, struct et_profile *profile);

#endif
