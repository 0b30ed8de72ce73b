/*
 * See leaks.h.
 *
 *   et_leaks_find -> et_store_origins -> add_process
 *                    load_hour -> add_profile -> add_value     each hour
 *                    make_leaks -> et_trend_make               each site
 */
#include "tools/serve/query/leaks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const int64_t HOUR_NS = INT64_C(3600) * 1000000000;
static const double ALPHA = 0.05, LEAST_GROWTH = 0.01;

/* Processes of a service that are read, newest first: those that ran longest ago may be left out. */
enum { MOST_PROCESSES = 1000 };

/* A site at the end of an hour of a process. */
struct value {
    uint32_t site, process, hour;
    double bytes, objects;
};

struct finder {
    struct et_store *store;
    struct et_symbols *symbols;
    const struct et_query *query;
    struct et_leaks *out;
    int64_t ids[MOST_PROCESSES];
    size_t id_count;
    struct et_map lines;  /* process id -> index + 1 */
    struct et_map hours;  /* process << 32 | hour -> its live bytes */
    struct et_map values; /* of the hour: process << 32 | site -> value + 1 */
    struct value *all;
    size_t count, capacity;
};

static void add_process(void *context, const struct et_origin_row *row)
{
    struct finder *f = context;
    if (f->id_count < MOST_PROCESSES) {
        f->ids[f->id_count++] = row->id;
        *et_map_at(&f->lines, (uint64_t)row->id) = f->id_count;
    }
}

/* ---- values ---- */

static void first_line(void *context, const char *function, const char *file, uint32_t line)
{
    const char **name = context;
    (void)file;
    (void)line;
    *name = *name ? *name : function;
}

static const char *name_of(const struct et_profile *p, uint32_t node)
{
    const struct et_frame *frame = &p->frames[p->nodes[node].frame];
    const char *name = frame->line_count ? et_text(&p->strings, p->lines[frame->first_line].function) : NULL;
    if (!name) {
        et_profile_lines(p, frame, false, first_line, &name);
    }
    return name ? name : "?";
}

static bool has_caller(const struct et_profile *p, uint32_t node)
{
    uint32_t caller = p->nodes[node].parent;
    return caller && p->nodes[caller].parent;
}

/* "System.Byte[] at Shop.Cache.Add"; "[native] NativeMemory.Alloc at Shop.Image.Load"; a stack of one frame is only
 * that. */
static uint32_t site_of(struct finder *f, const struct et_profile *p, uint32_t node)
{
    struct et_buf text = {0};
    const char *name = name_of(p, node);
    et_buf_text(&text, name);
    if ((strcmp(name, "[native]") == 0 || strcmp(name, "[mmap]") == 0) && has_caller(p, node)) {
        node = p->nodes[node].parent;
        et_buf_printf(&text, " %s", name_of(p, node));
    }
    if (has_caller(p, node)) {
        et_buf_printf(&text, " at %s", name_of(p, p->nodes[node].parent));
    }
    uint32_t site = et_intern(&f->out->strings, text.data);
    et_buf_free(&text);
    return site;
}

static void add_value(struct finder *f, uint32_t process, uint32_t hour, uint32_t site, const struct et_entry *entry)
{
    uint64_t *known = et_map_at(&f->values, (uint64_t)process << 32 | site);
    if (!*known) {
        f->all = et_reserve(f->all, &f->capacity, f->count + 1, sizeof *f->all);
        f->all[f->count] = (struct value){.site = site, .process = process, .hour = hour};
        *known = ++f->count;
    }
    f->all[*known - 1].bytes += (double)entry->value;
    f->all[*known - 1].objects += (double)entry->count;
    *et_map_at(&f->hours, (uint64_t)process << 32 | hour) += entry->value;
}

/* The process of each node is its outermost frame. */
static void add_profile(struct finder *f, const struct et_profile *p, uint32_t hour)
{
    uint32_t *processes = et_alloc(p->node_count, sizeof *processes);
    for (size_t i = 1; i < p->node_count; i++) {
        uint32_t parent = p->nodes[i].parent;
        const char *name = et_text(&p->strings, p->frames[p->nodes[i].frame].name);
        const uint64_t *line = parent ? NULL : et_map_find(&f->lines, strtoull(name, NULL, 10));
        processes[i] = parent ? processes[parent] : line ? (uint32_t)*line : 0;
    }
    for (size_t i = 0; i < p->entry_count; i++) {
        const struct et_entry *entry = &p->entries[i];
        if (processes[entry->node] && p->nodes[entry->node].parent) {
            add_value(f, processes[entry->node] - 1, hour, site_of(f, p, entry->node), entry);
        }
    }
    free(processes);
}

