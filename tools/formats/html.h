/*
 * Flame graphs as files that need nothing else.
 */
#ifndef ET_HTML_H
#define ET_HTML_H

#include "tools/profile/tree.h"

/* The page's viewer with the profile in it: search, zoom, table. */
void et_flame_html(const struct et_profile *profile, struct et_buf *out);

/* A picture; names and figures are shown by pointing at a frame. */
void et_flame_svg(const struct et_profile *profile, struct et_buf *out);

#endif
