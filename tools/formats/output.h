/*
 * A profile as a file in one of the formats that others read.
 */
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
    ET_FORMAT_JSON, /* as /api/profile has it */
};

/* For help texts and complaints. */
#define ET_FORMATS "pprof, folded, speedscope, svg, html or json"
#define ET_ENDINGS ".pb.gz, .pprof, .folded, .speedscope.json, .svg, .html or .json"

/* ET_FORMAT_NONE: there is none of that name, or the file's ending says nothing. */
enum et_format et_format_named(const char *name);
enum et_format et_format_of_file(const char *path);

/* SVG or HTML; of other files it says that they are no flame graphs. */
enum et_format et_flame_format(const char *path);

/* Writes a symbolized profile to path, "-" is standard output. An exit code, all is said. */
int et_output_write(const struct et_profile *profile, enum et_format format, const char *path);

#endif
