/*
 * A profile in memory: modules, frames, stacks as a tree of nodes, a value per node. Where it comes from (the store, a
 * pprof file) and where it goes (top table, flame graph, pprof) does not matter here.
 */
#ifndef ET_PROFILE_H
#define ET_PROFILE_H

#include "util.h"

/* Deepest stack that is taken from anywhere, in frames. */
#define ET_MAX_DEPTH 1024

struct et_module {
    uint32_t build_id; /* string number: lower-case hex, "" when unknown */
    uint32_t path;
};

/* Where a frame's names are: lines[first_line .. + line_count), innermost (inlined) first. Filled by symbolizing. */
struct et_line {
    uint32_t function; /* string number, never "" */
    uint32_t file;     /* "" when unknown */
    uint32_t line;
};

struct et_frame {
    uint32_t module;  /* index + 1 into modules; 0: none, then address < 256 is a special frame */
    uint64_t address; /* ELF address */
    uint32_t name;    /* given by the sender, else "" and to be found */
    uint32_t file;
    uint32_t line;
    uint32_t first_line, line_count;
};

struct et_node {
    uint32_t parent; /* smaller than the node's own index; node 0 is the root */
    uint32_t frame;
    uint64_t self;
};

struct et_profile {
    struct et_strings strings;
    struct et_module *modules;
    size_t module_count, module_capacity;
    struct et_frame *frames;
    size_t frame_count, frame_capacity;
    struct et_node *nodes;
    size_t node_count, node_capacity;
    struct et_line *lines;
    size_t line_count, line_capacity;

    uint32_t service, kind, unit; /* string numbers; kind "cpu", unit "nanoseconds" */
    uint64_t total;               /* sum of all values */
    uint64_t samples;             /* stacks captured; 0: unknown */
    uint64_t period;              /* mean, in units; 0: unknown */
    int64_t start_ns, end_ns;     /* unix time that the data covers */
    uint64_t profiles;            /* merged into this one */
};

/* A profile with nothing but its root node. */
struct et_profile *et_profile_new(void);
void et_profile_free(struct et_profile *profile);

/* Append and return the index (modules: index + 1, as frames want it). */
uint32_t et_profile_module(struct et_profile *profile, const char *build_id, const char *path);
uint32_t et_profile_frame(struct et_profile *profile, struct et_frame frame);
uint32_t et_profile_node(struct et_profile *profile, uint32_t parent, uint32_t frame);
void et_profile_line(struct et_profile *profile, struct et_frame *frame, const char *function, const char *file,
                     uint32_t line);

/* "[truncated]" and the like for addresses below 256 outside every module. */
void et_special_name(uint64_t address, char name[32]);

#endif
