/*
 * pprof (tools/profile.proto) in and out of struct et_profile. Uncompressed bytes on both sides.
 */
#ifndef ET_WIRE_PPROF_H
#define ET_WIRE_PPROF_H

#include "profile.h"
#include "profile.pb-c.h"

typedef Edgeprof__Pprof__Profile et_pprof;

/* Decodes and checks every reference. NULL: malformed, *why says in what way. */
et_pprof *et_pprof_decode(const void *bytes, size_t size, const char **why);
void et_pprof_free(et_pprof *pprof);

/* The sample type that is shown when nothing else is asked for. */
size_t et_pprof_default_type(const et_pprof *pprof);

/* Whether a sample type only counts samples beside another that measures. */
bool et_pprof_is_count(const et_pprof *pprof, size_t type);

/* One sample type as a profile. NULL: its sum does not fit 63 bits, *why. Labels are not kept. */
struct et_profile *et_pprof_profile(const et_pprof *pprof, size_t type, const char **why);

/* A symbolized profile as pprof. */
void et_pprof_encode(const struct et_profile *profile, struct et_buf *out);

#endif
