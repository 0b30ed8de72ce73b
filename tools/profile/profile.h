/*
 * A profile in memory: modules, frames, stacks as a tree of nodes, a value per node. Where it comes from (the store, a
 * pprof file) and where it goes (top table, flame graph, pprof) does not matter here.
 */
#ifndef ET_PROFILE_H
#define ET_PROFILE_H

#include "tools/lib/util.h"

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
    uint64_t self; /* of what is shown, the sum of the node's entries */
};

/* What was measured at a stack, named by its leaf node, with one set of labels. */
struct et_entry {
    uint32_t node;
    uint32_t labels;       /* string number: lines of labels (labels.h), "" none or not asked for */
    uint64_t count, value; /* count 0: unknown */
};

/* Which of an entry's two figures is shown. */
enum et_measure {
    ET_MEASURE_DEFAULT, /* the value, or the count when there is nothing else */
    ET_MEASURE_VALUE,
    ET_MEASURE_COUNT,
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
    struct et_entry *entries;
    size_t entry_count, entry_capacity;
    struct et_entry *label_sums; /* node 0; what each set of labels had before any was left out */
    size_t label_count, label_capacity;

    uint32_t service, kind;   /* string numbers; kind "cpu" */
    uint32_t unit;            /* of what is shown: "nanoseconds" */
    uint32_t value_unit;      /* of values */
    enum et_measure measure;  /* what is shown; never ET_MEASURE_DEFAULT once et_profile_show() was called */
    uint64_t total;           /* of what is shown */
    uint64_t values, counts;  /* sums of both figures */
    uint64_t samples;         /* stacks captured; 0: unknown */
    uint64_t period;          /* the latest, in units; 0: unknown */
    int64_t start_ns, end_ns; /* unix time that the data covers */
    uint64_t profiles;        /* merged into this one */
    uint64_t processes;       /* that they are from; 0: unknown */
};

/* A profile with nothing but its root node. */
struct et_profile *et_profile_new(void);
void et_profile_free(struct et_profile *profile);

/* Append and return the index (modules: index + 1, as frames want it). */
uint32_t et_profile_module(struct et_profile *profile, const char *build_id, const char *path);
uint32_t et_profile_frame(struct et_profile *profile, struct et_frame frame);
uint32_t et_profile_node(struct et_profile *profile, uint32_t parent, uint32_t frame);
void et_profile_entry(struct et_profile *profile, const struct et_entry *entry);
void et_profile_line(struct et_profile *profile, struct et_frame *frame, const char *function, const char *file,
                     uint32_t line);

/* Whether the count is shown of a kind (kinds.h, NULL: none of ours) whose sums are these. */
struct et_kind;
bool et_measure_counts(const struct et_kind *kind, enum et_measure measure, uint64_t values, uint64_t counts);

/* Sets the nodes' own figures, total and unit to the measure that was asked for. */
void et_profile_show(struct et_profile *profile, enum et_measure measure);

/* The figure of an entry that is shown. */
uint64_t et_entry_shown(const struct et_profile *profile, const struct et_entry *entry);

/* Calls line() for each line that the frame is shown with, innermost first: its own, else the name that its sender
 * gave, else that of a special frame, else "module+0x1234". bare: not that last one, unless the address is 0. */
void et_profile_lines(const struct et_profile *profile, const struct et_frame *frame, bool bare,
                      void (*line)(void *context, const char *function, const char *file, uint32_t line),
                      void *context);

/* Appends "module+0x1234". */
void et_address_name(const char *path, uint64_t address, struct et_buf *name);

/* "[truncated]" and the like for addresses below 256 outside every module. */
void et_special_name(uint64_t address, char name[32]);

#endif
