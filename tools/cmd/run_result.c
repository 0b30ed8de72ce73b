/* See run_result.h. */
#include "tools/cmd/run_result.h"
#include "tools/cmd/short.h"
#include "tools/formats/output.h"
#include "tools/formats/report.h"
#include "tools/formats/unsampled.h"
#include "tools/lib/kinds.h"
#include "tools/lib/time_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Processes that the user excludes are in no profile and in no sum. */
static int add_short_processes(const struct et_run_command *run)
{
    static const char *const excludes[] = {"EDGEPROF_ONLY", "EDGEPROF_SKIP", "EDGEPROF_FORK"};
    const struct et_options *options = run->options;
    bool all = !options->only.count && !options->skip.count && !options->no_fork;
    for (size_t i = 0; i < sizeof excludes / sizeof *excludes; i++) {
        all &= getenv(excludes[i]) == NULL;
    }
    return all && run->server ? et_short_add(&(struct et_short){.db = run->db,
                                                                .service = run->service,
                                                                .from_ns = options->from_ns,
                                                                .to_ns = et_now() + 1,
                                                                .used_ns = run->used_ns,
                                                                .alone = run->alone,
                                                                .pid = run->pid})
                              : 0;
}

static int load_run(const struct et_run_command *run, struct et_profile **profile)
{
    struct et_query query = run->options->wanted.query;
    query.service = run->service;
    query.from_ns = run->options->from_ns;
    query.to_ns = INT64_MAX;
    query.keep_labels = run->options->pprof != NULL;
    if (!run->server) {
        return et_options_fetch(run->options, &query, profile);
    }
    const char *why = "";
    struct et_store *store = et_store_open(run->db, false, &why);
    int err = store ? et_store_load(store, &query, profile) : -1;
    if (err) {
        et_error("database %s: %s", run->db, store ? et_store_why(store) : why);
    }
    et_store_close(store);
    return err ? ET_RUN_FAILED : ET_OK;
}

/* True if only level high records the kind (core/collect/level.c). */
static bool needs_high(const char *kind)
{
    static const char *const kinds[] = {"wait", "exception", "gc", "write", "sync"};
    bool needs = false;
    for (size_t i = 0; kind && i < sizeof kinds / sizeof *kinds; i++) {
        needs |= strcmp(kind, kinds[i]) == 0;
    }
    return needs;
}

const char *et_run_level(const struct et_options *options)
{
    return options->level ? options->level : needs_high(options->wanted.query.kind) ? "high" : "medium";
}

/* A program without a marked wait slept for a second or more, all the same; from_ns is a second before its start. */
static bool slept(const struct et_run_command *run, const char *kind)
{
    const int64_t most = (int64_t)run->used_ns + 2000000000;
    return kind && strcmp(kind, "wait") == 0 && et_now() - run->options->from_ns > most;
}

static void report_no_profile(const struct et_run_command *run)
{
    const struct et_options *options = run->options;
    const char *kind = options->wanted.query.kind;
    bool memory = kind && (strcmp(kind, "live") == 0 || strcmp(kind, "alloc") == 0);
    bool cpu = !kind || strcmp(kind, ET_CPU) == 0, excluded = options->only.count || options->skip.count;
    if (run->target == ET_TARGET_FINE) {
        char used[32];
        et_value_text(run->used_ns, "nanoseconds", used);
        et_error(
            "run: %s sent no %s profile; it used %s of CPU time%s%s%s%s%s", run->command[0], kind ? kind : ET_CPU, used,
            run->alone || excluded || !cpu ? "" : ", some of it in processes that ended early or cannot be profiled",
            run->by_signal ? ", and a signal ended it" : "", excluded ? "; --only or --skip may exclude it" : "",
            memory && !options->native_memory ? "; --kind live and alloc need --native-memory" : "",
            needs_high(kind) && strcmp(et_run_level(options), "high") != 0 ? "; this kind needs --level high"
            : slept(run, kind) ? "; it slept in idle waits, or where edgeprof marks no wait"
                               : "");
    }
}