static int load_hour(struct finder *f, uint32_t hour)
{
    struct et_query query = {.service = f->query->service,
                             .kind = ET_LEAK_KIND,
                             .from_ns = f->out->from_ns + hour * HOUR_NS,
                             .to_ns = f->out->from_ns + (hour + 1) * HOUR_NS,
                             .matchers = f->query->matchers,
                             .matcher_count = f->query->matcher_count,
                             .processes = f->ids,
                             .process_count = f->id_count};
    struct et_profile *profile;
    size_t before = f->capacity * sizeof *f->all;
    int err = et_store_load(f->store, &query, &profile);
    if (err) {
        return err;
    }
    size_t held = et_profile_memory(profile);
    et_symbolize_waiting(f->symbols, profile, false); /* the same place must have the same name in each hour */
    et_map_free(&f->values);
    add_profile(f, profile, hour);
    et_profile_free(profile);
    (void)et_budget_hold(et_store_budget(f->store), &held, 0);
    return et_store_counts(f->store, f->capacity * sizeof *f->all - before);
}

/* ---- sites ---- */

static int by_site(const void *a, const void *b)
{
    const struct value *x = a, *y = b;
    return x->site != y->site         ? (x->site < y->site ? -1 : 1)
           : x->process != y->process ? (x->process < y->process ? -1 : 1)
                                      : (x->hour > y->hour) - (x->hour < y->hour);
}

/* The hours of each process, in order; its first hour is its start, and left out. */
struct hours {
    struct et_trend_point *points; /* line: process; at: hour; value: live bytes */
    size_t count;
    double last;
    struct et_map ends; /* process -> its last hour */
};

static int by_process_and_hour(const void *a, const void *b)
{
    const struct et_trend_point *x = a, *y = b;
    return x->line != y->line ? (x->line < y->line ? -1 : 1) : (x->at > y->at) - (x->at < y->at);
}

static struct hours list_hours(const struct finder *f)
{
    struct hours all = {.points = et_alloc(f->hours.count + 1, sizeof *all.points)};
    size_t kept = 0;
    for (size_t i = 0; i < f->hours.capacity; i++) {
        const struct et_map_entry *entry = &f->hours.entries[i];
        if (entry->used) {
            all.points[all.count++] = (struct et_trend_point){.line = (uint32_t)(entry->key >> 32),
                                                              .at = (double)(uint32_t)entry->key,
                                                              .value = (double)entry->value};
        }
    }
    qsort(all.points, all.count, sizeof *all.points, by_process_and_hour);
    uint32_t before = UINT32_MAX;
    for (size_t i = 0; i < all.count; i++) {
        bool first = all.points[i].line != before;
        before = all.points[i].line;
        all.last = fmax(all.last, all.points[i].at);
        *et_map_at(&all.ends, before) = (uint64_t)all.points[i].at;
        if (!first) {
            all.points[kept++] = all.points[i];
        }
    }
    all.count = kept;
    return all;
}

/* The live bytes of a process, on average. */
static double usual_bytes(const struct hours *hours)
{
    double sum = 0;
    for (size_t i = 0; i < hours->count; i++) {
        sum += hours->points[i].value;
    }
    return hours->count ? sum / (double)hours->count : 0;
}

/* Makes a site's leak from its values; where a process has none in one of its hours, it is 0. */
static struct et_leak make_leak(const struct hours *hours, const struct value *values, size_t count)
{
    struct et_leak leak = {.name = values[0].site};
    struct et_trend_point *bytes = et_alloc(hours->count, sizeof *bytes),
                          *objects = et_alloc(hours->count, sizeof *objects);
    size_t points = 0, at = 0;
    for (size_t i = 0; i < hours->count; i++) {
        const struct et_trend_point *hour = &hours->points[i];
        while (at < count && (values[at].process < hour->line ||
                              (values[at].process == hour->line && values[at].hour < (uint32_t)hour->at))) {
            at++;
        }
        bool there = at < count && values[at].process == hour->line && values[at].hour == (uint32_t)hour->at;
        bytes[points] = objects[points] = *hour;
        bytes[points].value = there ? values[at].bytes : 0;
        objects[points++].value = there ? values[at].objects : 0;
    }
    for (size_t i = 0; i < count; i++) {
        const uint64_t *end = et_map_find(&hours->ends, values[i].process);
        bool now = end && *end == values[i].hour && values[i].hour + 1 >= hours->last;
        leak.last += now ? values[i].bytes : 0;
        leak.processes += i == 0 || values[i].process != values[i - 1].process;
    }
    et_trend_make(bytes, points, &leak.bytes);
    et_trend_make(objects, points, &leak.objects);
    free(bytes);
    free(objects);
    return leak;
}

