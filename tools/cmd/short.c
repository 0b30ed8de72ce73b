/*
 * See short.h. A forked process is profiled after 100 ms of CPU time, and never for what the kernel does at its end.
 * The kernel has the exact sum of all processes that were waited for, so the rest is known exactly and nothing counts
 * twice.
 */
#include "tools/cmd/short.h"
#include "tools/lib/kinds.h"
#include "tools/lib/time_text.h"
#include "tools/store/store.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

enum { LEAST_NS = 20000000, LEAST_PART = 100 };

/* The sum of the run's CPU profiles, losses included. */
static int profiled_ns(struct et_store *store, const struct et_short *run, uint64_t *sum)
{
    const struct et_query query = {.service = run->service,
                                   .kind = ET_CPU,
                                   .from_ns = run->from_ns,
                                   .to_ns = run->to_ns,
                                   .measure = ET_MEASURE_VALUE};
    struct et_timeline sums = {0};
    int err = et_store_series(store, &query, run->to_ns - run->from_ns, &sums);
    *sum = 0;
    for (size_t i = 0; !err && i < sums.line_count; i++) {
        *sum += sums.lines[i].total;
    }
    if (!err) {
        et_timeline_free(&sums);
    }
    return err;
}

static int add_profile(struct et_store *store, const struct et_short *run, uint64_t rest_ns)
{
    char host[256] = "";
    (void)gethostname(host, sizeof host - 1);
    const struct et_origin origin = {.service = run->service,
                                     .tags = "pid=" ET_SHORT "\n",
                                     .host = host,
                                     .boot_id = "",
                                     .executable = "",
                                     .arch = "",
                                     .agent = "edgeprof run",
                                     .pid = (uint32_t)run->pid};
    int64_t id = et_store_origin(store, &origin);
    int64_t frame = id < 0 ? id : et_store_frame(store, 0, 0, "[short processes]", "", 0);
    int64_t node = frame < 0 ? frame : et_store_node(store, 0, frame);
    if (node < 0) {
        return (int)node;
    }
    struct et_stored stored = {.origin = id,
                               .kind = ET_CPU,
                               .unit = "nanoseconds",
                               .start_ns = run->to_ns - 2,
                               .end_ns = run->to_ns - 1,
                               .quantum = 1,
                               .stacks.columns = ET_COLUMN_VALUE};
    et_stacks_add(&stored.stacks, &(struct et_stack){.node = node, .value = rest_ns});
    int err = et_store_profile(store, &stored);
    et_stacks_free(&stored.stacks);
    return err;
}

int et_short_add(const struct et_short *run)
{
    const char *why = "";
    uint64_t sum = 0;
    struct et_store *store = et_store_open(run->db, false, &why);
    int err = store ? profiled_ns(store, run, &sum) : -EIO;
    uint64_t rest = run->used_ns > sum ? run->used_ns - sum : 0;
    if (!err && sum && rest >= LEAST_NS && rest >= run->used_ns / LEAST_PART) {
        err = et_store_begin(store);
        int step = err ? err : add_profile(store, run, rest);
        err = err ? err : et_store_end(store, step == 0);
        err = step ? step : err;
    }
    if (err) {
        et_error("run: database %s: %s", run->db, store ? et_store_why(store) : why);
    }
    et_store_close(store);
    return err;
}
