/* The route /metrics for Prometheus. */
#include "tools/serve/judge.h"
#include "tools/serve/sandbox.h"
#include "tools/serve/webhook.h"
#include "tools/serve/query/metrics.h"
#include "tools/serve/http/rejections.h"
#include "tools/serve/relay/relay.h"
#include "tools/serve/http/routes.h"
#include "tools/serve/http/server.h"
#include "tools/store/store_keep.h"
#include "tools/symbols/reader.h"

#include <stdio.h>
#include <sys/stat.h>

static void put_server(struct et_server *server, struct et_buf *out)
{
    et_metrics_family(out, "edgeprof_build_info", "gauge", "Version of edgeprof.");
    et_metrics_sample(out, "edgeprof_build_info", "version", EP_VERSION_TEXT, NULL);
    et_metrics_number(out, 1);
    et_metrics_family(out, "edgeprof_accepted_total", "counter", "Messages accepted since the server's start.");
    et_metrics_sample(out, "edgeprof_accepted_total", NULL);
    et_metrics_number(out, et_server_accepted(server));
    et_metrics_family(out, "edgeprof_refused_total", "counter", "Messages refused since the server's start.");
    for (enum et_rejection reason = 0; reason < ET_REJECTIONS; reason++) {
        et_metrics_sample(out, "edgeprof_refused_total", "reason", et_rejection_name(reason), NULL);
        et_metrics_number(out, et_rejection_count(reason));
    }
}

static void put_sandbox(struct et_buf *out)
{
    const struct et_sandbox_state state = et_sandbox_state();
    et_metrics_family(out, "edgeprof_sandbox", "gauge", "1: the kernel limits the server's files or system calls.");
    et_metrics_sample(out, "edgeprof_sandbox", "by", "landlock", NULL);
    et_metrics_number(out, state.landlock);
    et_metrics_sample(out, "edgeprof_sandbox", "by", "seccomp", NULL);
    et_metrics_number(out, state.seccomp);
}

static void put_symbols(struct et_buf *out)
{
    et_metrics_family(out, "edgeprof_symbol_files_failed_total", "counter",
                      "Symbol files given up because reading them crashed, took too long or too much memory.");
    for (enum et_reader_failure how = 0; how < ET_READER_FAILURES; how++) {
        et_metrics_sample(out, "edgeprof_symbol_files_failed_total", "how", et_reader_failure_name(how), NULL);
        et_metrics_number(out, et_reader_failures(how));
    }
}

static void put_database(struct et_server *server, struct et_buf *out)
{
    static const char *const parts[] = {"", "-wal"};
    uint64_t bytes = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        struct et_buf path = {0};
        struct stat file;
        et_buf_printf(&path, "%s%s", et_server_db(server), parts[i]);
        bytes += stat(path.data, &file) == 0 ? (uint64_t)file.st_size : 0;
        et_buf_free(&path);
    }
    et_metrics_family(out, "edgeprof_database_bytes", "gauge", "Size of the database's files.");
    et_metrics_sample(out, "edgeprof_database_bytes", NULL);
    et_metrics_number(out, bytes);
}

static int put_deleted(struct et_store *store, struct et_buf *out)
{
    uint64_t counts[ET_DELETED_COUNT];
    int err = et_store_deleted(store, counts);
    et_metrics_family(
        out, "edgeprof_damaged_profiles", "gauge",
        "Stored profiles and sums of profiles that cannot be read and are left out, found since the start.");
    et_metrics_sample(out, "edgeprof_damaged_profiles", NULL);
    et_metrics_number(out, et_store_damaged());
    et_metrics_family(
        out, "edgeprof_deleted_total", "counter",
        "What the server deleted from its database: hours of profiles, and unused rows of its dictionary.");
    for (enum et_deleted what = 0; what < ET_DELETED_COUNT && !err; what++) {
        et_metrics_sample(out, "edgeprof_deleted_total", "what", et_deleted_name(what), NULL);
        et_metrics_number(out, counts[what]);
    }
    return err;
}

/* ---- destinations ---- */

enum { SENT, REFUSED, LOST, WAITING, FAILING, FAMILIES };

static const struct {
    const char *name, *type, *help;
} relayed[FAMILIES] = {
    [SENT] = {"edgeprof_relay_sent_total", "counter", "Profiles that a destination accepted."},
    [REFUSED] = {"edgeprof_relay_refused_total", "counter", "Profiles that a destination refused permanently."},
    [LOST] = {"edgeprof_relay_lost_total", "counter",
              "Profiles too old for the destination, or deleted before they were sent."},
    [WAITING] = {"edgeprof_relay_waiting", "gauge", "Profiles queued for the destination, counted up to 100000."},
    [FAILING] = {"edgeprof_relay_failing", "gauge", "1: the last request failed and will be retried."},
};

static void add_relay(void *context, const struct et_relay_state *state)
{
    struct et_buf *families = context;
    const uint64_t numbers[FAMILIES] = {[SENT] = state->sent,
                                        [REFUSED] = state->refused,
                                        [LOST] = state->lost,
                                        [WAITING] = (uint64_t)state->waiting,
                                        [FAILING] = state->failing};
    for (size_t i = 0; i < FAMILIES; i++) {
        et_metrics_sample(&families[i], relayed[i].name, "relay", state->name, "to", state->backend, NULL);
        et_metrics_number(&families[i], numbers[i]);
    }
}

static void put_relays(struct et_server *server, struct et_buf *out)
{
    struct et_buf families[FAMILIES] = {0};
    et_relay_each(et_server_relay(server), add_relay, families);
    for (size_t i = 0; i < FAMILIES; i++) {
        if (families[i].size) {
            et_metrics_family(out, relayed[i].name, relayed[i].type, relayed[i].help);
            et_buf_text(out, families[i].data);
        }
        et_buf_free(&families[i]);
    }
}

static void answer_metrics(struct et_server *server, const struct et_request *request, struct et_answer *answer)
{
    struct et_store *store = et_server_read(server, request);
    int err = et_metrics_store(store, &answer->body);
    err = err ? err : put_deleted(store, &answer->body);
    if (err) {
        et_answer_text(answer, et_read_status(store), et_store_why(store));
    }
    et_server_read_done(server, store);
    if (!err) {
        put_server(server, &answer->body);
        put_sandbox(&answer->body);
        put_symbols(&answer->body);
        put_database(server, &answer->body);
        put_relays(server, &answer->body);
        et_webhook_metrics(et_server_webhook(server), &answer->body);
        et_judge_metrics(et_server_judge(server), &answer->body);
        et_metrics_process(&answer->body);
        answer->type = "text/plain; version=0.0.4; charset=utf-8";
    }
}

const struct et_route et_routes_metrics[] = {
    {.method = "GET", .path = "/metrics", .handle = answer_metrics},
    {0},
};
