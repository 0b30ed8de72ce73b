/*
 * See assets.h. The assembler includes the files as they are; which ones there are is told twice, here and in
 * tools.mk's prerequisites of this object.
 */
#include "assets.h"

#include <string.h>

#define INCLUDE(symbol, file)                                                                                          \
    __asm__(".section .rodata\n.balign 16\n"                                                                           \
            ".global et_asset_" #symbol "\net_asset_" #symbol ":\n.incbin \"" file "\"\n"                              \
            ".global et_asset_" #symbol "_end\net_asset_" #symbol "_end:\n.byte 0\n.previous\n");                      \
    extern const unsigned char et_asset_##symbol[], et_asset_##symbol##_end[]

INCLUDE(index, "index.html");
INCLUDE(style, "style.css");
INCLUDE(app, "app.js");
INCLUDE(viewer, "viewer.js");
INCLUDE(icon, "icon.svg");
INCLUDE(d3, "node_modules/d3/dist/d3.min.js");
INCLUDE(flamegraph, "d3-flamegraph.js");

#define ASSET(path, type, symbol)                                                                                      \
    {                                                                                                                  \
        path, type, et_asset_##symbol, et_asset_##symbol##_end                                                         \
    }

static const struct et_asset assets[] = {
    ASSET("/", "text/html; charset=utf-8", index),
    ASSET("/style.css", "text/css; charset=utf-8", style),
    ASSET("/app.js", "text/javascript; charset=utf-8", app),
    ASSET("/viewer.js", "text/javascript; charset=utf-8", viewer),
    ASSET("/icon.svg", "image/svg+xml", icon),
    ASSET("/d3.js", "text/javascript; charset=utf-8", d3),
    ASSET("/d3-flamegraph.js", "text/javascript; charset=utf-8", flamegraph),
};

const struct et_asset *et_asset(const char *path)
{
    for (size_t i = 0; i < sizeof assets / sizeof *assets; i++) {
        if (strcmp(assets[i].path, path) == 0) {
            return &assets[i];
        }
    }
    return NULL;
}
