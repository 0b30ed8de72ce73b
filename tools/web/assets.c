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
INCLUDE(colors, "colors.js");
INCLUDE(crashes, "crashes.js");
INCLUDE(devices, "devices.js");
INCLUDE(diff, "diff.js");
INCLUDE(dom, "dom.js");
INCLUDE(figures, "figures.js");
INCLUDE(first, "first.js");
INCLUDE(flame, "flame.js");
INCLUDE(flame_canvas, "flame_canvas.js");
INCLUDE(flame_input, "flame_input.js");
INCLUDE(flame_layout, "flame_layout.js");
INCLUDE(flame_menu, "flame_menu.js");
INCLUDE(flame_search, "flame_search.js");
INCLUDE(flame_svg, "flame_svg.js");
INCLUDE(flame_tree, "flame_tree.js");
INCLUDE(format, "format.js");
INCLUDE(frames, "frames.js");
INCLUDE(functions, "functions.js");
INCLUDE(heat, "heat.js");
INCLUDE(incidents, "incidents.js");
INCLUDE(keyboard, "keyboard.js");
INCLUDE(labels, "labels.js");
INCLUDE(lanes, "lanes.js");
INCLUDE(leaks, "leaks.js");
INCLUDE(marks, "marks.js");
INCLUDE(meaning, "meaning.js");
INCLUDE(menu, "menu.js");
INCLUDE(profile, "profile.js");
INCLUDE(query, "query.js");
INCLUDE(sandwich, "sandwich.js");
INCLUDE(selection, "selection.js");
INCLUDE(selector, "selector.js");
INCLUDE(spans, "spans.js");
INCLUDE(spark, "spark.js");
INCLUDE(start, "start.js");
INCLUDE(table, "table.js");
INCLUDE(theme, "theme.js");
INCLUDE(ticks, "ticks.js");
INCLUDE(timeline, "timeline.js");
INCLUDE(unnamed, "unnamed.js");
INCLUDE(verdict, "verdict.js");
INCLUDE(viewer, "viewer.js");
INCLUDE(wheel, "wheel.js");
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
    ASSET("/address.js", SCRIPT, address),
    ASSET("/api.js", SCRIPT, api),
    ASSET("/app.js", SCRIPT, app),
    ASSET("/brush.js", SCRIPT, brush),
    ASSET("/colors.js", SCRIPT, colors),
    ASSET("/crashes.js", SCRIPT, crashes),
    ASSET("/devices.js", SCRIPT, devices),
    ASSET("/diff.js", SCRIPT, diff),
    ASSET("/dom.js", SCRIPT, dom),
    ASSET("/figures.js", SCRIPT, figures),
    ASSET("/first.js", SCRIPT, first),
    ASSET("/flame.js", SCRIPT, flame),
    ASSET("/flame_canvas.js", SCRIPT, flame_canvas),
    ASSET("/flame_input.js", SCRIPT, flame_input),
    ASSET("/flame_layout.js", SCRIPT, flame_layout),
    ASSET("/flame_menu.js", SCRIPT, flame_menu),
    ASSET("/flame_search.js", SCRIPT, flame_search),
    ASSET("/flame_svg.js", SCRIPT, flame_svg),
    ASSET("/flame_tree.js", SCRIPT, flame_tree),
    ASSET("/format.js", SCRIPT, format),
    ASSET("/frames.js", SCRIPT, frames),
    ASSET("/functions.js", SCRIPT, functions),
    ASSET("/heat.js", SCRIPT, heat),
    ASSET("/incidents.js", SCRIPT, incidents),
    ASSET("/keyboard.js", SCRIPT, keyboard),
    ASSET("/labels.js", SCRIPT, labels),
    ASSET("/lanes.js", SCRIPT, lanes),
    ASSET("/leaks.js", SCRIPT, leaks),
    ASSET("/marks.js", SCRIPT, marks),
    ASSET("/meaning.js", SCRIPT, meaning),
    ASSET("/menu.js", SCRIPT, menu),
    ASSET("/profile.js", SCRIPT, profile),
    ASSET("/query.js", SCRIPT, query),
    ASSET("/sandwich.js", SCRIPT, sandwich),
    ASSET("/selection.js", SCRIPT, selection),
    ASSET("/selector.js", SCRIPT, selector),
    ASSET("/spans.js", SCRIPT, spans),
    ASSET("/spark.js", SCRIPT, spark),
    ASSET("/start.js", SCRIPT, start),
    ASSET("/table.js", SCRIPT, table),
    ASSET("/theme.js", SCRIPT, theme),
    ASSET("/ticks.js", SCRIPT, ticks),
    ASSET("/timeline.js", SCRIPT, timeline),
    ASSET("/unnamed.js", SCRIPT, unnamed),
    ASSET("/verdict.js", SCRIPT, verdict),
    ASSET("/viewer.js", SCRIPT, viewer),
    ASSET("/wheel.js", SCRIPT, wheel),
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
