/*
 * Symbol files from debuginfod servers, one after the other.
 *
 * What comes is kept in a folder (symstore.h), at most 2 GiB of it, and only when it is ELF of the build id that was
 * asked for. What no server has is not asked for again for an hour; a server that fails, not for a minute.
 */
#ifndef ET_DEBUGINFOD_H
#define ET_DEBUGINFOD_H

#include "tools/lib/util.h"

struct et_debuginfod;

/* urls: with blanks between. cache: a folder, made when it is needed. */
struct et_debuginfod *et_debuginfod_new(const char *urls, const char *cache);
void et_debuginfod_free(struct et_debuginfod *debuginfod);
/* Ends what is being fetched. Context: any thread. */
void et_debuginfod_stop(struct et_debuginfod *debuginfod);

/* Appends the path of the file in the cache, fetched when it is not there. false: nobody has it; what failed is said,
 * once a minute. Blocks for at most two minutes a server. Context: any thread. */
bool et_debuginfod_find(struct et_debuginfod *debuginfod, const char *build_id, struct et_buf *path);

/* Where files are kept: EDGEPROF_CACHE, else edgeprof/symbols in XDG_CACHE_HOME or ~/.cache. false: none of these is
 * set. */
bool et_debuginfod_cache(struct et_buf *folder);

#endif
