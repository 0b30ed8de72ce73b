/* Profiles in files, for every command that shows one. messages.h says which formats there are. */
#ifndef ET_PROFILE_FILE_H
#define ET_PROFILE_FILE_H

#include "tools/cmd/options.h"

/* For help texts. */
#define ET_FILE_FORMATS                                                                                                \
    "FILE has compact or pprof messages, folded text, the text of `perf script`, speedscope's JSON, or a CPU or heap " \
    "profile of gperftools, gzipped or not; - is standard input."

/* Reads what the query selects of a file, not symbolized. Returns an exit code; reports errors and ET_NO_DATA. */
int et_profile_file_read(const char *path, const struct et_query *query, struct et_profile **profile);

/* Reads the profile of the query options, of the file or without one of the database or server, and symbolizes it. path
 * NULL: no file. Returns an exit code; reports errors, ET_NO_DATA, and a file together with --db or --url. */
int et_profile_load(const char *command, const struct et_options *options, const char *path,
                    struct et_profile **profile);

/* Writes that profile to the files of -o, --pprof and --folded: `export`, and `cat` with such an option. Returns an
 * exit code. */
int et_export(const char *command, struct et_options *options, const char *path);

/* Takes the command's FILE from the arguments, if there is one. Returns ET_USAGE and reports an error when more follow.
 */
int et_profile_argument(int argc, char **argv, struct et_options *options, const char **path);

#endif
