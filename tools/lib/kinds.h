/*
 * What can be measured: one table of kinds, their units, and their names in pprof. Everything that shows, asks for or
 * converts a profile uses the names from here.
 */
#ifndef ET_KINDS_H
#define ET_KINDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct et_kind {
    uint32_t number;    /* enum Kind of the compact format; 0: only made here */
    const char *name;   /* "alloc" */
    const char *title;  /* "Allocation" */
    const char *unit;   /* of the value: "bytes", "nanoseconds", "count" */
    const char *counts; /* what the count counts: "objects"; "" when the value is one already */
    const char *family; /* pprof: metric name, "memory" */
    const char *count;  /* pprof: sample type of the count, "alloc_objects" */
    const char *value;  /* pprof: sample type of the value, "alloc_space"; "" when the count is all */
    const char *period; /* pprof: period type and unit */
    const char *period_unit;
    bool level; /* what is there at a time, and no sum over time */
};

#define ET_CPU "cpu"
/* Time on the CPU and in waits together. */
#define ET_WALL "wall"

/* NULL: there is none of that name or number. */
const struct et_kind *et_kind_named(const char *name);
const struct et_kind *et_kind_numbered(uint32_t number);

/* Which kind a pprof sample type is of, and whether it is the count of it. hint: metric name of the profile, tells
 * "mutex" from "block"; may be "". NULL: none of ours. */
const struct et_kind *et_kind_of_pprof(const char *hint, const char *type, const char *unit, bool *is_count);

/* The table, for lists in help texts. */
extern const struct et_kind et_kinds[];
extern const size_t et_kind_count;

/* 1234567890 ns as "1.23s", bytes as "1.18GiB", other units as they are. */
void et_value_text(uint64_t value, const char *unit, char text[32]);

/* The name of a reason of losses: "ring full". */
const char *et_loss_name(uint32_t reason);

#endif
