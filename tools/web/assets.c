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
INCLUDE(address, "address.js");
INCLUDE(api, "api.js");
INCLUDE(app, "app.js");
INCLUDE(brush, "brush.js");
INCLUDE(callers, "callers.js");
INCLUDE(colors, "colors.js");
INCLUDE(crashes, "crashes.js");
INCLUDE(devices, "devices.js");
INCLUDE(diff, "diff.js");
INCLUDE(dom, "dom.js");
INCLUDE(figures, "figures.js");
INCLUDE(first, "first.js");
INCLUDE(flame, "flame.js");
INCLUDE(format, "format.js");
INCLUDE(functions, "functions.js");
INCLUDE(keyboard, "keyboard.js");
INCLUDE(leaks, "leaks.js");
INCLUDE(lanes, "lanes.js");
INCLUDE(incidents, "incidents.js");
INCLUDE(profile, "profile.js");
INCLUDE(query, "query.js");
INCLUDE(selection, "selection.js");
INCLUDE(selector, "selector.js");
INCLUDE(spans, "spans.js");
INCLUDE(table, "table.js");
INCLUDE(theme, "theme.js");
INCLUDE(timeline, "timeline.js");
INCLUDE(verdict, "verdict.js");
INCLUDE(viewer, "viewer.js");
INCLUDE(bundle, "viewer-alone.js");
INCLUDE(icon, "icon.svg");
INCLUDE(d3, "d3.js");
INCLUDE(flamegraph, "d3-flamegraph.js");

#define ASSET(path, type, symbol)                                                                                      \
    {                                                                                                                  \
        path, type, et_asset_##symbol, et_asset_##symbol##_end                                                         \
    }

#define SCRIPT "text/javascript; charset=utf-8"

static const struct et_asset assets[] = {
    ASSET("/", "text/html; charset=utf-8", index),
    ASSET("/style.css", "text/css; charset=utf-8", style),
    ASSET("/address.js", SCRIPT, address),
    ASSET("/api.js", SCRIPT, api),
    ASSET("/app.js", SCRIPT, app),
    ASSET("/brush.js", SCRIPT, brush),
    ASSET("/callers.js", SCRIPT, callers),
    ASSET("/colors.js", SCRIPT, colors),
    ASSET("/crashes.js", SCRIPT, crashes),
    ASSET("/devices.js", SCRIPT, devices),
    ASSET("/diff.js", SCRIPT, diff),
    ASSET("/dom.js", SCRIPT, dom),
    ASSET("/figures.js", SCRIPT, figures),
    ASSET("/first.js", SCRIPT, first),
    ASSET("/flame.js", SCRIPT, flame),
    ASSET("/format.js", SCRIPT, format),
    ASSET("/functions.js", SCRIPT, functions),
    ASSET("/keyboard.js", SCRIPT, keyboard),
    ASSET("/leaks.js", SCRIPT, leaks),
    ASSET("/lanes.js", SCRIPT, lanes),
    ASSET("/incidents.js", SCRIPT, incidents),
    ASSET("/profile.js", SCRIPT, profile),
    ASSET("/query.js", SCRIPT, query),
    ASSET("/selection.js", SCRIPT, selection),
    ASSET("/selector.js", SCRIPT, selector),
    ASSET("/spans.js", SCRIPT, spans),
    ASSET("/table.js", SCRIPT, table),
    ASSET("/theme.js", SCRIPT, theme),
    ASSET("/timeline.js", SCRIPT, timeline),
    ASSET("/verdict.js", SCRIPT, verdict),
    ASSET("/viewer.js", SCRIPT, viewer),
    ASSET("/icon.svg", "image/svg+xml", icon),
    ASSET("/d3.js", SCRIPT, d3),
    ASSET("/d3-flamegraph.js", SCRIPT, flamegraph),
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
