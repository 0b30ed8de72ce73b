/* The frames that a pprof's drop_frames and keep_frames leave out; for pprof_read.c. */
#ifndef ET_PPROF_DROP_H
#define ET_PPROF_DROP_H

#include "tools/formats/pprof_ids.h"
#include "tools/formats/pprof_read.h"

/* The name of a function, by its index. */
typedef const char *et_pprof_name(void *context, size_t function);

/* For each location the number of its lines, from the leaf on, that are dropped: all of them if the outermost call is,
 * too. free() it. NULL: nothing is dropped, also because an expression is invalid or takes too long. */
size_t *et_pprof_dropped(const et_pprof *pprof, const struct et_pprof_ids *functions, et_pprof_name *name,
                         void *context);

/* The sample's first location that is no dropped one or called by one. As in `go tool pprof`, a stack is not cut next
 * to the root, before its first function that is kept. */
size_t et_pprof_first_location(const et_pprof *pprof, const struct et_pprof_ids *locations, const size_t *dropped,
                               const Perftools__Profiles__Sample *sample);

#endif