static int smallest_p_first(const void *a, const void *b)
{
    const struct et_leak *x = a, *y = b;
    return x->bytes.p < y->bytes.p ? -1 : x->bytes.p > y->bytes.p;
}

static int steepest_first(const void *a, const void *b)
{
    const struct et_leak *x = a, *y = b;
    if (x->grows != y->grows) {
        return x->grows ? -1 : 1;
    }
    return x->bytes.slope < y->bytes.slope ? 1 : x->bytes.slope > y->bytes.slope ? -1 : 0;
}

/* Holm's correction (see profile/verdict.h), then the judgement. */
static void judge_leaks(struct et_leaks *out, double usual)
{
    double before = 0;
    qsort(out->leaks, out->count, sizeof *out->leaks, smallest_p_first);
    for (size_t i = 0; i < out->count; i++) {
        struct et_leak *leak = &out->leaks[i];
        before = leak->bytes.p = fmax(before, fmin(1, leak->bytes.p * (double)(out->count - i)));
        leak->grows = leak->bytes.p <= ALPHA && leak->bytes.low > 0 &&
                      leak->bytes.slope * (double)out->hours >= LEAST_GROWTH * usual;
    }
    qsort(out->leaks, out->count, sizeof *out->leaks, steepest_first);
}

/* Returns 0 or an error of the database: the query took too long. */
static int make_leaks(struct finder *f)
{
    struct et_leaks *out = f->out;
    struct hours hours = list_hours(f);
    double first = INFINITY, last = 0;
    struct et_map processes = {0};
    for (size_t i = 0; i < f->count; i++) {
        (void)et_map_at(&processes, f->all[i].process);
    }
    out->processes = processes.count;
    et_map_free(&processes);
    for (size_t i = 0; i < hours.count; i++) {
        first = fmin(first, hours.points[i].at);
        last = fmax(last, hours.points[i].at);
    }
    out->hours = hours.count ? (size_t)(last - first) + 1 : 0;
    if (f->count) {
        qsort(f->all, f->count, sizeof *f->all, by_site);
    }
    int err = 0;
    for (size_t i = 0, end; i < f->count && !err; i = end) {
        err = et_store_counts(f->store, 0);
        for (end = i; end < f->count && f->all[end].site == f->all[i].site; end++) {
        }
        out->leaks = et_reserve(out->leaks, &out->capacity, out->count + 1, sizeof *out->leaks);
        out->leaks[out->count++] = make_leak(&hours, &f->all[i], end - i);
    }
    if (out->count) {
        judge_leaks(out, usual_bytes(&hours));
    }
    free(hours.points);
    et_map_free(&hours.ends);
    return err;
}

/* newest: start of the newest profile. Without a begin, seven days. */
static void set_range(const struct et_query *query, int64_t newest, struct et_leaks *out)
{
    int64_t to = query->to_ns < newest ? query->to_ns : newest + 1;
    out->to_ns = (to + HOUR_NS - 1) / HOUR_NS * HOUR_NS;
    int64_t least = out->to_ns - (query->from_ns ? ET_LEAK_HOURS : 7 * 24) * HOUR_NS;
    out->from_ns = query->from_ns > least ? query->from_ns / HOUR_NS * HOUR_NS : least;
}

int et_leaks_find(struct et_store *store, struct et_symbols *symbols, const struct et_query *query,
                  struct et_leaks *out)
{
    *out = (struct et_leaks){.service = et_strdup(query->service ? query->service : "")};
    struct finder *f = et_alloc(1, sizeof *f);
    struct et_query own = *query;
    f->store = store;
    f->symbols = symbols;
    f->query = query;
    f->out = out;
    et_intern(&out->strings, "");
    int64_t newest = et_store_newest(store);
    set_range(query, newest > 0 ? newest : 0, out);
    own.from_ns = out->from_ns;
    own.to_ns = out->to_ns;
    int err = newest < 0 ? (int)newest : et_store_origins(store, &own, add_process, f);
    err = err < 0 ? err : 0;
    for (uint32_t hour = 0; f->id_count && out->from_ns + hour * HOUR_NS < out->to_ns && !err; hour++) {
        err = load_hour(f, hour);
    }
    err = err ? err : make_leaks(f);
    et_map_free(&f->lines);
    et_map_free(&f->hours);
    et_map_free(&f->values);
    free(f->all);
    free(f);
    return err;
}

void et_leaks_free(struct et_leaks *leaks)
{
    et_strings_free(&leaks->strings);
    free(leaks->service);
    free(leaks->leaks);
    *leaks = (struct et_leaks){0};
}
