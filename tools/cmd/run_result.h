/* What `edgeprof run` prints after the program: the table of functions, the processes, threads that were not sampled.
 */
#ifndef ET_RUN_RESULT_H
#define ET_RUN_RESULT_H

#include "tools/cmd/options.h"
#include "tools/cmd/outlived.h"
#include "tools/cmd/target.h"
#include "tools/serve/start.h"

#include <limits.h>
#include <sys/types.h>

enum { ET_RUN_FAILED = 125 }; /* exit code: edgeprof failed */

struct et_run_command {
    const struct et_options *options;
    char **command;
    const char *service;
    char preload[PATH_MAX];
    char folder[PATH_MAX / 2]; /* for a temporary database; "" when --db is given */
    char db[PATH_MAX];
    struct et_server *server; /* NULL: that of --url */
    char token[33];           /* that the server wants; the program has it in its environment */
    struct et_outlived outlived;
    char **environment;    /* of the program */
    enum et_target target; /* unless it is fine, a line was printed */
    pid_t pid;
    bool by_signal;   /* a signal ended the program */
    uint64_t used_ns; /* CPU time of the program and of all descendants that were waited for */
    bool alone;       /* no descendant that was waited for has used CPU time */
    bool said;        /* the program's profiler reported why there is no profile */
};

/* Returns the level at which the program runs: the option's, or the lowest from medium on that records the kind. */
const char *et_run_level(const struct et_options *options);

/* Prints the result and writes the files that the options ask for. Returns an exit code; reports errors. */
int et_run_print_result(const struct et_run_command *run);

#endif
