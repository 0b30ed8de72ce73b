/*
 * OTLP profiles (proto/otlp.proto): several profiles with a common dictionary. No table has duplicate or unused
 * elements.
 */
#ifndef ET_OTLP_H
#define ET_OTLP_H

#include "tools/profile/profile.h"

struct et_otlp;

struct et_otlp *et_otlp_new(bool bare);

/* One measure of a profile, because an OTLP profile has only one sample type. */
struct et_otlp_type {
    bool count; /* use the entries' counts, not their values */
    bool level; /* an amount at a point in time: no duration */
    const char *type, *unit, *period, *period_unit;
    uint8_t id[16]; /* profile id */
};

/* The profiled process. tags: lines (labels.h). */
struct et_otlp_process {
    const char *scope; /* name of the instrumentation scope */
    const char *service, *tags, *host, *executable, *arch;
};

/* A part of a profile's entries. */
struct et_otlp_range {
    size_t first, entries;
    uint64_t shift_ns; /* added to the time, so that two parts differ */
};

/* Adds a range of the profile once per type. Returns the number of added profiles; a type without samples adds none. */
size_t et_otlp_add(struct et_otlp *otlp, const struct et_otlp_process *process, const struct et_profile *profile,
                   const struct et_otlp_range *range, const struct et_otlp_type *types, size_t count);

/* Appends the request to *out and frees otlp. */
void et_otlp_finish(struct et_otlp *otlp, struct et_buf *out);

#endif
