/*
 * OTLP profiles (proto/otlp.proto): several profiles that share one dictionary. Nothing is in a table twice, and
 * nothing that no sample uses.
 */
#ifndef ET_OTLP_H
#define ET_OTLP_H

#include "tools/profile/profile.h"

struct et_otlp;

struct et_otlp *et_otlp_new(bool bare);

/* One figure of a profile, for OTLP has one sample type a profile. */
struct et_otlp_type {
    bool count; /* the entries' counts, else their values */
    const char *type, *unit, *period, *period_unit;
    uint8_t id[16]; /* of the profile that it becomes */
};

/* The process that was measured. tags: lines (labels.h). */
struct et_otlp_process {
    const char *service, *tags, *host, *executable, *arch;
};

/* Adds the profile once for each type; returns how many of them have a sample. */
size_t et_otlp_add(struct et_otlp *otlp, const struct et_otlp_process *process, const struct et_profile *profile,
                   const struct et_otlp_type *types, size_t count);
size_t et_otlp_size(const struct et_otlp *otlp);

/* Appends the request and frees. */
void et_otlp_finish(struct et_otlp *otlp, struct et_buf *out);

#endif
