/* Converts pprof (core/proto/pprof.proto) to struct et_profile and back. Both sides use uncompressed bytes. */
#ifndef ET_PPROF_READ_H
#define ET_PPROF_READ_H

#include "tools/formats/protobuf_budget.h"
#include "tools/lib/kinds.h"
#include "tools/profile/profile.h"
#include "pprof.pb-c.h"

typedef Perftools__Profiles__Profile et_pprof;

/* Decodes and checks every reference. NULL: malformed, *why says how. Of a sample that is malformed n_value becomes 0,
 * and *why says that such samples are left out; a pprof with no other samples is malformed. */
et_pprof *et_pprof_decode(const void *bytes, size_t size, const char **why);
void et_pprof_free(et_pprof *pprof);

/* The same for a pprof that is only read, which takes less time. It belongs to the arena (zeroed): et_arena_free()
 * frees it, also after a failure. */
et_pprof *et_pprof_decode_in(struct et_arena *arena, const void *bytes, size_t size, const char **why);

/* A kind of profile in a pprof: the sample types of its value and its count. */
struct et_pprof_kind {
    char name[ET_KIND_NAME], unit[64]; /* clean; name: of kinds.h if possible, else the sample type's or its id */
    int value, count;                  /* sample types, -1: none */
    uint64_t factor;                   /* of the sender's values: 1000 for microseconds */
    uint64_t scale;                    /* value per count when there is no value; 0: unknown */
};

/* Limits: sample types, frames and labels of a sample, bytes of a sample's labels. */
enum { ET_PPROF_KINDS = 16, ET_PPROF_FRAMES = 1 << 16, ET_PPROF_LABELS = 128, ET_PPROF_LABEL_BYTES = 16384 };

#define ET_PPROF_BAD_SAMPLE "pprof: samples with an invalid reference, or another number of values, are left out"
#define ET_PPROF_TOO_LARGE  "pprof: values are too large"
#define ET_PPROF_BELOW_ZERO "pprof: values below zero, a difference of two profiles, are not kept"

/* Lists the kinds of a pprof. hint: "mutex" or "block", the meaning of contentions, or "". Returns their number, at
 * least 1. */
size_t et_pprof_kinds(const et_pprof *pprof, const char *hint, struct et_pprof_kind kinds[ET_PPROF_KINDS]);

/* The same for a sender that Grafana asks by the sender's own ids: a type whose id is not the one that we give to its
 * kind becomes its own kind, named by its id. family: the id's first part. */
size_t et_pprof_sent_kinds(const et_pprof *pprof, const char *family, struct et_pprof_kind kinds[ET_PPROF_KINDS]);

/* The first part of the ids when the sender does not tell it, as Pyroscope finds it: from the sample types' names, or
 * from those that the form's sample_type_config displays (display(context, type), NULL: none). "": by the kinds. */
const char *et_pprof_family(const et_pprof *pprof, const char *(*display)(void *context, const char *type),
                            void *context);

/* Converts one kind to a profile. NULL: it has values below zero, or its sums do not fit 63 bits; *why says so. */
struct et_profile *et_pprof_profile(const et_pprof *pprof, const struct et_pprof_kind *kind, const char **why);

/* The period in our units (kinds.h); 0: none, or it does not fit. */
uint64_t et_pprof_period(const et_pprof *pprof);

/* The parts of et_pprof_profile() that need only the pprof's types and times: for senders of other formats with pprof's
 * types. The first begins a profile of the kind without entries. The second gives an entry's value our unit, or
 * completes it from its count; false: too large. The third returns the sample type that counts the samples of the kind,
 * -1: none. */
struct et_profile *et_pprof_begin(const et_pprof *pprof, const struct et_pprof_kind *kind);
bool et_pprof_values(const struct et_pprof_kind *kind, struct et_entry *entry);
int et_pprof_samples_type(const et_pprof *pprof, const struct et_pprof_kind *kind);

/* The ELF address of a location. Senders that know it leave the mapping's range empty; else the address is converted to
 * an offset in the file. */
uint64_t et_pprof_elf_address(const Perftools__Profiles__Mapping *mapping, uint64_t address);

/* The meaning of contentions in a pprof that edgeprof wrote, which the names do not show; "": of another. */
const char *et_pprof_hint(const et_pprof *pprof);

/* The text of edgeprof's own note with this name; "": none. Valid until the pprof is freed. */
const char *et_pprof_note(const et_pprof *pprof, const char *name);

/* Encodes a symbolized profile as pprof. */
void et_pprof_encode(const struct et_profile *profile, struct et_buf *out);

/* A label in the form that a reader requires. */
struct et_pprof_label {
    char key[128];
    const char *text; /* NULL: a number */
    uint64_t number;
};

/* Options for readers with special requirements. */
struct et_pprof_form {
    const char *count, *value; /* sample types; "": omitted */
    const char *unit;          /* of the value; NULL: the profile's */
    const char *period, *period_unit;
    bool level;            /* an amount at a point in time: no duration */
    bool bare;             /* encode frames without lines as addresses, without a name */
    const char *root;      /* name of one more frame at the root of each stack; NULL: none */
    size_t depth;          /* maximum frames per stack, keeps those next to the root; 0: unlimited */
    size_t first, entries; /* range of the profile's entries */
    uint64_t shift_ns;     /* added to the time, so that two pieces of a profile differ */
    /* False: omit the label. A key that the sample already has is omitted, too. */
    bool (*label)(void *context, const char *key, const char *value, struct et_pprof_label *out);
    void *context;
};

/* Appends the pprof; its tables have no unused elements. Returns the number of samples; samples with all values zero
 * are omitted. */
size_t et_pprof_encode_form(const struct et_profile *profile, const struct et_pprof_form *form, struct et_buf *out);

#endif
