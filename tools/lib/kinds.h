/*
 * The kinds of profiles: one table with their units and their names in pprof. All code that shows, selects or converts
 * profiles takes the names from here.
 */
#ifndef ET_KINDS_H
#define ET_KINDS_H

#include "tools/lib/util.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct et_kind {
    uint32_t number;    /* enum Kind of the compact format; 0: derived by this tool */
    const char *name;   /* "alloc" */
    const char *title;  /* "Allocation" */
    const char *unit;   /* of the value: "bytes", "nanoseconds", "count" */
    const char *counts; /* unit of the count: "objects"; "": the value is a count itself */
    const char *family; /* pprof: metric name, "memory" */
    const char *count;  /* pprof: sample type of the count, "alloc_objects" */
    const char *value;  /* pprof: sample type of the value, "alloc_space"; "": only a count */
    const char *period; /* pprof: period type and unit */
    const char *period_unit;
    bool level; /* an amount at a point in time, not a sum over time */
};

#define ET_CPU "cpu"
/* CPU time plus wait time. */
#define ET_WALL "wall"

/* NULL: no such name or number. */
const struct et_kind *et_kind_named(const char *name);
const struct et_kind *et_kind_numbered(uint32_t number);

/* The unit in which profiles hold values of a sender's unit ("nanoseconds" for "ms", "bytes" for "kB"), and *factor,
 * the size of the sender's unit in it. The units are those that `go tool pprof` scales; others stay, with factor 1. */
const char *et_unit_base(const char *unit, uint64_t *factor);

/* The kind of a pprof sample type; *is_count: the type is the kind's count. hint: metric name of the profile, which
 * distinguishes "mutex" from "block"; may be "". unit: a sender's. NULL: not a kind of the
 * table. */
const struct et_kind *et_kind_of_pprof(const char *hint, const char *type, const char *unit, bool *is_count);

/* The parts of a profile type's id, name:sample_type:sample_unit:period_type:period_unit. */
struct et_kind_id {
    const char *family, *type, *unit, *period, *period_unit;
};

enum { ET_KIND_NAME = 160 };

/* The name under which a sender's type is kept when that type's id is not the one that we give to its kind: the id
 * itself in our units, so that it stays the one to ask for. known: its kind of the table, or NULL. False: the kind's
 * own name serves (also for CPU and wall time of every family, for the ids of Pyroscope's .NET profiler, and without a
 * period), or the id is too long. */
bool et_kind_keeps_id(const struct et_kind *known, const struct et_kind_id *id, char name[ET_KIND_NAME]);

/* Appends a kind's title. A sender's own kind gets words: "Made up (family)" for family:made_up:... */
void et_kind_title(const char *name, struct et_buf *out);

/* The table, for lists in help texts. */
extern const struct et_kind et_kinds[];
extern const size_t et_kind_count;

/* 1234567890 ns as "1.23s", bytes as "1.18GiB", other units as they are. */
void et_value_text(uint64_t value, const char *unit, char text[32]);

/* Numbers of special frames and of loss reasons (core/proto/names.def). */
enum et_special {
#define EP_NAME_FRAME(identifier, number, name, meaning) ET_FRAME_##identifier = (number),
#include "core/proto/names.def"
    ET_FRAME_SPECIALS
};
enum et_loss {
#define EP_NAME_LOSS(identifier, number, name, meaning) ET_LOSS_##identifier = (number),
#include "core/proto/names.def"
};

/* The name of a loss reason: "ring full". */
const char *et_loss_name(uint32_t reason);

/* Whether what a loss counts is in the profiles, with less detail: a place, a tag or a name is missing. */
bool et_loss_kept(uint32_t reason);

#endif
