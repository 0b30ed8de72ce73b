/*
 * See pprof_names.h. The locations become frames of a profile of their own, which is symbolized like any other.
 *
 * Everything is allocated piece by piece, as the decoder does: et_pprof_free() frees it.
 */
#include "tools/symbols/pprof_names.h"

#include <stdlib.h>
#include <string.h>

struct naming {
    et_pprof *pprof;
    struct et_profile *profile;
    struct et_map mappings;  /* id -> index + 1 */
    struct et_map texts;     /* string of the profile -> index + 1 in the pprof's table */
    struct et_map functions; /* name << 32 | file -> id */
    size_t text_capacity, function_capacity;
    uint64_t last_function;
};

/* Index of one of the profile's strings in the pprof's table. */
static int64_t text(struct naming *n, uint32_t number)
{
    et_pprof *p = n->pprof;
    uint64_t *known = et_map_at(&n->texts, number);
    if (!*known) {
        p->string_table =
            et_reserve(p->string_table, &n->text_capacity, p->n_string_table + 1, sizeof *p->string_table);
        p->string_table[p->n_string_table++] = et_strdup(et_text(&n->profile->strings, number));
        *known = p->n_string_table;
    }
    return (int64_t)*known - 1;
}

static uint64_t function_of(struct naming *n, const struct et_line *line)
{
    et_pprof *p = n->pprof;
    uint64_t *id = et_map_at(&n->functions, (uint64_t)line->function << 32 | line->file);
    if (!*id) {
        Perftools__Profiles__Function *function = et_alloc(1, sizeof *function);
        perftools__profiles__function__init(function);
        function->id = *id = ++n->last_function;
        function->name = function->system_name = text(n, line->function);
        function->filename = text(n, line->file);
        p->function = et_reserve(p->function, &n->function_capacity, p->n_function + 1, sizeof *p->function);
        p->function[p->n_function++] = function;
    }
    return *id;
}

static void add_lines(struct naming *n, Perftools__Profiles__Location *location, const struct et_frame *frame)
{
    location->line = et_alloc(frame->line_count, sizeof *location->line);
    location->n_line = frame->line_count;
    for (uint32_t i = 0; i < frame->line_count; i++) {
        const struct et_line *line = &n->profile->lines[frame->first_line + i];
        location->line[i] = et_alloc(1, sizeof **location->line);
        perftools__profiles__line__init(location->line[i]);
        location->line[i]->function_id = function_of(n, line);
        location->line[i]->line = line->line;
    }
}

/* Its mapping, when it has one and no names yet. */
static Perftools__Profiles__Mapping *nameless(const struct naming *n, const Perftools__Profiles__Location *location)
{
    const uint64_t *index = location->n_line ? NULL : et_map_find(&n->mappings, location->mapping_id);
    return index ? n->pprof->mapping[*index - 1] : NULL;
}

static void add_module(struct naming *n, const Perftools__Profiles__Mapping *mapping)
{
    const char *path = n->pprof->string_table[mapping->filename], *id = n->pprof->string_table[mapping->build_id];
    char *clean_path = et_clean(path, strlen(path)), *clean_id = et_clean(id, strlen(id));
    et_profile_module(n->profile, clean_id, clean_path);
    free(clean_path);
    free(clean_id);
}

/* Frame i + 1 of the profile is location i. Frame 0 is the root's. */
static void make_frames(struct naming *n)
{
    const et_pprof *p = n->pprof;
    for (size_t i = 0; i < p->n_location; i++) {
        const Perftools__Profiles__Mapping *mapping = nameless(n, p->location[i]);
        struct et_frame frame = {0};
        if (mapping) {
            frame.module = (uint32_t)*et_map_find(&n->mappings, mapping->id);
            frame.address = et_pprof_elf_address(mapping, p->location[i]->address);
        }
        et_profile_frame(n->profile, frame);
    }
}

static void number_tables(struct naming *n)
{
    et_pprof *p = n->pprof;
    /* The table is somebody else's allocation of exactly its size. */
    n->text_capacity = p->n_string_table;
    n->function_capacity = p->n_function;
    for (size_t i = 0; i < p->n_mapping; i++) {
        *et_map_at(&n->mappings, p->mapping[i]->id) = i + 1;
        add_module(n, p->mapping[i]);
    }
    for (size_t i = 0; i < p->n_function; i++) {
        n->last_function = p->function[i]->id > n->last_function ? p->function[i]->id : n->last_function;
    }
}

size_t et_pprof_add_names(et_pprof *pprof, struct et_symbols *symbols, size_t *without)
{
    struct naming n = {.pprof = pprof, .profile = et_profile_new()};
    size_t with = 0;
    number_tables(&n);
    make_frames(&n);
    et_symbolize(symbols, n.profile);
    *without = 0;
    for (size_t i = 0; i < pprof->n_location; i++) {
        Perftools__Profiles__Mapping *mapping = nameless(&n, pprof->location[i]);
        if (mapping) {
            const struct et_module *module = &n.profile->modules[n.profile->frames[i + 1].module - 1];
            const struct et_strings *strings = &n.profile->strings;
            bool known = et_symbols_quality(symbols, et_text(strings, module->build_id), et_text(strings, module->path),
                                            NULL) > 0;
            with += known;
            *without += !known;
            add_lines(&n, pprof->location[i], &n.profile->frames[i + 1]);
            mapping->has_functions = mapping->has_filenames = mapping->has_line_numbers = true;
            mapping->has_inline_frames = true;
        }
    }
    et_map_free(&n.mappings);
    et_map_free(&n.texts);
    et_map_free(&n.functions);
    et_profile_free(n.profile);
    return with;
}
