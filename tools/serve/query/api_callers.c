/* See api.h: callers and callees of one function. */
#include "tools/serve/query/api.h"
#include "tools/profile/callers.h"
#include "tools/formats/json.h"
#include "tools/lib/json_write.h"

enum { ROWS = 500 };

static void write_neighbours(struct et_buf *out, const char *name, const struct et_profile *profile,
                             const struct et_neighbours *rows)
{
    et_buf_printf(out, ",\n\"%s\":[", name);
    for (size_t i = 0; i < rows->count && i < ROWS; i++) {
        const struct et_neighbour *row = &rows->rows[i];
        et_buf_text(out, i ? ",\n{\"name\":" : "\n{\"name\":");
        et_json_string(out, et_text(&profile->strings, row->function));
        et_buf_printf(out, ",\"value\":%llu", (unsigned long long)row->value);
        et_json_place(out, profile, row->module, row->file, row->line);
        et_buf_char(out, '}');
    }
    et_buf_char(out, ']');
}

static void write_callers(struct et_buf *out, const struct et_profile *profile, const char *function)
{
    struct et_callers found;
    et_callers_make(profile, function, ET_TREE_SHOWN / 2, &found);
    et_buf_text(out, "{\"function\":");
    et_json_string(out, function);
    et_buf_text(out, ",\"kind\":");
    et_json_string(out, et_text(&profile->strings, profile->kind));
    et_buf_text(out, ",\"unit\":");
    et_json_string(out, et_text(&profile->strings, profile->unit));
    et_buf_printf(out, ",\"all\":%llu,\"total\":%llu,\"self\":%llu,\"caller_count\":%zu,\"callee_count\":%zu",
                  (unsigned long long)profile->total, (unsigned long long)found.total, (unsigned long long)found.self,
                  found.called_by.count, found.calls.count);
    et_buf_printf(out, ",\"names_pending\":%llu", (unsigned long long)profile->names_pending);
    et_buf_printf(out, ",\"pruned\":%zu", found.callers.pruned + found.callees.pruned);
    write_neighbours(out, "callers", profile, &found.called_by);
    write_neighbours(out, "callees", profile, &found.calls);
    et_buf_text(out, ",\n\"callers_tree\":");
    et_json_tree(out, profile, &found.callers);
    et_buf_text(out, ",\n\"callees_tree\":");
    et_json_tree(out, profile, &found.callees);
    et_buf_text(out, "}\n");
    et_callers_free(&found);
}

unsigned et_api_callers(struct et_store *store, struct et_symbols *symbols, const struct et_query *query,
                        const char *function, struct et_buf *out)
{
    struct et_profile *profile;
    struct et_query merged = *query;
    if (!*function) {
        et_api_error(out, "function= is required: the complete name of a function");
        return 400;
    }
    merged.keep_labels = false;
    unsigned status = et_api_load(store, &merged, &profile, out);
    if (status == 200) {
        et_symbolize(symbols, profile);
        write_callers(out, profile, function);
        et_profile_free(profile);
    }
    return status;
}
