/*
 * Symbol files from debuginfod servers, one after the other.
 *
 * A file is kept in a folder (symstore.h) of at most 2 GiB, if it is ELF of the requested build id. A file that no
 * server has is requested again after an hour, and a server that failed after a minute.
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
