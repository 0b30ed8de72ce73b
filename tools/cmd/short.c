/*
 * See short.h. A forked process is profiled after 100 ms of CPU time, and never for what the kernel does at its end. A
 * sample stands for a period, in which a thread may end. The kernel has the exact sum of all processes that were waited
 * for, so the difference is known exactly and nothing counts twice.
 */
#include "tools/cmd/short.h"
#include "tools/formats/compact.h"
#include "tools/lib/kinds.h"
#include "tools/lib/time_text.h"
#include "tools/store/store.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

enum { LEAST_NS = 4000000, LEAST_PART = 100, ENDS_NS = 2 * LEAST_NS, CHANCE_PART = 10 };

/* What the profiles say. chance_ns: a period of each of their threads, and the start and the end of their processes. */
struct told {
    uint64_t sum_ns, own_ns, chance_ns;
    unsigned processes;
};

/* The sum of the run's CPU profiles, losses included. */
static int sum_profiles(struct et_store *store, const struct et_query *query, struct told *told)
{
    struct et_timeline sums = {0};
    int err = et_store_series(store, query, query->to_ns - query->from_ns, &sums);
    for (size_t i = 0; !err && i < sums.line_count; i++) {
        told->sum_ns += sums.lines[i].total;
    }
    if (!err) {
        et_timeline_free(&sums);
    }
    return err;
}

static void add_process(void *context, const struct et_origin_row *row)
{
    struct told *told = context;
    Edgeprof__V1__Stats *stats = row->stats ? edgeprof__v1__stats__unpack(NULL, row->stats_size, row->stats) : NULL;
    if (stats) {
        told->processes++;
        told->own_ns += stats->collect_ns + stats->deliver_ns;
        told->chance_ns += ENDS_NS;
        if (stats->samples) {
            told->chance_ns += stats->weight_ns / stats->samples * (stats->threads ? stats->threads : 1);
        }
        edgeprof__v1__stats__free_unpacked(stats, NULL);
    }
}

/* tags: "" for the command's own. */
static int add_profile(struct et_store *store, const struct et_short *run, const char *tags, const char *name,
                       uint64_t ns)
{
    char host[256] = "";
    (void)gethostname(host, sizeof host - 1);
    const struct et_origin origin = {.service = run->service,
                                     .tags = tags,
                                     .host = host,
                                     .boot_id = "",
                                     .executable = "",
                                     .arch = "",
                                     .agent = "edgeprof run",
                                     .pid = (uint32_t)run->pid};
    int64_t id = et_store_origin(store, &origin);
    int64_t frame = id < 0 ? id : et_store_frame(store, 0, 0, name, "", 0);
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
    et_stacks_add(&stored.stacks, &(struct et_stack){.node = node, .value = ns});
    int err = et_store_profile(store, &stored);
    et_stacks_free(&stored.stacks);
    return err;
}

static int add_rest(struct et_store *store, const struct et_short *run, const struct told *told)
{
    const uint64_t all = run->used_ns - told->sum_ns, most = told->own_ns < all ? told->own_ns : all,
                   own = most > LEAST_NS ? most : 0, rest = all - own;
    int err = own ? add_profile(store, run, "", "[edgeprof]", own) : 0;
    if (err || rest <= LEAST_NS) {
        return err;
    }
    /* Many processes of one sample each may lack much, and yet most of the rest is of processes without a sample. */
    const uint64_t part = told->sum_ns / CHANCE_PART, chance = told->chance_ns < part ? told->chance_ns : part;
    return run->alone || rest <= chance ? add_profile(store, run, "", "[thread exit]", rest)
                                        : add_profile(store, run, "pid=" ET_SHORT "\n", "[short processes]", rest);
}

/* Nobody waits for a process that leaves its parent, so the kernel's sum may lack its CPU time: of several processes
 * chance alone is settled. To let samples stand for less is to write all of them again, so 1 % is left. */
static int change(struct et_store *store, const struct et_short *run, const struct et_query *query)
{
    const uint64_t part = run->used_ns / LEAST_PART, least = part > LEAST_NS ? part : LEAST_NS;
    struct told told = {0};
    int err = sum_profiles(store, query, &told);
    err = err ? err : et_store_origins(store, query, add_process, &told);
    if (err || !told.sum_ns) {
        return err;
    }
    if (run->used_ns > told.sum_ns + LEAST_NS) {
        return add_rest(store, run, &told);
    }
    if (told.sum_ns > run->used_ns + least && (told.processes == 1 || told.sum_ns - run->used_ns <= told.chance_ns)) {
        err = et_store_scale(store, query, (double)run->used_ns / (double)told.sum_ns);
    }
    return err == -EBUSY ? 0 : err;
}

int et_short_add(const struct et_short *run)
{
    const char *why = "";
    const struct et_query query = {.service = run->service,
                                   .kind = ET_CPU,
                                   .from_ns = run->from_ns,
                                   .to_ns = run->to_ns,
                                   .measure = ET_MEASURE_VALUE};
    struct et_store *store = et_store_open(run->db, false, &why);
    int err = store ? et_store_begin(store) : -EIO;
    if (!err) {
        int step = change(store, run, &query);
        err = et_store_end(store, step == 0);
        err = step ? step : err;
    }
    if (err) {
        et_error("run: database %s: %s", run->db, store ? et_store_why(store) : why);
    }
    et_store_close(store);
    return err;
}
