/*
 * Files of other profilers become pprof, so that every command reads them as it reads pprof: the text of `perf script`,
 * speedscope's JSON, and gperftools' CPU and heap profiles. The content tells the format, not the file's name.
 */
#ifndef ET_FOREIGN_H
#define ET_FOREIGN_H

#include "tools/lib/util.h"

enum et_foreign {
    ET_FOREIGN_NONE, /* another format */
    ET_FOREIGN_PERF,
    ET_FOREIGN_SPEEDSCOPE,
    ET_FOREIGN_CPU,  /* gperftools */
    ET_FOREIGN_HEAP, /* gperftools */
};

/* Looks at the beginning of an inflated file, and for speedscope at all of it. */
enum et_foreign et_foreign_recognize(const char *bytes, size_t size);

/* Appends the file as uncompressed pprof. False: it is damaged or has no samples, *why says where and how. True and
 * *why not empty: what was left out.
 *
 * perf script  a kind for each event: `cpu` for cpu-clock and task-clock, else the event's name; label thread=COMM
 * speedscope   a kind for each unit, or the kind that edgeprof wrote; label thread=NAME when there are several profiles
 * CPU          the kind cpu; addresses, with the files of the process's map
 * heap         the kinds live and alloc, unsampled; addresses likewise
 */
bool et_foreign_read(enum et_foreign format, const char *bytes, size_t size, struct et_buf *pprof, struct et_buf *why);

#endif
