/*
 * The thread of `serve` that compares the newest version of each service with the one before, and looks for leaks, at
 * intervals, for /metrics. It reads the last seven days, one service at a time.
 */
#ifndef ET_JUDGE_H
#define ET_JUDGE_H

#include "tools/serve/http/http.h"

struct et_judge;

/* every_ns: between two rounds; 0: never, and the result is NULL. NULL is also a failure, reported on stderr. */
struct et_judge *et_judge_start(struct et_server *server, int64_t every_ns);
/* Waits for the comparison in progress, at most 20 s. judge may be NULL. */
void et_judge_stop(struct et_judge *judge);

/* Writes the metrics of the last round. judge may be NULL. Context: any thread. */
void et_judge_metrics(struct et_judge *judge, struct et_buf *out);

#endif
