/* What `edgeprof run` prints after the program: the table of functions, the processes, threads that were not sampled.
 */
#ifndef ET_RUN_RESULT_H
#define ET_RUN_RESULT_H

#include "tools/cmd/options.h"
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
    struct et_server *server;
    enum et_target target; /* unless it is fine, a line was printed */
    pid_t pid;
    uint64_t used_ns; /* CPU time of the program and of all descendants that were waited for */
    bool said;        /* the program's profiler reported why there is no profile */
};

/* Prints the result and writes the files that the options ask for. Returns an exit code; reports errors. */
int et_run_print_result(const struct et_run_command *run);

#endif
