/*
 * See api.h: spans. The database gives the value of each span in each profile; these become one per span.
 *
 *   et_api_spans   read_spans -> add_part, merge_parts
 *                  write_operations, write_heat, write_spans
 */
#include "tools/serve/query/api.h"
#include "tools/lib/json_write.h"
#include "tools/lib/kinds.h"
#include "tools/lib/labels.h"

#include <stdlib.h>
#include <string.h>

enum { COLUMNS = 60, EDGES = 57, OPERATIONS = 200, LISTED = 500 };

#define SECOND INT64_C(1000000000)

struct span {
    uint64_t ids[3], value;
    int64_t at_ns;      /* when its first profile begins */
    uint32_t operation; /* string number */
};

struct operation {
    const char *name;
    size_t first, count; /* of the spans, which are in order of operations and values */
    uint64_t total;
};

struct spans {
    const struct et_query *query;
    struct et_strings names, labels; /* of operations; label lines */
    struct span *spans;
    size_t count, capacity, held; /* held: bytes counted in the request's budget */
    struct et_budget *budget;
    struct operation *operations; /* largest first */
    size_t operation_count;
    size_t first_row, last_row, columns; /* of the heat map */
    int64_t from_ns, step_ns;
};

/* ---- reading ---- */

static void add_label(void *context, const char *key, const char *value)
{
    (void)value;
    et_intern(context, key);
}

static uint32_t find_operation(struct spans *s, const char *labels)
{
    struct et_buf key = {0}, name = {0};
    const char *rest = s->query->group;
    et_buf_text(&name, "");
    while (et_group_next(&rest, &key)) {
        size_t size = 0;
        const char *value = et_labels_value(labels, key.data, &size);
        et_buf_text(&name, name.size && value ? ", " : "");
        et_buf_add(&name, value ? value : "", size);
    }
    uint32_t number = et_intern(&s->names, name.data);
    et_buf_free(&key);
    et_buf_free(&name);
    return number;
}

static void add_part(void *context, const struct et_part *part)
{
    struct spans *s = context;
    s->spans = et_reserve(s->spans, &s->capacity, s->count + 1, sizeof *s->spans);
    s->spans[s->count++] = (struct span){.ids = {part->ids[0], part->ids[1], part->ids[2]},
                                         .value = part->value,
                                         .at_ns = part->at_ns,
                                         .operation = find_operation(s, part->labels)};
    et_intern(&s->labels, part->labels);
    (void)et_budget_hold(s->budget, &s->held,
                         s->capacity * sizeof *s->spans + et_strings_memory(&s->names) + et_strings_memory(&s->labels));
}

static int compare_ids(const void *a, const void *b)
{
    return memcmp(((const struct span *)a)->ids, ((const struct span *)b)->ids, sizeof((const struct span *)a)->ids);
}

/* By operation, then the shortest first. */
static int compare_lengths(const void *a, const void *b)
{
    const struct span *x = a, *y = b;
    if (x->operation != y->operation) {
        return x->operation < y->operation ? -1 : 1;
    }
    return x->value != y->value ? (x->value < y->value ? -1 : 1) : compare_ids(a, b);
}

/* Parts of one span become one. Its operation is that of its largest part that has one. */
static void merge_parts(struct spans *s)
{
    size_t kept = 0;
    uint64_t largest = 0;
    if (s->count) {
        qsort(s->spans, s->count, sizeof *s->spans, compare_ids);
    }
    for (size_t i = 0; i < s->count; i++) {
        struct span part = s->spans[i], *to = kept ? &s->spans[kept - 1] : NULL;
        if (!to || compare_ids(to, &part) != 0) {
            largest = part.operation ? part.value : 0;
            s->spans[kept++] = part;
            continue;
        }
        to->value += part.value;
        to->at_ns = part.at_ns < to->at_ns ? part.at_ns : to->at_ns;
        if (part.operation && part.value > largest) {
            largest = part.value;
            to->operation = part.operation;
        }
    }
    s->count = kept;
    if (kept) {
        qsort(s->spans, kept, sizeof *s->spans, compare_lengths);
    }
}

static int most_first(const void *a, const void *b)
{
    const struct operation *x = a, *y = b;
    return x->total != y->total ? (x->total > y->total ? -1 : 1) : strcmp(x->name, y->name);
}

