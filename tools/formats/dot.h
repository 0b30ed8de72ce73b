/* A profile as a graph for Graphviz, as Pyroscope and `go tool pprof -dot` draw it. */
#ifndef ET_DOT_H
#define ET_DOT_H

#include "tools/formats/pprof_read.h"

/* Appends the graph of the profile's last sample type: one node a function, at most max_nodes of them. Appends nothing
 * for a profile without samples. */
void et_dot(const et_pprof *pprof, size_t max_nodes, struct et_buf *out);

#endif
