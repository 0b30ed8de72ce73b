/* See speedscope.h. The format is defined in speedscope's file-format-spec.ts: a list of frames, and stacks as lists of
 * frame numbers, root first. */
#include "tools/formats/speedscope.h"
#include "tools/lib/json_write.h"
#include "tools/profile/tree.h"

#include <stdlib.h>
#include <string.h>

struct speedscope_writer {
    const struct et_profile *profile;
    struct et_tree tree;
    struct et_map frames; /* function -> number */
    struct et_buf shared, samples, weights;
};

/* A frame for each function, with its hottest line. */
static void add_frames(struct speedscope_writer *w)
{
    struct et_table table;
    et_table_make(w->profile, &table);
    for (size_t i = 0; i < table.count; i++) {
        const struct et_function *row = &table.rows[i];
        *et_map_at(&w->frames, row->function) = i;
        et_buf_text(&w->shared, i ? ",\n{\"name\":" : "\n{\"name\":");
        et_json_string(&w->shared, et_text(&w->profile->strings, row->function));
        if (row->file) {
            et_buf_text(&w->shared, ",\"file\":");
            et_json_string(&w->shared, et_text(&w->profile->strings, row->file));
        }
        if (row->line) {
            et_buf_printf(&w->shared, ",\"line\":%u", row->line);
        }
        et_buf_char(&w->shared, '}');
    }
    et_table_free(&table);
}

static void write_stack(struct speedscope_writer *w, uint32_t call)
{
    uint32_t path[ET_TREE_PATH];
    size_t depth = et_tree_path(&w->tree, call, path);
    et_buf_text(&w->samples, w->samples.size ? ",\n[" : "\n[");
    for (size_t i = 0; i < depth; i++) {
        uint64_t frame = *et_map_at(&w->frames, w->tree.calls[path[i]].function);
        et_buf_printf(&w->samples, "%s%llu", i ? "," : "", (unsigned long long)frame);
    }
    et_buf_char(&w->samples, ']');
    et_buf_printf(&w->weights, "%s%llu", w->weights.size ? "," : "", (unsigned long long)w->tree.calls[call].self);
}

static const char *unit_of(const struct et_profile *profile)
{
    const char *unit = et_text(&profile->strings, profile->unit);
    return strcmp(unit, "nanoseconds") == 0 || strcmp(unit, "bytes") == 0 ? unit : "none";
}

static void write_name(const struct et_profile *profile, struct et_buf *out)
{
    struct et_buf name = {0};
    const char *service = et_text(&profile->strings, profile->service);
    et_buf_printf(&name, "%s%s%s", service, *service ? " " : "", et_text(&profile->strings, profile->kind));
    et_json_string(out, name.data);
    et_buf_free(&name);
}

void et_speedscope(const struct et_profile *profile, struct et_buf *out)
{
    struct speedscope_writer w = {.profile = profile};
    et_tree_make(profile, SIZE_MAX, &w.tree);
    add_frames(&w);
    for (uint32_t i = 1; i < w.tree.count; i++) {
        if (w.tree.calls[i].self) {
            write_stack(&w, i);
        }
    }
    et_buf_text(out, "{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\"exporter\":\"edgeprof " //
                EP_VERSION_TEXT "\",\n\"name\":");
    write_name(profile, out);
    et_buf_text(out, ",\"activeProfileIndex\":0,\n\"shared\":{\"frames\":[");
    et_buf_add(out, w.shared.data, w.shared.size);
    et_buf_text(out, "]},\n\"profiles\":[{\"type\":\"sampled\",\"name\":");
    write_name(profile, out);
    et_buf_printf(out, ",\"unit\":\"%s\",\"startValue\":0,\"endValue\":%llu,\n\"samples\":[", unit_of(profile),
                  (unsigned long long)profile->total);
    et_buf_add(out, w.samples.data, w.samples.size);
    et_buf_text(out, "],\n\"weights\":[");
    et_buf_add(out, w.weights.data, w.weights.size);
    et_buf_text(out, "]}]}\n");
    et_tree_free(&w.tree);
    et_map_free(&w.frames);
    et_buf_free(&w.shared);
    et_buf_free(&w.samples);
    et_buf_free(&w.weights);
}
