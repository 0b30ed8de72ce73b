/*
 * Names put into a pprof file; all else in it stays as it is.
 */
#ifndef ET_PPROF_NAMES_H
#define ET_PPROF_NAMES_H

#include "tools/symbols/symbols.h"
#include "tools/formats/pprof_read.h"

/* Gives every location that has a mapping and no line its lines. Returns the number of locations for which there were
 * symbols; *without gets that of those for which there were none. */
size_t et_pprof_add_names(et_pprof *pprof, struct et_symbols *symbols, size_t *without);

#endif
