/* See output.h. */
#include "tools/formats/output.h"
#include "tools/formats/html.h"
#include "tools/lib/gzip.h"
#include "tools/lib/progress.h"
#include "tools/formats/json.h"
#include "tools/formats/report.h"
#include "tools/formats/speedscope.h"
#include "tools/formats/pprof_read.h"

#include <errno.h>
#include <string.h>

enum { JSON_ROWS = 2000 };

static const struct {
    const char *ending;
    enum et_format format;
} endings[] = {
    /* the longer of two matching endings comes first */
    {".speedscope.json", ET_FORMAT_SPEEDSCOPE},
    {".json", ET_FORMAT_JSON},
    {".pb.gz", ET_FORMAT_PPROF},
    {".pprof", ET_FORMAT_PPROF},
    {".folded", ET_FORMAT_FOLDED},
    {".collapsed", ET_FORMAT_FOLDED},
    {".svg", ET_FORMAT_SVG},
    {".html", ET_FORMAT_HTML},
    {".htm", ET_FORMAT_HTML},
};

enum et_format et_format_named(const char *name)
{
    static const char *const names[] = {"", "pprof", "folded", "speedscope", "svg", "html", "json"};
    for (size_t i = 1; i < sizeof names / sizeof *names; i++) {
        if (strcmp(name, names[i]) == 0) {
            return (enum et_format)i;
        }
    }
    return ET_FORMAT_NONE;
}

enum et_format et_format_of_file(const char *path)
{
    size_t size = strlen(path);
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        size_t tail = strlen(endings[i].ending);
        if (size > tail && strcmp(path + size - tail, endings[i].ending) == 0) {
            return endings[i].format;
        }
    }
    return ET_FORMAT_NONE;
}

enum et_format et_flame_format(const char *path)
{
    enum et_format format = et_format_of_file(path);
    if (format == ET_FORMAT_SVG || format == ET_FORMAT_HTML) {
        return format;
    }
    et_error("flame graph %s: the ending must be .html or .svg", path);
    return ET_FORMAT_NONE;
}

static void write_pprof(const struct et_profile *profile, struct et_buf *out)
{
    struct et_buf raw = {0};
    et_pprof_encode(profile, &raw);
    et_gzip(raw.data, raw.size, out);
    et_buf_free(&raw);
}

void et_output_make(const struct et_profile *profile, enum et_format format, struct et_buf *out)
{
    switch (format) {
    case ET_FORMAT_PPROF:
        write_pprof(profile, out);
        break;
    case ET_FORMAT_FOLDED:
        et_report_folded(profile, out);
        break;
    case ET_FORMAT_SPEEDSCOPE:
        et_speedscope(profile, out);
        break;
    case ET_FORMAT_SVG:
        et_flame_svg(profile, out);
        break;
    case ET_FORMAT_HTML:
        et_flame_html(profile, out);
        break;
    default:
        et_json_profile(out, profile, JSON_ROWS);
    }
}

int et_output_write(const struct et_profile *profile, enum et_format format, const char *path)
{
    struct et_buf out = {0};
    et_output_make(profile, format, &out);
    if (strcmp(path, "-") == 0) {
        return format == ET_FORMAT_JSON ? et_print_json(&out) : et_print_bytes(&out);
    }
    int err = et_write_file(path, out.data, out.size);
    if (err) {
        et_error("%s: %s", path, strerror(-err));
    }
    et_buf_free(&out);
    return err ? ET_FAILED : ET_OK;
}
