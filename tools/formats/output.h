/* Writes a profile to a file in one of the supported formats. */
#ifndef ET_OUTPUT_H
#define ET_OUTPUT_H

#include "tools/profile/profile.h"

enum et_format {
    ET_FORMAT_NONE,
    ET_FORMAT_PPROF, /* gzipped, with names and labels */
    ET_FORMAT_FOLDED,
    ET_FORMAT_SPEEDSCOPE,
    ET_FORMAT_SVG,
    ET_FORMAT_HTML,
    ET_FORMAT_JSON, /* as /api/profile returns it */
};

/* For help texts and error messages. */
#define ET_FORMATS "pprof, folded, speedscope, svg, html or json"
#define ET_ENDINGS ".pb.gz, .pprof, .folded, .speedscope.json, .svg, .html or .json"

/* ET_FORMAT_NONE: unknown name or ending. */
enum et_format et_format_named(const char *name);
enum et_format et_format_of_file(const char *path);

/* SVG or HTML. Reports an error for other endings. */
enum et_format et_flame_format(const char *path);

/* Appends a symbolized profile in that format; not ET_FORMAT_NONE. */
void et_output_make(const struct et_profile *profile, enum et_format format, struct et_buf *out);

/* Writes a symbolized profile to path; "-" is standard output. Reports errors; returns an exit code. */
int et_output_write(const struct et_profile *profile, enum et_format format, const char *path);

#endif