static void find_operations(struct spans *s)
{
    s->operations = et_alloc(s->names.count + 1, sizeof *s->operations);
    for (size_t i = 0; i < s->count; i++) {
        if (i == 0 || s->spans[i].operation != s->spans[i - 1].operation) {
            s->operations[s->operation_count++] =
                (struct operation){.name = et_text(&s->names, s->spans[i].operation), .first = i};
        }
        struct operation *own = &s->operations[s->operation_count - 1];
        own->count++;
        own->total += s->spans[i].value;
    }
    if (s->operation_count) {
        qsort(s->operations, s->operation_count, sizeof *s->operations, most_first);
    }
}

/* ---- heat map ---- */

/* 1, 2, 5, 10, 20 ... */
static uint64_t edge_at(size_t i)
{
    static const unsigned factors[] = {1, 2, 5};
    uint64_t edge = factors[i % 3];
    for (size_t k = 0; k < i / 3; k++) {
        edge *= 10;
    }
    return edge;
}

/* The row's values are from edge_at(row) on, and less than edge_at(row + 1). */
static size_t row_of(uint64_t value)
{
    size_t row = 0;
    while (row + 1 < EDGES && edge_at(row + 1) <= value) {
        row++;
    }
    return row;
}

static void choose_grid(struct spans *s)
{
    int64_t first_ns = INT64_MAX, last_ns = 0;
    s->first_row = EDGES;
    for (size_t i = 0; i < s->count; i++) {
        const struct span *span = &s->spans[i];
        size_t row = row_of(span->value);
        s->first_row = row < s->first_row ? row : s->first_row;
        s->last_row = row > s->last_row ? row : s->last_row;
        first_ns = span->at_ns < first_ns ? span->at_ns : first_ns;
        last_ns = span->at_ns > last_ns ? span->at_ns : last_ns;
    }
    if (s->count) {
        s->step_ns = et_api_step(last_ns - first_ns, COLUMNS);
        s->from_ns = first_ns / s->step_ns * s->step_ns;
        s->columns = (size_t)((last_ns - s->from_ns) / s->step_ns) + 1;
    }
}

static void write_heat(struct et_buf *out, struct spans *s)
{
    choose_grid(s);
    size_t rows = s->count ? s->last_row - s->first_row + 1 : 0;
    uint32_t *counts = et_alloc(rows * s->columns + 1, sizeof *counts);
    for (size_t i = 0; i < s->count; i++) {
        size_t column = (size_t)((s->spans[i].at_ns - s->from_ns) / s->step_ns);
        counts[(row_of(s->spans[i].value) - s->first_row) * s->columns + column]++;
    }
    et_buf_text(out, ",\n\"heat\":{\"from\":");
    et_json_seconds(out, s->from_ns);
    et_buf_printf(out, ",\"step\":%lld,\"columns\":%zu,\"edges\":[", (long long)(s->step_ns / SECOND), s->columns);
    for (size_t i = 0; rows && i <= rows; i++) {
        et_buf_printf(out, "%s%llu", i ? "," : "", (unsigned long long)edge_at(s->first_row + i));
    }
    et_buf_text(out, "],\"counts\":[");
    for (size_t i = 0; i < rows * s->columns; i++) {
        const char *before = i % s->columns ? "," : i ? "],\n[" : "[";
        et_buf_printf(out, "%s%u", before, counts[i]);
    }
    et_buf_text(out, rows ? "]]}" : "]}");
    free(counts);
}

/* ---- the answer ---- */

/* The nearest rank: the least value that is not below so many per cent of them. */
static uint64_t percentile(const struct span *spans, size_t count, unsigned percent)
{
    size_t rank = (count * percent + 99) / 100;
    return count ? spans[rank ? rank - 1 : 0].value : 0;
}

static void write_operations(struct et_buf *out, const struct spans *s)
{
    et_buf_printf(out, "\"operation_count\":%zu,\n\"operations\":[", s->operation_count);
    for (size_t i = 0; i < s->operation_count && i < OPERATIONS; i++) {
        const struct operation *own = &s->operations[i];
        const struct span *spans = &s->spans[own->first];
        et_buf_text(out, i ? ",\n{\"name\":" : "\n{\"name\":");
        et_json_string(out, own->name);
        et_buf_printf(out, ",\"count\":%zu,\"total\":%llu,\"p50\":%llu,\"p95\":%llu,\"p99\":%llu,\"longest\":%llu}",
                      own->count, (unsigned long long)own->total, (unsigned long long)percentile(spans, own->count, 50),
                      (unsigned long long)percentile(spans, own->count, 95),
                      (unsigned long long)percentile(spans, own->count, 99),
                      (unsigned long long)spans[own->count - 1].value);
    }
    et_buf_char(out, ']');
}

