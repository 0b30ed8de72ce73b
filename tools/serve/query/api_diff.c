/* See api.h: the difference of two profiles. diff.h compares; this file queries and writes JSON. */
#include "tools/serve/query/api.h"
#include "tools/profile/diff.h"
#include "tools/lib/json_write.h"
#include "tools/profile/tree.h"

#include <string.h>

enum { ROWS = 2000 };

/* Relative change that counts as a change. */
static const double THRESHOLD = 0.1;

static void write_pair(struct et_buf *out, const char *name, const uint64_t figure[ET_SIDES])
{
    et_buf_printf(out, ",\"%s\":[%llu,%llu]", name, (unsigned long long)figure[ET_LEFT],
                  (unsigned long long)figure[ET_RIGHT]);
}

static const char *judgement_name(enum et_judgement judgement)
{
    static const char *const words[] = {"same", "more", "less", "unsure", "none"};
    return words[judgement];
}

static void put_call(struct et_buf *out, const struct et_diff *diff, const struct et_diff_call *call)
{
    et_buf_text(out, "{\"name\":");
    et_json_string(out, call->function ? et_text(&diff->strings, call->function) : "all");
    write_pair(out, "self", call->self);
    write_pair(out, "total", call->total);
}

/* Depth first, without recursion: stacks may have thousands of calls. */
static void write_tree(struct et_buf *out, const struct et_diff *diff)
{
    for (uint32_t at = 0;;) {
        put_call(out, diff, &diff->calls[at]);
        if (diff->calls[at].first_child) {
            et_buf_text(out, ",\"children\":[");
            at = diff->calls[at].first_child;
            continue;
        }
        et_buf_char(out, '}');
        for (; at && !diff->calls[at].next; at = diff->calls[at].parent) {
            et_buf_text(out, "]}");
        }
        if (!at) {
            return;
        }
        et_buf_char(out, ',');
        at = diff->calls[at].next;
    }
}

static void write_rows(struct et_buf *out, const struct et_diff *diff)
{
    for (size_t i = 0; i < diff->row_count && i < ROWS; i++) {
        const struct et_diff_row *row = &diff->rows[i];
        struct et_interval change = et_diff_change(diff, row->self);
        et_buf_text(out, i ? ",\n{\"name\":" : "\n{\"name\":");
        et_json_string(out, et_text(&diff->strings, row->function));
        write_pair(out, "self", row->self);
        write_pair(out, "total", row->total);
        et_buf_printf(out, ",\"change\":[%.6f,%.6f],\"verdict\":\"%s\"", change.low, change.high,
                      judgement_name(et_diff_judge(diff, row->self, THRESHOLD)));
        if (row->file) {
            et_buf_text(out, ",\"file\":");
            et_json_string(out, et_text(&diff->strings, row->file));
            et_buf_printf(out, ",\"line\":%u", row->line);
        }
        et_buf_char(out, '}');
    }
}

static void write_side(struct et_buf *out, const struct et_profile *profile, const struct et_diff *diff,
                       enum et_side side)
{
    et_buf_printf(out, "%s{\"total\":%llu,\"profiles\":%llu,\"processes\":%llu,\"samples\":%.1f,\"seconds\":%.3f",
                  side ? "," : "", (unsigned long long)diff->total[side], (unsigned long long)profile->profiles,
                  (unsigned long long)profile->processes, diff->samples[side], diff->seconds[side]);
    et_buf_text(out, ",\"from\":");
    et_json_seconds(out, profile->start_ns);
    et_buf_text(out, ",\"to\":");
    et_json_seconds(out, profile->end_ns);
    et_buf_char(out, '}');
}

/* ran: seconds that processes ran, or for a level their number; so more devices on one side are no growth. */
static void write_growth(struct et_buf *out, const struct et_diff *whole, const double ran[ET_SIDES])
{
    double growth;
    struct et_interval interval;
    struct et_diff own = *whole, *diff = &own;
    own.level = false;
    memcpy(own.seconds, ran, sizeof own.seconds);
    if (et_diff_growth(diff, &growth, &interval)) {
        et_buf_printf(out, "\"growth\":%.6f,\"growth_interval\":[%.6f,%.6f]", growth, interval.low, interval.high);
    } else {
        et_buf_text(out, "\"growth\":null");
    }
    et_buf_printf(out, ",\"verdict\":\"%s\"", judgement_name(et_diff_judge_growth(diff, THRESHOLD)));
}

static void write_diff(struct et_buf *out, struct et_profile *const profiles[ET_SIDES], double ran[ET_SIDES])
{
    const struct et_profile *right = profiles[ET_RIGHT];
    struct et_diff diff;
    et_diff_make(profiles[ET_LEFT], right, ET_TREE_SHOWN, &diff);
    for (enum et_side side = ET_LEFT; side < ET_SIDES && diff.level; side++) {
        ran[side] = (double)profiles[side]->processes;
    }
    et_buf_text(out, "{\"kind\":");
    et_json_string(out, et_text(&right->strings, right->kind));
    et_buf_text(out, ",\"title\":");
    et_json_title(out, et_text(&right->strings, right->kind));
    et_buf_text(out, ",\"unit\":");
    et_json_string(out, et_text(&right->strings, right->unit));
    et_buf_printf(out, ",\"level\":%s,\"sides\":[", diff.level ? "true" : "false");
    write_side(out, profiles[ET_LEFT], &diff, ET_LEFT);
    write_side(out, right, &diff, ET_RIGHT);
    et_buf_text(out, "],");
    write_growth(out, &diff, ran);
    et_buf_printf(out, ",\"pruned\":%zu,\"functions\":%zu,\n\"tree\":", diff.pruned, diff.row_count);
    write_tree(out, &diff);
    et_buf_text(out, ",\n\"rows\":[");
    write_rows(out, &diff);
    et_buf_text(out, "]}\n");
    et_diff_free(&diff);
}

/* Names come of both sides or of none: else the named side would have lost functions and gained others. */
static unsigned write_named(struct et_symbols *symbols, struct et_profile *const profiles[ET_SIDES], struct et_buf *out)
{
    double ran[ET_SIDES];
    et_symbolize_both(symbols, profiles[ET_LEFT], profiles[ET_RIGHT]);
    uint64_t pending = profiles[ET_LEFT]->names_pending + profiles[ET_RIGHT]->names_pending;
    if (pending) {
        et_buf_printf(out,
                      "{\"error\":\"the names of %llu addresses are still being read; ask again\","
                      "\"names_pending\":%llu}\n",
                      (unsigned long long)pending, (unsigned long long)pending);
        return 503;
    }
    for (int i = 0; i < ET_SIDES; i++) {
        ran[i] = (double)profiles[i]->ran_ns / 1e9;
    }
    write_diff(out, profiles, ran);
    return 200;
}

unsigned et_api_diff(struct et_store *store, struct et_symbols *symbols, const struct et_query *baseline,
                     const struct et_query *query, struct et_buf *out)
{
    struct et_profile *profiles[ET_SIDES] = {NULL, NULL};
    const struct et_query *queries[ET_SIDES] = {baseline, query};
    unsigned status = 200;
    for (int i = 0; i < ET_SIDES && status == 200; i++) {
        struct et_query own = *queries[i];
        own.keep_labels = false;
        status = et_api_load_ran(store, &own, &profiles[i], out);
    }
    if (status == 200) {
        status = write_named(symbols, profiles, out);
    }
    for (int i = 0; i < ET_SIDES; i++) {
        if (profiles[i]) {
            et_profile_free(profiles[i]);
        }
    }
    return status;
}
