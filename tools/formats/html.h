/* Flame graphs as self-contained files. */
#ifndef ET_HTML_H
#define ET_HTML_H

#include "tools/profile/tree.h"

/* The web page's viewer with the profile: search, zoom, table. */
void et_flame_html(const struct et_profile *profile, struct et_buf *out);

/* An SVG image; a tooltip shows each frame's name and value. */
void et_flame_svg(const struct et_profile *profile, struct et_buf *out);

#endif