static int longest_first(const void *a, const void *b)
{
    const struct span *x = a, *y = b;
    return x->value != y->value ? (x->value > y->value ? -1 : 1) : compare_ids(a, b);
}

static bool is_asked_for(const struct span *span, const struct et_spans_request *wanted)
{
    return span->at_ns >= wanted->begin_ns[0] && span->at_ns < wanted->begin_ns[1] &&
           span->value >= wanted->length[0] && span->value < wanted->length[1];
}

/* Reorders the spans. */
static void write_spans(struct et_buf *out, struct spans *s, const struct et_spans_request *wanted)
{
    size_t listed = 0, found = 0;
    if (s->count) {
        qsort(s->spans, s->count, sizeof *s->spans, longest_first);
    }
    et_buf_text(out, ",\n\"spans\":[");
    for (size_t i = 0; i < s->count; i++) {
        const struct span *span = &s->spans[i];
        if (!is_asked_for(span, wanted) || found++ >= LISTED) {
            continue;
        }
        et_buf_printf(out, "%s{\"span_id\":\"%016llx\",\"trace_id\":\"", listed++ ? ",\n" : "\n",
                      (unsigned long long)span->ids[0]);
        if (span->ids[1] || span->ids[2]) {
            et_buf_printf(out, "%016llx%016llx", (unsigned long long)span->ids[1], (unsigned long long)span->ids[2]);
        }
        et_buf_text(out, "\",\"at\":");
        et_json_seconds(out, span->at_ns);
        et_buf_printf(out, ",\"value\":%llu,\"operation\":", (unsigned long long)span->value);
        et_json_string(out, et_text(&s->names, span->operation));
        et_buf_char(out, '}');
    }
    et_buf_printf(out, "],\"chosen\":%zu}\n", found);
}

static void write_labels(struct et_buf *out, const struct spans *s)
{
    struct et_strings keys = {0};
    et_intern(&keys, "");
    for (size_t i = 0; i < s->labels.count; i++) {
        et_labels_each(et_text(&s->labels, (uint32_t)i), add_label, &keys);
    }
    et_buf_text(out, ",\"labels\":[");
    for (size_t i = 1; i < keys.count; i++) {
        et_buf_text(out, i > 1 ? "," : "");
        et_json_string(out, et_text(&keys, (uint32_t)i));
    }
    et_buf_text(out, "],");
    et_strings_free(&keys);
}

static void write_answer(struct et_buf *out, struct spans *s, const struct et_spans_request *wanted)
{
    const struct et_kind *kind = et_kind_named(s->query->kind);
    bool counts = et_measure_counts(kind, s->query->measure, 1, 1);
    et_buf_text(out, "{\"service\":");
    et_json_string(out, s->query->service);
    et_buf_text(out, ",\"kind\":");
    et_json_string(out, s->query->kind);
    et_buf_text(out, ",\"unit\":");
    et_json_string(out, counts ? "count" : kind ? kind->unit : "");
    et_buf_printf(out, ",\"count\":%zu", s->count);
    write_labels(out, s);
    find_operations(s);
    write_operations(out, s);
    write_heat(out, s);
    write_spans(out, s, wanted);
}

unsigned et_api_spans(struct et_store *store, const struct et_query *query, const struct et_spans_request *wanted,
                      struct et_buf *out)
{
    struct et_buf service = {0};
    struct et_query own = *query;
    struct spans s = {.query = &own, .budget = et_store_budget(store)};
    unsigned status = et_api_service(store, query, &service, out);
    own.service = service.data;
    own.kind = query->kind && *query->kind ? query->kind : ET_WALL;
    et_intern(&s.names, "");
    et_intern(&s.labels, "");
    if (status == 200 && et_store_parts(store, &own, true, add_part, &s) < 0) {
        status = et_api_failed(store, out);
    }
    if (status == 200) {
        merge_parts(&s);
        write_answer(out, &s, wanted);
    }
    free(s.operations);
    free(s.spans);
    et_strings_free(&s.names);
    et_strings_free(&s.labels);
    et_buf_free(&service);
    (void)et_budget_hold(s.budget, &s.held, 0);
    return status;
}
