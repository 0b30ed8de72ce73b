/* See report.h. */
#include "tools/formats/report.h"
#include "tools/formats/json.h"
#include "tools/lib/kinds.h"
#include "tools/lib/json_write.h"

#include <string.h>

static double percent(uint64_t part, uint64_t whole)
{
    return whole ? 100.0 * (double)part / (double)whole : 0;
}

/* The words end in s. */
static void counted(struct et_buf *out, const char *before, uint64_t count, const char *words)
{
    et_buf_printf(out, "%s%llu %.*s", before, (unsigned long long)count, (int)strlen(words) - (count == 1), words);
}

void et_report_total(const struct et_profile *p, struct et_buf *out)
{
    char total[32];
    const char *unit = et_text(&p->strings, p->unit), *service = et_text(&p->strings, p->service);
    const char *name = et_text(&p->strings, p->kind);
    const struct et_kind *kind = et_kind_named(name);
    et_value_text(p->total, unit, total);
    et_buf_printf(out, "%s%s%s: %s", service, *service ? " " : "", name, total);
    if (p->measure == ET_MEASURE_COUNT) {
        et_buf_printf(out, " %s", kind->counts);
    } else if (p->samples && kind && kind->number == 1) {
        counted(out, " in ", p->samples, "samples");
    } else if (p->counts && kind && *kind->counts) {
        counted(out, " in ", p->counts, kind->counts);
    }
    if (kind && kind->level) {
        et_buf_printf(out, ", the last level of %llu %s", (unsigned long long)p->processes,
                      p->processes == 1 ? "process" : "processes");
    }
}

void et_report_table(const struct et_profile *p, const struct et_table *table, size_t first, size_t rows,
                     struct et_buf *out)
{
    char self[32], cum[32];
    const char *unit = et_text(&p->strings, p->unit);
    et_report_total(p, out);
    counted(out, ", ", table->count, p->by_line ? "lines" : "functions");
    et_buf_char(out, '\n');
    et_buf_printf(out, "%8s %10s %8s %10s  %s\n", "flat%", "flat", "cum%", "cum",
                  p->by_line ? "function file:line" : "function");
    for (size_t i = first; i < table->count && i - first < rows; i++) {
        const struct et_function *row = &table->rows[i];
        et_value_text(row->self, unit, self);
        et_value_text(row->total, unit, cum);
        et_buf_printf(out, "%7.2f%% %10s %7.2f%% %10s  ", percent(row->self, p->total), self,
                      percent(row->total, p->total), cum);
        et_buf_text(out, et_text(&p->strings, row->function));
        et_buf_char(out, '\n');
    }
}

/* Without functions that a filter has left nothing of. */
static void make_table(const struct et_profile *p, bool by_total, struct et_table *table)
{
    size_t kept = 0;
    et_table_make(p, table);
    et_table_sort(table, p, true);
    while (kept < table->count && table->rows[kept].total) {
        kept++;
    }
    table->count = kept;
    et_table_sort(table, p, by_total);
}

void et_report_top(const struct et_profile *p, size_t rows, bool by_total, struct et_buf *out)
{
    struct et_table table;
    make_table(p, by_total, &table);
    et_report_table(p, &table, 0, rows, out);
    et_table_free(&table);
}

void et_report_json(const struct et_profile *p, size_t rows, bool by_total, struct et_buf *out)
{
    struct et_table table;
    make_table(p, by_total, &table);
    et_buf_printf(out, "{\"total\":%llu,\"samples\":%llu,\"unit\":", (unsigned long long)p->total,
                  (unsigned long long)p->samples);
    et_json_string(out, et_text(&p->strings, p->unit));
    et_buf_text(out, ",\"top\":");
    et_json_table(out, p, &table, rows);
    et_buf_text(out, "}\n");
    et_table_free(&table);
}

/* ---- the tree ---- */

static void write_call(const struct et_profile *p, const struct et_call *call, size_t depth, struct et_buf *out)
{
    const char *unit = et_text(&p->strings, p->unit);
    char self[32], total[32];
    et_value_text(call->self, unit, self);
    et_value_text(call->total, unit, total);
    et_buf_printf(out, "%7.2f%% %10s %10s  %*s%s\n", percent(call->total, p->total), total, self, (int)(2 * depth), "",
                  et_text(&p->strings, call->function));
}

/* The next call in the order of the lines, or of its callers if its callees are not shown. 0: the end. */
static uint32_t next_call(const struct et_tree *tree, uint32_t at, bool inside, size_t *depth)
{
    if (inside && tree->calls[at].first_child) {
        (*depth)++;
        return tree->calls[at].first_child;
    }
    while (at && !tree->calls[at].next) {
        at = tree->calls[at].parent;
        (*depth)--;
    }
    return at ? tree->calls[at].next : 0;
}

void et_report_tree(const struct et_profile *p, size_t rows, struct et_buf *out)
{
    enum { LEAST_PARTS = 200 };
    struct et_tree tree;
    size_t shown = 0, depth = 0;
    et_tree_make(p, SIZE_MAX, &tree);
    et_report_total(p, out);
    counted(out, ", ", tree.count - 1, "calls");
    et_buf_printf(out, "\n%8s %10s %10s  %s\n", "cum%", "cum", "flat", "call");
    for (uint32_t at = tree.calls[0].first_child; at;) {
        const struct et_call *call = &tree.calls[at];
        bool wanted = shown < rows && call->total && call->total >= p->total / LEAST_PARTS;
        if (wanted) {
            write_call(p, call, depth, out);
            shown++;
        }
        at = next_call(&tree, at, wanted, &depth);
    }
    if (shown + 1 < tree.count) {
        et_buf_printf(out, "%zu more calls, each below 0.5%% or behind the first %zu\n", tree.count - 1 - shown, rows);
    }
    et_tree_free(&tree);
}

/* ---- folded ---- */

/* ';' is the separator, so ';' in a name becomes ':'. */
static void folded_path(const struct et_profile *p, const struct et_tree *tree, uint32_t call, struct et_buf *out)
{
    uint32_t path[ET_TREE_PATH];
    size_t depth = et_tree_path(tree, call, path);
    for (size_t i = 0; i < depth; i++) {
        size_t start = out->size;
        et_buf_text(out, et_text(&p->strings, tree->calls[path[i]].function));
        for (; start < out->size; start++) {
            out->data[start] = out->data[start] == ';' ? ':' : out->data[start];
        }
        et_buf_char(out, i + 1 < depth ? ';' : ' ');
    }
}

void et_report_folded(const struct et_profile *p, struct et_buf *out)
{
    struct et_tree tree;
    et_tree_make(p, SIZE_MAX, &tree);
    for (uint32_t i = 1; i < tree.count; i++) {
        if (tree.calls[i].self) {
            folded_path(p, &tree, i, out);
            et_buf_printf(out, "%llu\n", (unsigned long long)tree.calls[i].self);
        }
    }
    et_tree_free(&tree);
}
