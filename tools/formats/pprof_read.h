/*
 * pprof (core/proto/pprof.proto) in and out of struct et_profile. Uncompressed bytes on both sides.
 */
#ifndef ET_PPROF_READ_H
#define ET_PPROF_READ_H

#include "tools/profile/profile.h"
#include "pprof.pb-c.h"

typedef Perftools__Profiles__Profile et_pprof;

/* Decodes and checks every reference. NULL: malformed, *why says in what way. */
et_pprof *et_pprof_decode(const void *bytes, size_t size, const char **why);
void et_pprof_free(et_pprof *pprof);

/* One kind of profile in a pprof: the sample types that are its value and its count. */
struct et_pprof_kind {
    char name[96], unit[64]; /* clean text; a kind of kinds.h where there is one for it, else the sample type's name */
    int value, count;        /* sample types, -1: none */
    uint64_t scale;          /* when there is no value: what one of the count stands for, 0: unknown */
};

enum { ET_PPROF_KINDS = 16 };

/* The kinds in it. hint: "mutex", "block": what contentions are of, or "". Returns their number, at least 1. */
size_t et_pprof_kinds(const et_pprof *pprof, const char *hint, struct et_pprof_kind kinds[ET_PPROF_KINDS]);

/* One of them as a profile. NULL: its sums do not fit 63 bits, *why. */
struct et_profile *et_pprof_profile(const et_pprof *pprof, const struct et_pprof_kind *kind, const char **why);

/* Senders that know the ELF address leave the mapping's range empty; else what there is is the offset in the file. */
uint64_t et_pprof_elf_address(const Perftools__Profiles__Mapping *mapping, uint64_t address);

/* What edgeprof itself has noted in a pprof under that name, "" when it has not. Valid as long as the pprof. */
const char *et_pprof_note(const et_pprof *pprof, const char *name);

/* A symbolized profile as pprof. */
void et_pprof_encode(const struct et_profile *profile, struct et_buf *out);

/* A label as a reader wants it. */
struct et_pprof_label {
    char key[128];
    const char *text; /* NULL: number */
    uint64_t number;
};

/* What a pprof for a reader with rules of its own looks like. */
struct et_pprof_form {
    const char *count, *value; /* sample types; "": that figure is left out */
    const char *period, *period_unit;
    bool level;            /* of a moment: without a duration */
    bool bare;             /* frames that have no line go out as addresses, without a name */
    size_t depth;          /* most frames of a stack, those next to the root are kept; 0: all */
    size_t first, entries; /* of the profile's entries */
    uint64_t shift_ns;     /* added to the time: two pieces of a profile are not of the same */
    /* false: the label is left out. A key that a sample has already is left out, too. */
    bool (*label)(void *context, const char *key, const char *value, struct et_pprof_label *out);
    void *context;
};

/* Appends the pprof. Only what is used is in its tables. Returns the number of samples, of which none is all zero. */
size_t et_pprof_encode_form(const struct et_profile *profile, const struct et_pprof_form *form, struct et_buf *out);

#endif