static void add_unsampled_threads(void *all, const struct et_origin_row *row)
{
    et_unsampled_stats(all, row->stats, row->stats_size);
}

/* The line about threads that are not sampled, of this process' server or the other. */
static void local_unsampled(const struct et_run_command *run, const struct et_query *query, struct et_buf *line)
{
    struct et_unsampled all = {0};
    const char *why = "";
    struct et_store *store = et_store_open(run->db, false, &why);
    if (store && et_store_origins(store, query, add_unsampled_threads, &all) >= 0) {
        et_unsampled_text(&all, line);
    }
    et_unsampled_free(&all);
    et_store_close(store);
}

static void remote_unsampled(const struct et_run_command *run, const struct et_query *query, struct et_buf *line)
{
    const struct et_remote remote = et_options_remote(run->options);
    struct et_buf answer = {0}, why = {0};
    json_t *document = et_source_get(&remote, "/api/stats", query, &answer) == ET_OK
                           ? et_json_read(answer.data, answer.size, &why)
                           : NULL;
    et_buf_text(line, et_json_words(document, "unsampled"));
    json_decref(document);
    et_buf_free(&answer);
    et_buf_free(&why);
}

/* Prints a line about threads that are not sampled. */
static void report_unsampled(const struct et_run_command *run)
{
    const struct et_query query = {
        .service = run->service, .kind = "", .from_ns = run->options->from_ns, .to_ns = INT64_MAX};
    struct et_buf line = {0};
    (run->server ? local_unsampled : remote_unsampled)(run, &query, &line);
    if (line.size) {
        et_error("%s", line.data);
    }
    et_buf_free(&line);
}

/* Appends each forked process' part of the total. "": the command, and programs that it started. */
static void report_processes(const struct et_run_command *run, struct et_buf *out)
{
    const int64_t now = et_now() + 1000000000;
    struct et_query query = run->options->wanted.query;
    struct et_timeline sums = {0};
    const char *why = "";
    char text[32];
    query.service = run->service;
    query.from_ns = run->options->from_ns;
    query.to_ns = now;
    query.group = "pid";
    struct et_store *store = et_store_open(run->db, false, &why);
    int err = store ? et_store_series(store, &query, now - query.from_ns, &sums) : -1;
    for (size_t i = 0; !err && sums.line_count > 1 && i < sums.line_count; i++) {
        const struct et_timeline_line *line = &sums.lines[i];
        et_value_text(line->total, sums.unit, text);
        bool rest = strcmp(line->name, ET_SHORT) == 0;
        et_buf_printf(out, "%s%10s  %s%s\n", i ? "" : "processes:\n", text,
                      rest          ? "short processes"
                      : *line->name ? "pid "
                                    : "the command",
                      rest ? "" : line->name);
    }
    if (!err) {
        et_timeline_free(&sums);
    }
    et_store_close(store);
}

int et_run_print_result(const struct et_run_command *run)
{
    struct et_profile *profile = NULL;
    struct et_buf out = {0};
    int code = add_short_processes(run) ? ET_RUN_FAILED : load_run(run, &profile);
    if (code == ET_OK && profile->total == 0) {
        if (!run->said) {
            report_no_profile(run);
        }
        code = ET_NO_DATA;
    }
    if (code == ET_OK) {
        struct et_symbols *symbols = et_options_symbols(run->options);
        et_symbolize(symbols, profile);
        et_symbols_free(symbols);
        et_report_top(profile, run->options->rows, false, &out);
        if (run->server) {
            report_processes(run, &out);
        }
        code = et_print_output(&out);
    }
    if (code == ET_OK && run->options->flame) {
        code = et_output_write(profile, et_format_of_file(run->options->flame), run->options->flame);
    }
    if (code == ET_OK && run->options->pprof) {
        code = et_output_write(profile, ET_FORMAT_PPROF, run->options->pprof);
    }
    et_profile_free(profile);
    report_unsampled(run);
    return code == ET_OK || code == ET_NO_DATA ? code : ET_RUN_FAILED;
}
