/* See json.h. */
#include "tools/formats/json.h"
#include "tools/lib/kinds.h"
#include "tools/lib/json_write.h"

#include <stdlib.h>
#include <string.h>

enum { LINES = 10, UNNAMED = 20 };

static const char *module_name(const struct et_profile *profile, uint32_t module)
{
    const char *path = module ? et_text(&profile->strings, profile->modules[module - 1].path) : "";
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

void et_json_place(struct et_buf *out, const struct et_profile *profile, uint32_t module, uint32_t file, uint32_t line)
{
    if (module) {
        et_buf_text(out, ",\"module\":");
        et_json_string(out, module_name(profile, module));
    }
    if (file) {
        et_buf_text(out, ",\"file\":");
        et_json_string(out, et_text(&profile->strings, file));
        et_buf_printf(out, ",\"line\":%u", line);
    }
}

static void put_call(struct et_buf *out, const struct et_profile *profile, const struct et_call *call)
{
    et_buf_text(out, "{\"name\":");
    et_json_string(out, call->function ? et_text(&profile->strings, call->function) : "all");
    et_buf_printf(out, ",\"value\":%llu,\"self\":%llu", (unsigned long long)call->total,
                  (unsigned long long)call->self);
    if (call->total_count && call->total_count != call->total) {
        et_buf_printf(out, ",\"count\":%llu", (unsigned long long)call->total_count);
    }
    et_json_place(out, profile, call->module, call->file, call->line);
}

/* Depth first without recursion: stacks may be a few thousand calls deep. */
void et_json_tree(struct et_buf *out, const struct et_profile *profile, const struct et_tree *tree)
{
    uint32_t at = 0;
    for (;;) {
        const struct et_call *now = &tree->calls[at];
        put_call(out, profile, now);
        if (now->first_child) {
            et_buf_text(out, ",\"children\":[");
            at = now->first_child;
            continue;
        }
        et_buf_char(out, '}');
        while (at && !tree->calls[at].next) {
            et_buf_text(out, "]}");
            at = tree->calls[at].parent;
        }
        if (!at) {
            return;
        }
        et_buf_char(out, ',');
        at = tree->calls[at].next;
    }
}

/* Appends the hottest lines of a function that has several, without a file that is the function's. */
static void put_lines(struct et_buf *out, const struct et_profile *profile, const struct et_table *table,
                      const struct et_function *row)
{
    if (row->line_count < 2) {
        return;
    }
    et_buf_printf(out, ",\"line_count\":%u,\"lines\":[", row->line_count);
    for (uint32_t i = 0; i < row->line_count && i < LINES; i++) {
        const struct et_hot_line *line = &table->lines[row->first_line + i];
        et_buf_printf(out, "%s{\"line\":%u,\"self\":%llu,\"total\":%llu", i ? "," : "", line->line,
                      (unsigned long long)line->self, (unsigned long long)line->total);
        if (line->file != row->file) {
            et_buf_text(out, ",\"file\":");
            et_json_string(out, et_text(&profile->strings, line->file));
        }
        et_buf_char(out, '}');
    }
    et_buf_char(out, ']');
}

void et_json_table(struct et_buf *out, const struct et_profile *profile, const struct et_table *table, size_t rows)
{
    et_buf_char(out, '[');
    for (size_t i = 0; i < table->count && i < rows; i++) {
        const struct et_function *row = &table->rows[i];
        et_buf_text(out, i ? ",\n{\"name\":" : "\n{\"name\":");
        et_json_string(out, et_text(&profile->strings, row->function));
        et_buf_printf(out, ",\"self\":%llu,\"total\":%llu", (unsigned long long)row->self,
                      (unsigned long long)row->total);
        et_json_place(out, profile, row->module, row->file, row->line);
        put_lines(out, profile, table, row);
        et_buf_char(out, '}');
    }
    et_buf_char(out, ']');
}

static void put_field(struct et_buf *out, const char *name, const char *text)
{
    et_buf_printf(out, "\"%s\":", name);
    et_json_string(out, text);
    et_buf_char(out, ',');
}

struct unnamed {
    uint64_t self;
    uint32_t module;
};

static int largest_first(const void *a, const void *b)
{
    const struct unnamed *left = a, *right = b;
    return (left->self < right->self) - (left->self > right->self);
}

/* Modules with code that has no name, and the value of that code alone. */
static void put_unnamed(struct et_buf *out, const struct et_profile *p)
{
    struct unnamed *sums = et_alloc(p->module_count + 1, sizeof *sums);
    for (size_t i = 1; i < p->node_count; i++) {
        const struct et_frame *frame = &p->frames[p->nodes[i].frame];
        if (frame->module && frame->unnamed) {
            sums[frame->module - 1].module = frame->module;
            sums[frame->module - 1].self += p->nodes[i].self;
        }
    }
    qsort(sums, p->module_count, sizeof *sums, largest_first);
    et_buf_text(out, "\"unnamed\":[");
    const char *comma = "";
    for (size_t i = 0; i < p->module_count && i < UNNAMED; i++) {
        if (sums[i].module) {
            et_buf_printf(out, "%s{\"module\":", comma);
            et_json_string(out, module_name(p, sums[i].module));
            et_buf_text(out, ",\"build_id\":");
            et_json_string(out, et_text(&p->strings, p->modules[sums[i].module - 1].build_id));
            et_buf_printf(out, ",\"self\":%llu}", (unsigned long long)sums[i].self);
            comma = ",";
        }
    }
    et_buf_text(out, "],");
    free(sums);
}

void et_json_profile(struct et_buf *out, const struct et_profile *p, size_t rows)
{
    struct et_tree calls;
    struct et_table table;
    et_tree_make(p, ET_TREE_SHOWN, &calls);
    et_table_make(p, &table);
    et_buf_char(out, '{');
    put_field(out, "service", et_text(&p->strings, p->service));
    put_field(out, "kind", et_text(&p->strings, p->kind));
    const struct et_kind *kind = et_kind_named(et_text(&p->strings, p->kind));
    bool counted = kind && p->measure == ET_MEASURE_COUNT;
    put_field(out, "unit", et_text(&p->strings, p->unit));
    et_buf_text(out, "\"title\":");
    et_json_title(out, et_text(&p->strings, p->kind));
    et_buf_char(out, ',');
    put_field(out, "counts", kind ? kind->counts : "");
    et_buf_printf(out, "\"measure\":\"%s\",\"level\":%s,\"count\":%llu,\"processes\":%llu,",
                  counted ? "count" : "value", kind && kind->level ? "true" : "false", (unsigned long long)p->counts,
                  (unsigned long long)p->processes);
    et_json_labels(out, p);
    et_buf_text(out, "\"from\":");
    et_json_seconds(out, p->start_ns);
    et_buf_text(out, ",\"to\":");
    et_json_seconds(out, p->end_ns);
    et_buf_text(out, ",\"covered\":");
    et_json_seconds(out, p->covered_ns);
    et_buf_printf(out, ",\"total\":%llu,\"samples\":%llu,\"period\":%llu,\"profiles\":%llu,\"pruned\":%llu,",
                  (unsigned long long)p->total, (unsigned long long)p->samples, (unsigned long long)p->period,
                  (unsigned long long)p->profiles, (unsigned long long)calls.pruned);
    put_unnamed(out, p);
    et_buf_printf(out, "\"functions\":%llu,\"names_pending\":%llu,\"damaged_profiles\":%llu,\n\"tree\":",
                  (unsigned long long)table.count, (unsigned long long)p->names_pending,
                  (unsigned long long)p->damaged);
    et_json_tree(out, p, &calls);
    et_buf_text(out, ",\n\"top\":");
    et_json_table(out, p, &table, rows);
    et_buf_text(out, "}\n");
    et_tree_free(&calls);
    et_table_free(&table);
}
