/*
 * See assets.h. The assembler includes the files unchanged. The list of files is here and in the prerequisites of this
 * object in tools.mk.
 */
#include "tools/web/assets.h"

#include <string.h>

#define INCLUDE(symbol, file)                                                                                          \
    __asm__(".section .rodata\n.balign 16\n"                                                                           \
            ".global et_asset_" #symbol "\net_asset_" #symbol ":\n.incbin \"" file "\"\n"                              \
            ".global et_asset_" #symbol "_end\net_asset_" #symbol "_end:\n.byte 0\n.previous\n");                      \
    extern const unsigned char et_asset_##symbol[], et_asset_##symbol##_end[]

INCLUDE(index, "index.html");
INCLUDE(style, "style.css");
INCLUDE(page, "page.js");
INCLUDE(theme, "theme.js");
INCLUDE(bundle, "viewer-alone.js");
INCLUDE(icon, "icon.svg");

#define ASSET(path, type, symbol)                                                                                      \
    {                                                                                                                  \
        path, type, et_asset_##symbol, et_asset_##symbol##_end                                                         \
    }

#define SCRIPT "text/javascript; charset=utf-8"

static const struct et_asset assets[] = {
    ASSET("/", "text/html; charset=utf-8", index),
    ASSET("/style.css", "text/css; charset=utf-8", style),
    ASSET("/page.js", SCRIPT, page),
    ASSET("/theme.js", SCRIPT, theme),
    ASSET("/icon.svg", "image/svg+xml", icon),
    ASSET("viewer-alone.js", SCRIPT, bundle), /* only for self-contained files: no request has a path without '/' */
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
