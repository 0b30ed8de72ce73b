/* See fleet.h. et_fleet_add_profile() walks from each node with a value to the root, and counts each function of the
 * stack once. */
#include "tools/profile/fleet.h"

#include <stdlib.h>
#include <string.h>

size_t et_fleet_entry(struct et_fleet *fleet, const char *cohort, const char *device, enum et_side side)
{
    et_intern(&fleet->strings, "");
    struct et_buf key = {0};
    et_buf_printf(&key, "%s\n%s\n%d", cohort, device, side); /* names have no line ends */
    uint64_t *known = et_map_at(&fleet->index, et_intern(&fleet->strings, key.data));
    et_buf_free(&key);
    if (!*known) {
        fleet->entries = et_reserve(fleet->entries, &fleet->capacity, fleet->count + 1, sizeof *fleet->entries);
        fleet->entries[fleet->count] = (struct et_fleet_entry){
            .cohort = et_intern(&fleet->strings, cohort), .device = et_intern(&fleet->strings, device), .side = side};
        *known = ++fleet->count;
    }
    return (size_t)*known - 1;
}

static void add_cell(struct et_fleet *fleet, size_t entry, uint32_t function, double self, double total)
{
    struct et_fleet_entry *own = &fleet->entries[entry];
    uint64_t *known = et_map_at(&fleet->cells, (uint64_t)entry << 32 | function);
    if (!*known) {
        own->cells = et_reserve(own->cells, &own->capacity, own->count + 1, sizeof *own->cells);
        own->cells[own->count] = (struct et_fleet_cell){.function = function};
        *known = ++own->count;
    }
    own->cells[*known - 1].self += self;
    own->cells[*known - 1].total += total;
}

/* ---- profiles ---- */

struct splitter {
    struct et_fleet *fleet;
    const struct et_profile *profile;
    uint32_t *names; /* string number in the profile -> in the fleet + 1; 0: not known yet */
    size_t *entries; /* of each node: the entry + 1; 0: none */
    size_t *seen;    /* string number in the profile -> the last node whose stack has it */
};

static uint32_t fleet_name(struct splitter *s, uint32_t name)
{
    if (!s->names[name]) {
        s->names[name] = et_intern(&s->fleet->strings, et_text(&s->profile->strings, name)) + 1;
    }
    return s->names[name] - 1;
}

/* Adds the node's value to each function of its stack. */
static void add_stack(struct splitter *s, size_t node)
{
    const struct et_profile *p = s->profile;
    double value = (double)p->nodes[node].self;
    bool leaf = true;
    for (size_t at = node; at && p->nodes[at].parent; at = p->nodes[at].parent) {
        const struct et_frame *frame = &p->frames[p->nodes[at].frame];
        for (uint32_t i = 0; i < frame->line_count; i++) {
            uint32_t name = p->lines[frame->first_line + i].function;
            if (s->seen[name] != node) {
                s->seen[name] = node;
                add_cell(s->fleet, s->entries[node] - 1, fleet_name(s, name), leaf ? value : 0, value);
                leaf = false;
            }
        }
    }
}

static void add_nodes(struct splitter *s, size_t (*entry_of)(void *context, const char *process), void *context)
{
    const struct et_profile *p = s->profile;
    for (size_t i = 1; i < p->node_count; i++) {
        uint32_t parent = p->nodes[i].parent;
        if (parent == 0) {
            const char *process = et_text(&p->strings, p->frames[p->nodes[i].frame].name);
            s->entries[i] = entry_of(context, process) + 1; /* SIZE_MAX becomes 0 */
        } else {
            s->entries[i] = s->entries[parent];
        }
        if (s->entries[i] && p->nodes[i].self) {
            s->fleet->entries[s->entries[i] - 1].total += (double)p->nodes[i].self;
            add_stack(s, i);
        }
    }
}

/* Of CPU time the counts of stacks are periods, of which one sample may stand for several; how many samples there were
 * is known of all stacks together. */
static double samples_per_count(const struct et_profile *profile)
{
    bool fewer = profile->samples && profile->samples < profile->counts;
    return fewer ? (double)profile->samples / (double)profile->counts : 1;
}

void et_fleet_add_profile(struct et_fleet *fleet, const struct et_profile *profile,
                          size_t (*entry_of)(void *context, const char *process), void *context)
{
    struct splitter s = {.fleet = fleet, .profile = profile};
    const double scale = samples_per_count(profile);
    s.names = et_alloc(profile->strings.count, sizeof *s.names);
    s.seen = et_alloc(profile->strings.count, sizeof *s.seen);
    s.entries = et_alloc(profile->node_count, sizeof *s.entries);
    add_nodes(&s, entry_of, context);
    for (size_t i = 0; i < profile->entry_count; i++) {
        const struct et_entry *entry = &profile->entries[i];
        if (s.entries[entry->node]) {
            fleet->entries[s.entries[entry->node] - 1].samples += scale * (double)entry->count;
        }
    }
    free(s.names);
    free(s.seen);
    free(s.entries);
}

size_t et_fleet_memory(const struct et_fleet *fleet)
{
    size_t bytes = et_strings_memory(&fleet->strings) + fleet->capacity * sizeof *fleet->entries +
                   (fleet->cells.capacity + fleet->index.capacity) * sizeof(struct et_map_entry);
    for (size_t i = 0; i < fleet->count; i++) {
        bytes += fleet->entries[i].capacity * sizeof *fleet->entries[i].cells;
    }
    return bytes;
}

void et_fleet_free(struct et_fleet *fleet)
{
    for (size_t i = 0; i < fleet->count; i++) {
        free(fleet->entries[i].cells);
    }
    free(fleet->entries);
    et_strings_free(&fleet->strings);
    et_map_free(&fleet->index);
    et_map_free(&fleet->cells);
    *fleet = (struct et_fleet){0};
}
