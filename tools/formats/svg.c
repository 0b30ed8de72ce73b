/* See html.h: the SVG, an icicle graph with the root on top. */
#include "tools/formats/html.h"
#include "tools/lib/kinds.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 1200, ROW = 18, TOP = 30, CHARACTER = 7 };

struct svg_drawing {
    const struct et_profile *profile;
    const struct et_tree *tree;
    double *start; /* of each call, in its unit */
    uint32_t *depth;
    struct et_buf *out;
};

static void write_escaped(struct et_buf *out, const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        switch (text[i]) {
        case '<':
            et_buf_text(out, "&lt;");
            break;
        case '>':
            et_buf_text(out, "&gt;");
            break;
        case '&':
            et_buf_text(out, "&amp;");
            break;
        case '"':
            et_buf_text(out, "&quot;");
            break;
        default:
            et_buf_char(out, text[i]);
        }
    }
}

/* Size in bytes of the first `characters` UTF-8 characters. */
static size_t prefix_size(const char *text, size_t characters)
{
    size_t size = 0;
    while (text[size] && (characters > 0 || ((uint8_t)text[size] & 0xc0) == 0x80)) {
        characters -= ((uint8_t)text[size] & 0xc0) != 0x80;
        size++;
    }
    return size;
}

/* As frameColor() of the page (tools/web/colors.js) does. module: "" if there is none; NULL: of the root. */
static void choose_color(const char *name, const char *module, char text[32])
{
    unsigned hash = 0;
    for (const char *c = name; *c; c++) {
        hash = hash * 31 + (uint8_t)*c;
    }
    static const char *const own[] = {"System.", "Microsoft.", "Internal.", "WKS::", "SVR::"};
    const char *after = name + (name[0] == 'R' && name[1] == 'h' ? name[2] == 'p' ? 3 : 2 : 0);
    bool framework = after > name && *after >= 'A' && *after <= 'Z';
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        framework = framework || strncmp(name, own[i], strlen(own[i])) == 0;
    }
    const char *slash = module ? strrchr(module, '/') : NULL;
    const char *ending = module ? strstr(slash ? slash : module, ".so") : NULL;
    while (ending && ending[3] != '\0' && ending[3] != '.') {
        ending = strstr(ending + 3, ".so");
    }
    unsigned hue = (ending ? 205 : framework ? 46 : 22) + hash % 14;
    if (name[0] == '[' || !module) {
        snprintf(text, 32, "hsl(215,12%%,%u%%)", 72 + hash % 10);
    } else {
        snprintf(text, 32, "hsl(%u,%u%%,%u%%)", hue, 72 + (hash >> 8) % 20, 64 + (hash >> 16) % 14);
    }
}

static void draw_frame(const struct svg_drawing *d, uint32_t index)
{
    const struct et_call *call = &d->tree->calls[index];
    const char *name = index ? et_text(&d->profile->strings, call->function) : "all";
    double total = (double)d->profile->total, scale = WIDTH / (total > 0 ? total : 1);
    double x = d->start[index] * scale, width = (double)call->total * scale;
    char fill[32];
    if (width < 0.3) {
        return;
    }
    const char *module = call->module ? et_text(&d->profile->strings, d->profile->modules[call->module - 1].path) : "";
    choose_color(name, index ? module : NULL, fill);
    unsigned y = TOP + d->depth[index] * ROW;
    et_buf_printf(d->out, "<g><title>");
    write_escaped(d->out, name, strlen(name));
    et_buf_printf(d->out, " %.2f%%</title><rect x=\"%.1f\" y=\"%u\" width=\"%.1f\" height=\"%d\" fill=\"%s\"/>",
                  100 * (double)call->total / (total > 0 ? total : 1), x, y, width, ROW - 1, fill);
    size_t fits = width > 3 * CHARACTER ? (size_t)((width - 6) / CHARACTER) : 0;
    if (fits) {
        size_t size = prefix_size(name, fits);
        bool cut = name[size] != '\0';
        et_buf_printf(d->out, "<text x=\"%.1f\" y=\"%u\">", x + 3, y + 13);
        write_escaped(d->out, name, cut ? prefix_size(name, fits - 1) : size);
        et_buf_text(d->out, cut ? "\xe2\x80\xa6</text>" : "</text>");
    }
    et_buf_text(d->out, "</g>\n");
}

static uint32_t place_calls(struct svg_drawing *d)
{
    uint32_t deepest = 0;
    for (uint32_t i = 0; i < d->tree->count; i++) {
        double at = d->start[i];
        for (uint32_t child = d->tree->calls[i].first_child; child; child = d->tree->calls[child].next) {
            d->start[child] = at;
            d->depth[child] = d->depth[i] + 1;
            at += (double)d->tree->calls[child].total;
        }
        deepest = d->depth[i] > deepest ? d->depth[i] : deepest;
    }
    return deepest;
}

void et_flame_svg(const struct et_profile *profile, struct et_buf *out)
{
    struct et_tree tree;
    et_tree_make(profile, ET_TREE_SHOWN, &tree);
    struct svg_drawing d = {.profile = profile, .tree = &tree, .out = out};
    d.start = et_alloc(tree.count, sizeof *d.start);
    d.depth = et_alloc(tree.count, sizeof *d.depth);
    unsigned height = TOP + (place_calls(&d) + 1) * ROW + 10;
    et_buf_printf(out,
                  "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" "
                  "viewBox=\"0 0 %d %u\" width=\"%d\" height=\"%u\" font-family=\"sans-serif\" font-size=\"12\">\n"
                  "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n<text x=\"3\" y=\"20\" font-size=\"15\">",
                  WIDTH, height, WIDTH, height);
    const char *service = et_text(&profile->strings, profile->service),
               *kind = et_text(&profile->strings, profile->kind);
    write_escaped(out, service, strlen(service));
    char total[32];
    et_value_text(profile->total, et_text(&profile->strings, profile->unit), total);
    et_buf_char(out, ' ');
    write_escaped(out, kind, strlen(kind));
    et_buf_printf(out, ": %s", total);
    et_buf_text(out, "</text>\n");
    for (uint32_t i = 0; i < tree.count; i++) {
        draw_frame(&d, i);
    }
    et_buf_text(out, "</svg>\n");
    free(d.start);
    free(d.depth);
    et_tree_free(&tree);
}
