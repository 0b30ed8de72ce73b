/*
 * A profile in memory: modules, frames, stacks as a tree of nodes, a value per node. It does not depend on the source
 * (the database, a pprof file) or the output (table, flame graph, pprof).
 */
#ifndef ET_PROFILE_H
#define ET_PROFILE_H

#include "tools/lib/util.h"

/* Maximum stack depth, in frames. */
#define ET_MAX_DEPTH 1024

struct et_module {
    uint32_t build_id; /* string number: lower-case hex, "" when unknown */
    uint32_t path;
};

/* A function, file and line of a frame: lines[first_line .. + line_count), innermost (inlined) first. Symbolizing adds
 * them. */
struct et_line {
    uint32_t function; /* string number, never "" */
    uint32_t file;     /* "" when unknown */
    uint32_t line;
};

struct et_frame {
    uint32_t module;  /* index + 1 into modules; 0: none, and an address < 256 is a special frame */
    uint64_t address; /* ELF address */
    uint32_t name;    /* the name the sender gave; "": symbolize the address */
    uint32_t file;
    uint32_t line;
    uint32_t first_line, line_count;
    bool unnamed; /* symbolized without success: its only line is "module+0x1234" */
};

struct et_node {
    uint32_t parent; /* smaller than the node's own index; node 0 is the root */
    uint32_t frame;
    uint64_t self; /* in the shown measure, sum of the node's entries */
};

/* The values of one stack, given by its leaf node, with one set of labels. */
struct et_entry {
    uint32_t node;
    uint32_t labels;       /* string number: label lines (labels.h); "": none, or not requested */
    uint64_t count, value; /* count 0: unknown */
};

/* Which of an entry's two values is shown. */
enum et_measure {
    ET_MEASURE_DEFAULT, /* the value; the count for kinds with only counts */
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
    struct et_entry *label_sums; /* node 0; the sum of each set of labels before filtering */
    size_t label_count, label_capacity;

    uint32_t service, kind;   /* string numbers; kind "cpu" */
    uint32_t unit;            /* of the shown measure: "nanoseconds" */
    uint32_t value_unit;      /* of values */
    bool by_line;             /* lines are named "function file:line"; granularity.h */
    enum et_measure measure;  /* never ET_MEASURE_DEFAULT after et_profile_show() */
    uint64_t total;           /* of the shown measure */
    uint64_t values, counts;  /* sums over the entries */
    uint64_t samples;         /* stacks captured; 0: unknown */
    uint64_t period;          /* the latest, in units; 0: unknown */
    int64_t start_ns, end_ns; /* Unix time of the data's range */
    int64_t began_ns;         /* Unix time when the first of its processes began; 0: unknown */
    int64_t covered_ns;       /* time of that range with data; 0: unknown */
    uint64_t profiles;        /* number of merged profiles */
    uint64_t damaged;         /* number of stored profiles that cannot be read and were left out */
    uint64_t processes;       /* number of their processes; 0: unknown */
    int64_t ran_ns;           /* time that they ran, added over them; 0: unknown */
    uint64_t names_pending;   /* frames without a name whose name may still come; symbols.h */
};

/* A profile with only its root node. */
struct et_profile *et_profile_new(void);
void et_profile_free(struct et_profile *profile);
/* Gives back memory beyond what it has, for a profile that is kept as it is. */
void et_profile_trim(struct et_profile *profile);
/* Bytes of memory that it takes, about. */
size_t et_profile_memory(const struct et_profile *profile);

/* Append and return the index (modules: index + 1, as et_frame.module). */
uint32_t et_profile_module(struct et_profile *profile, const char *build_id, const char *path);
uint32_t et_profile_frame(struct et_profile *profile, struct et_frame frame);
uint32_t et_profile_node(struct et_profile *profile, uint32_t parent, uint32_t frame);
void et_profile_entry(struct et_profile *profile, const struct et_entry *entry);
void et_profile_line(struct et_profile *profile, struct et_frame *frame, const char *function, const char *file,
                     uint32_t line);

/* Whether the count is shown. kind: may be NULL (not in kinds.h). values, counts: the profile's sums. */
struct et_kind;
bool et_measure_counts(const struct et_kind *kind, enum et_measure measure, uint64_t values, uint64_t counts);

/* Sets the nodes' self values, total and unit to the measure. */
void et_profile_show(struct et_profile *profile, enum et_measure measure);

/* The entry's value in the shown measure. */
uint64_t et_entry_shown(const struct et_profile *profile, const struct et_entry *entry);

/* Calls line() for each line of the frame, innermost first: its symbolized lines, else the sender's name, else the
 * special frame's name, else "module+0x1234". bare: without the last, unless the address is 0. */
void et_profile_lines(const struct et_profile *profile, const struct et_frame *frame, bool bare,
                      void (*line)(void *context, const char *function, const char *file, uint32_t line),
                      void *context);

/* Appends "module+0x1234". */
void et_address_name(const char *path, uint64_t address, struct et_buf *name);

/* The name of a special frame, an address below 256 outside every module: "[truncated]". */
void et_special_name(uint64_t address, char name[32]);

#endif
