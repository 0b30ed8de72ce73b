/* Builds a pprof while another program's file is read; and the readers of foreign.h. */
#ifndef ET_FOREIGN_PPROF_H
#define ET_FOREIGN_PPROF_H

#include "tools/lib/util.h"

/* Types of values, as pprof_read.h accepts them; frames of a stack. */
enum { ET_FOREIGN_TYPES = 16, ET_FOREIGN_DEPTH = 4096 };

struct et_foreign_sample {
    size_t first, depth; /* its locations in `stacks`, leaf first */
    uint64_t values[ET_FOREIGN_TYPES];
    uint32_t label; /* string number of the label `thread`; 0: none */
};

struct et_foreign_mapping {
    uint64_t start, end, offset;
    uint32_t path;
};

/* Zeroed: empty. */
struct et_foreign_pprof {
    struct et_strings strings;
    struct {
        uint32_t name, unit;
    } types[ET_FOREIGN_TYPES];
    size_t type_count;
    struct et_map functions; /* name << 32 | file -> id */
    struct et_map locations; /* function id << 32 | line -> id */
    struct et_map addresses; /* address -> id */
    struct et_buf function_bytes, location_bytes;
    struct et_map address_of; /* id -> address */
    uint64_t function_count, location_count;
    struct et_foreign_mapping *mappings;
    size_t mapping_count, mapping_capacity;
    uint64_t *stacks;
    size_t stack_size, stack_capacity;
    struct et_foreign_sample *samples;
    size_t sample_count, sample_capacity;
    uint64_t period, duration_ns;
    const char *service, *kind; /* edgeprof's notes; NULL: none */
};

/* The number of a type, a new one if necessary. ET_FOREIGN_TYPES: there are too many. */
size_t et_foreign_type(struct et_foreign_pprof *out, const char *name, const char *unit);

/* A location's id: of a function, or of an address that a mapping may explain. name: size bytes. */
uint64_t et_foreign_function(struct et_foreign_pprof *out, const char *name, size_t size, const char *file,
                             uint32_t line);
uint64_t et_foreign_address(struct et_foreign_pprof *out, uint64_t address);

/* Begins a sample, to which et_foreign_push() adds locations, the leaf first. Valid until the next call. */
struct et_foreign_sample *et_foreign_sample(struct et_foreign_pprof *out);
/* Ignored beyond ET_FOREIGN_DEPTH frames. */
void et_foreign_push(struct et_foreign_pprof *out, uint64_t location);

/* Adds the executable files of a process's map, as /proc/PID/maps has them; other lines are ignored. */
void et_foreign_maps(struct et_foreign_pprof *out, const char *text, size_t size);

/* Appends the pprof. */
void et_foreign_encode(struct et_foreign_pprof *from, struct et_buf *out);
void et_foreign_free(struct et_foreign_pprof *pprof);

/* The readers. False: see *why. */
bool et_perf_script_read(const char *text, size_t size, struct et_foreign_pprof *out, struct et_buf *why);
bool et_perf_script_is(const char *text, size_t size);
bool et_speedscope_read(const char *text, size_t size, struct et_foreign_pprof *out, struct et_buf *why);
bool et_gperftools_cpu_read(const char *bytes, size_t size, struct et_foreign_pprof *out, struct et_buf *why);
bool et_gperftools_cpu_is(const char *bytes, size_t size);
bool et_gperftools_heap_read(const char *text, size_t size, struct et_foreign_pprof *out, struct et_buf *why);

#endif
