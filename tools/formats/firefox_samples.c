/*
 * See firefox.h. In the Firefox Profiler a sample lasts until the next one of its thread, its call tree adds up the
 * samples' weights, and its graph draws a sample half way to its neighbours. So each piece of time has its stack twice,
 * at its begin and at its end, with half of its length as the weight of each; a sample without a stack follows where
 * nothing is known. Samples of a thread may overlap: a pause within a wait. Then the one that began last is shown, and
 * the other one goes on behind it.
 */
#include "tools/formats/firefox.h"
#include "tools/lib/kinds.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { KIND_EXCEPTION = 6 };
#define MOMENT_NS 1000000 /* what has no length is shown this long, without a weight */

/* ---- categories ---- */

static const struct {
    const char *name, *color;
} categories[ET_FIREFOX_CATEGORIES] = {
    [ET_FIREFOX_OTHER] = {"Other", "grey"},      [ET_FIREFOX_CPU] = {"CPU", "yellow"},
    [ET_FIREFOX_WAIT] = {"Wait", "blue"},        [ET_FIREFOX_LOCK] = {"Lock", "red"},
    [ET_FIREFOX_SLEEP] = {"Sleep", "lightblue"}, [ET_FIREFOX_NETWORK] = {"Network", "green"},
    [ET_FIREFOX_DISK] = {"Disk", "brown"},       [ET_FIREFOX_IDLE] = {"Idle", "transparent"},
    [ET_FIREFOX_GC] = {"GC", "orange"},          [ET_FIREFOX_EXCEPTION] = {"Exception", "magenta"},
};

/* Special frames that are not here are Other: they stand for missing frames. */
static const uint8_t category_of_frame[ET_FRAME_SPECIALS] = {
    [ET_FRAME_WAIT] = ET_FIREFOX_WAIT,        [ET_FRAME_WAIT_LOCK] = ET_FIREFOX_LOCK,
    [ET_FRAME_WAIT_SLEEP] = ET_FIREFOX_SLEEP, [ET_FRAME_WAIT_NETWORK] = ET_FIREFOX_NETWORK,
    [ET_FRAME_WAIT_DISK] = ET_FIREFOX_DISK,   [ET_FRAME_WAIT_IDLE] = ET_FIREFOX_IDLE,
    [ET_FRAME_GC0] = ET_FIREFOX_GC,           [ET_FRAME_GC1] = ET_FIREFOX_GC,
    [ET_FRAME_GC2] = ET_FIREFOX_GC,           [ET_FRAME_GC_BACKGROUND] = ET_FIREFOX_GC,
    [ET_FRAME_HIJACK] = ET_FIREFOX_GC,        [ET_FRAME_EDGEPROF] = ET_FIREFOX_CPU,
    [ET_FRAME_UNSAMPLED] = ET_FIREFOX_CPU,    [ET_FRAME_KERNEL] = ET_FIREFOX_CPU,
    [ET_FRAME_THREAD_EXIT] = ET_FIREFOX_CPU,
};

void et_firefox_put_categories(struct et_buf *out)
{
    for (size_t i = 0; i < ET_FIREFOX_CATEGORIES; i++) {
        et_buf_printf(out, "%s{\"name\":\"%s\",\"color\":\"%s\",\"subcategories\":[\"Other\"]}", i ? "," : "[",
                      categories[i].name, categories[i].color);
    }
    et_buf_char(out, ']');
}

static uint8_t category_of_name(const char *function)
{
    for (unsigned i = 0; function[0] == '[' && i < ET_FRAME_SPECIALS; i++) {
        char name[32];
        et_special_name(i, name);
        if (strcmp(name, function) == 0) {
            return category_of_frame[i];
        }
    }
    return ET_FIREFOX_CPU;
}

uint8_t *et_firefox_categories(const struct et_incident *incident, const struct et_calls *calls)
{
    uint8_t *made = et_alloc(calls->count + 1, sizeof *made);
    for (size_t i = 0; i < calls->count; i++) {
        made[i] = category_of_name(et_text(&calls->names, calls->items[i].function));
    }
    for (size_t i = 0; i < incident->count; i++) {
        uint32_t call = calls->of_node[incident->samples[i].node];
        if (incident->samples[i].kind == KIND_EXCEPTION && call) {
            made[call - 1] = ET_FIREFOX_EXCEPTION;
        }
    }
    return made;
}

/* ---- samples ---- */

