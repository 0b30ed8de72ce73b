/* Checks whether the profiler can be preloaded into the program of `edgeprof run`. */
#ifndef ET_TARGET_H
#define ET_TARGET_H

#include "tools/lib/util.h"

enum et_target {
    ET_TARGET_FINE,    /* it can, or it is unknown */
    ET_TARGET_PASSES,  /* it cannot, but LD_PRELOAD is harmless and applies to programs it starts */
    ET_TARGET_REFUSES, /* it cannot; with LD_PRELOAD it would not start, or its dynamic linker would report errors */
};

/* Returns the program that argv runs: argv[0], or what the dynamic linker is told to run ("ld-linux... ./app"). argv
 * ends with NULL. */
const char *et_target_program(char **argv);

/* Checks the file that execvp() finds for `command`, and a script's interpreter. preload: the profiler's path. Unless
 * ET_TARGET_FINE, appends one line without line end to why: the obstacle and what to do. */
enum et_target et_target_look(const char *command, const char *preload, struct et_buf *why);

#endif
