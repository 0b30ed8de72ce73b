/* See profile.h. Arrays move when they grow, so references are indices. */
#include "tools/profile/profile.h"
#include "tools/lib/kinds.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct et_profile *et_profile_new(void)
{
    struct et_profile *profile = et_alloc(1, sizeof *profile);
    et_intern(&profile->strings, "");
    et_profile_frame(profile, (struct et_frame){0});
    et_profile_node(profile, 0, 0);
    return profile;
}

size_t et_profile_memory(const struct et_profile *p)
{
    return sizeof *p + et_strings_memory(&p->strings) + p->module_capacity * sizeof *p->modules +
           p->frame_capacity * sizeof *p->frames + p->node_capacity * sizeof *p->nodes +
           p->line_capacity * sizeof *p->lines + p->entry_capacity * sizeof *p->entries +
           p->label_capacity * sizeof *p->label_sums;
}

void et_profile_trim(struct et_profile *p)
{
    et_strings_trim(&p->strings);
    p->modules = et_trim(p->modules, &p->module_capacity, p->module_count, sizeof *p->modules);
    p->frames = et_trim(p->frames, &p->frame_capacity, p->frame_count, sizeof *p->frames);
    p->nodes = et_trim(p->nodes, &p->node_capacity, p->node_count, sizeof *p->nodes);
    p->lines = et_trim(p->lines, &p->line_capacity, p->line_count, sizeof *p->lines);
    p->entries = et_trim(p->entries, &p->entry_capacity, p->entry_count, sizeof *p->entries);
    p->label_sums = et_trim(p->label_sums, &p->label_capacity, p->label_count, sizeof *p->label_sums);
}

void et_profile_free(struct et_profile *profile)
{
    if (!profile) {
        return;
    }
    et_strings_free(&profile->strings);
    free(profile->modules);
    free(profile->frames);
    free(profile->nodes);
    free(profile->lines);
    free(profile->entries);
    free(profile->label_sums);
    free(profile);
}

uint32_t et_profile_module(struct et_profile *p, const char *build_id, const char *path)
{
    p->modules = et_reserve(p->modules, &p->module_capacity, p->module_count + 1, sizeof *p->modules);
    p->modules[p->module_count].build_id = et_intern(&p->strings, build_id);
    p->modules[p->module_count].path = et_intern(&p->strings, path);
    return (uint32_t)++p->module_count;
}

uint32_t et_profile_frame(struct et_profile *p, struct et_frame frame)
{
    p->frames = et_reserve(p->frames, &p->frame_capacity, p->frame_count + 1, sizeof *p->frames);
    p->frames[p->frame_count] = frame;
    return (uint32_t)p->frame_count++;
}

uint32_t et_profile_node(struct et_profile *p, uint32_t parent, uint32_t frame)
{
    p->nodes = et_reserve(p->nodes, &p->node_capacity, p->node_count + 1, sizeof *p->nodes);
    p->nodes[p->node_count] = (struct et_node){.parent = parent, .frame = frame};
    return (uint32_t)p->node_count++;
}

void et_profile_entry(struct et_profile *p, const struct et_entry *entry)
{
    p->entries = et_reserve(p->entries, &p->entry_capacity, p->entry_count + 1, sizeof *p->entries);
    p->entries[p->entry_count++] = *entry;
    p->values += entry->value;
    p->counts += entry->count;
}

uint64_t et_entry_shown(const struct et_profile *p, const struct et_entry *entry)
{
    return p->measure == ET_MEASURE_COUNT ? entry->count : entry->value;
}

bool et_measure_counts(const struct et_kind *kind, enum et_measure measure, uint64_t values, uint64_t counts)
{
    bool wanted = measure == ET_MEASURE_COUNT || (measure == ET_MEASURE_DEFAULT && values == 0 && counts > 0);
    return kind && kind->counts[0] && wanted;
}

void et_profile_show(struct et_profile *p, enum et_measure measure)
{
    const struct et_kind *kind = et_kind_named(et_text(&p->strings, p->kind));
    p->measure = et_measure_counts(kind, measure, p->values, p->counts) ? ET_MEASURE_COUNT : ET_MEASURE_VALUE;
    p->unit = p->measure == ET_MEASURE_COUNT ? et_intern(&p->strings, "count") : p->value_unit;
    p->total = p->measure == ET_MEASURE_COUNT ? p->counts : p->values;
    for (size_t i = 0; i < p->node_count; i++) {
        p->nodes[i].self = 0;
    }
    for (size_t i = 0; i < p->entry_count; i++) {
        p->nodes[p->entries[i].node].self += et_entry_shown(p, &p->entries[i]);
    }
}

void et_profile_line(struct et_profile *p, struct et_frame *frame, const char *function, const char *file,
                     uint32_t line)
{
    p->lines = et_reserve(p->lines, &p->line_capacity, p->line_count + 1, sizeof *p->lines);
    if (frame->line_count == 0) {
        frame->first_line = (uint32_t)p->line_count;
    }
    frame->line_count++;
    p->lines[p->line_count++] = (struct et_line){
        .function = et_intern(&p->strings, function),
        .file = et_intern(&p->strings, file),
        .line = line,
    };
}

void et_profile_lines(const struct et_profile *p, const struct et_frame *frame, bool bare,
                      void (*call)(void *context, const char *function, const char *file, uint32_t line), void *context)
{
    for (uint32_t i = 0; i < frame->line_count; i++) {
        const struct et_line *line = &p->lines[frame->first_line + i];
        call(context, et_text(&p->strings, line->function), et_text(&p->strings, line->file), line->line);
    }
    if (frame->line_count) {
        return;
    }
    if (frame->name) {
        call(context, et_text(&p->strings, frame->name), et_text(&p->strings, frame->file), frame->line);
    } else if (frame->module == 0) {
        char name[32];
        et_special_name(frame->address, name);
        call(context, name, "", 0);
    } else if (!bare || frame->address == 0) {
        struct et_buf name = {0};
        et_address_name(et_text(&p->strings, p->modules[frame->module - 1].path), frame->address, &name);
        call(context, name.data, "", 0);
        et_buf_free(&name);
    }
}

void et_address_name(const char *path, uint64_t address, struct et_buf *name)
{
    et_buf_printf(name, "%s+0x%llx", *path ? et_base_name(path) : "?", (unsigned long long)address);
}

void et_special_name(uint64_t address, char name[32])
{
    static const char *const names[] = {
#define EP_NAME_FRAME(identifier, number, name, meaning) [number] = (name),
#include "core/proto/names.def"
    };
    if (address < sizeof names / sizeof *names) {
        snprintf(name, 32, "%s", names[address]);
    } else {
        snprintf(name, 32, "[special %u]", (unsigned)(address & 0xff));
    }
}