/* A piece of a thread's time with one stack. */
struct piece {
    int64_t start_ns, until_ns, call; /* call: -1: none */
    bool moment;                      /* its length is only shown */
};

struct pieces {
    struct piece *items, *open; /* open: those that have begun and not ended, the last one on top */
    size_t count, open_count;
    int64_t at_ns; /* the pieces before are complete */
};

static int by_start(const void *a, const void *b)
{
    const struct piece *left = a, *right = b;
    return (left->start_ns > right->start_ns) - (left->start_ns < right->start_ns);
}

/* Completes the pieces until then. */
static void advance(struct pieces *pieces, int64_t until_ns)
{
    while (pieces->open_count && pieces->at_ns < until_ns) {
        const struct piece *top = &pieces->open[pieces->open_count - 1];
        int64_t end = top->until_ns < until_ns ? top->until_ns : until_ns;
        if (end > pieces->at_ns) {
            pieces->items[pieces->count++] = (struct piece){pieces->at_ns, end, top->call, top->moment};
            pieces->at_ns = end;
        }
        pieces->open_count -= top->until_ns <= pieces->at_ns;
    }
}

/* The thread's samples one after the other. Each makes two pieces at most: it begins once, and it ends another one. */
static void list_pieces(const struct et_incident *incident, const struct et_calls *calls, uint32_t thread,
                        int64_t zero_ns, struct pieces *pieces)
{
    struct piece *own = et_alloc(incident->count + 1, sizeof *own);
    size_t count = 0;
    *pieces = (struct pieces){.items = et_alloc(2 * incident->count + 1, sizeof *pieces->items),
                              .open = et_alloc(incident->count + 1, sizeof *pieces->open)};
    for (size_t i = 0; i < incident->count; i++) {
        const struct et_incident_sample *sample = &incident->samples[i];
        if (sample->thread == thread) {
            int64_t start = sample->start_ns > zero_ns ? sample->start_ns : zero_ns;
            bool moment = sample->end_ns <= start;
            own[count++] = (struct piece){start, moment ? start + MOMENT_NS : sample->end_ns,
                                          (int64_t)calls->of_node[sample->node] - 1, moment};
        }
    }
    qsort(own, count, sizeof *own, by_start);
    for (size_t i = 0; i < count; i++) {
        advance(pieces, own[i].start_ns);
        pieces->at_ns = own[i].start_ns;
        pieces->open[pieces->open_count++] = own[i];
    }
    advance(pieces, INT64_MAX);
    free(own);
}

/* The columns of the samples. */
struct columns {
    struct et_buf stacks, times, weights;
    size_t count;
};

static void add_row(struct columns *columns, int64_t call, double at_ms, double weight_ms)
{
    const char *between = columns->count++ ? "," : "";
    if (call < 0) {
        et_buf_printf(&columns->stacks, "%snull", between);
    } else {
        et_buf_printf(&columns->stacks, "%s%" PRId64, between, call);
    }
    et_buf_printf(&columns->times, "%s%.3f", between, at_ms);
    et_buf_printf(&columns->weights, "%s%.4f", between, weight_ms);
}

void et_firefox_put_samples(const struct et_incident *incident, const struct et_calls *calls, uint32_t thread,
                            int64_t zero_ns, struct et_buf *out)
{
    struct columns columns = {0};
    struct pieces pieces;
    list_pieces(incident, calls, thread, zero_ns, &pieces);
    for (size_t i = 0; i < pieces.count; i++) {
        const struct piece *piece = &pieces.items[i];
        double start = (double)(piece->start_ns - zero_ns) / 1e6, end = (double)(piece->until_ns - zero_ns) / 1e6;
        double half = piece->moment || piece->call < 0 ? 0 : (end - start) / 2;
        add_row(&columns, piece->call, start, half);
        add_row(&columns, piece->call, end, half);
        if (i + 1 == pieces.count || pieces.items[i + 1].start_ns > piece->until_ns) {
            add_row(&columns, -1, end, 0);
        }
    }
    et_buf_printf(out,
                  ",\"samples\":{\"weightType\":\"tracing-ms\",\"weight\":[%s],\"stack\":[%s],\"time\":[%s],"
                  "\"length\":%zu}",
                  columns.count ? columns.weights.data : "", columns.count ? columns.stacks.data : "",
                  columns.count ? columns.times.data : "", columns.count);
    et_buf_free(&columns.stacks);
    et_buf_free(&columns.times);
    et_buf_free(&columns.weights);
    free(pieces.items);
    free(pieces.open);
}
