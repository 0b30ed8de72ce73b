/* See html.h. svg.c draws the SVG. */
#include "tools/formats/html.h"
#include "tools/web/assets.h"
#include "tools/formats/json.h"

/* The page loads nothing from elsewhere. Names are text in a JSON element that is not executed. */
static const char HEAD[] =
    "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'unsafe-inline'; "
    "style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'\">\n"
    "<meta name=\"generator\" content=\"edgeprof " EP_VERSION_TEXT "\">\n<title>edgeprof</title>\n<style>\n";
static const char BODY[] =
    "</style>\n</head>\n<body>\n<header><span class=\"brand\">edgeprof</span> <span id=\"title\"></span>"
    "</header>\n<main><div id=\"viewer\"></div></main>\n"
    "<script type=\"application/json\" id=\"edgeprof-profile\">\n";

static void add_asset(struct et_buf *out, const char *path)
{
    const struct et_asset *found = et_asset(path);
    et_buf_add(out, found->start, (size_t)(found->end - found->start));
}

void et_flame_html(const struct et_profile *profile, struct et_buf *out)
{
    et_buf_text(out, HEAD);
    add_asset(out, "/style.css");
    et_buf_text(out, BODY);
    et_json_profile(out, profile, 2000);
    et_buf_text(out, "</script>\n<script type=\"module\">\n");
    add_asset(out, "viewer-alone.js");
    et_buf_text(out, "</script>\n</body>\n</html>\n");
}
