/*
 * The program that `edgeprof run` is to start: whether the profiler can be preloaded into it.
 */
#ifndef ET_TARGET_H
#define ET_TARGET_H

#include "tools/lib/util.h"

enum et_target {
    ET_TARGET_FINE,    /* it can, or nothing is known */
    ET_TARGET_PASSES,  /* it cannot, and LD_PRELOAD does no harm: programs that this one starts may take it */
    ET_TARGET_REFUSES, /* it cannot, and with LD_PRELOAD it would not start, or its dynamic linker would complain */
};

/* Looks at the file that `command` names, as execvp() finds it, and behind `#!` at the interpreter. preload: the
 * profiler's path. Unless ET_TARGET_FINE, one line without an end is added to why: what is in the way and what to do.
 */
enum et_target et_target_look(const char *command, const char *preload, struct et_buf *why);

#endif
