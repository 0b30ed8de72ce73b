/* The web page, built into the tool: files of tools/web and of the npm packages. */
#ifndef ET_ASSETS_H
#define ET_ASSETS_H

#include <stddef.h>

struct et_asset {
    const char *path; /* "/page.js"; "/" is the page itself */
    const char *type;
    const unsigned char *start, *end;
};

/* NULL: no such file. */
const struct et_asset *et_asset(const char *path);

#endif
